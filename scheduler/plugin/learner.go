package plugin

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
)

const decisionKey = fwk.StateKey("gnnsched/" + Name + "/decision")

// queued is how many steps may wait for the trainer, and how many bindings may be under way;
// on 5,000 nodes a step takes about a megabyte.
const queued = 64

// Learner is the plugin of a profile with LearnArgs. What explores hangs on it alone: New
// returns it for no other.
type Learner struct {
	*Plugin
	epsilon exploration
	rng     *rand.Rand
	term    objective.Term
	ledger  *ledger
	actor   string // of the steps: this profile on this host
	epoch   uint64 // of the steps: when this learner started
	sink    experience.Sink
	metrics learnMetrics
	waited  uint64 // pods that found no node when they were first tried
}

var (
	_ fwk.PostFilterPlugin = &Learner{}
	_ fwk.ReservePlugin    = &Learner{}
	_ fwk.PostBindPlugin   = &Learner{}
)

// newLearner makes p explore, and starts the trainer.
func newLearner(ctx context.Context, p *Plugin, args LearnArgs) (*Learner, error) {
	term, err := objective.Parse(args.Objective)
	if err != nil {
		return nil, err
	}
	l := &Learner{
		Plugin: p, term: term, metrics: learnMetricsOf(p.profile),
		epsilon: exploration{now: args.InitEpsilon, decay: args.EpsilonDecay, final: args.FinalEpsilon},
		rng:     rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), // a restart must not repeat the draws of the last run
	}
	l.actor, l.epoch = actorOf(p.profile), uint64(time.Now().UnixNano())
	log := logger(ctx).WithValues("profile", p.profile)
	l.sink = experience.StartPipe(ctx, experience.PipeConfig{
		Command: args.Trainer, Queue: queued, Clock: clock.RealClock{},
		Sent:   l.metrics.sent.Inc,
		Output: func(line string) { log.Info("Trainer: " + line) },
		Ended: func(err error, again time.Duration) {
			l.metrics.restarts.Inc()
			log.Error(err, "The trainer ended; scheduling goes on, and it is started again", "in", again)
		},
	})
	l.ledger = &ledger{limit: queued, send: l.send, lose: l.metrics.unbound.Inc}
	p.explore = l.explore
	return l, nil
}

// actorOf names a profile of this process among those of all schedulers that learn.
func actorOf(profile string) string {
	host, err := os.Hostname()
	if err != nil {
		return profile
	}
	return host + "/" + profile
}

func (l *Learner) send(s experience.Step) {
	if !l.sink.Offer(s) {
		l.metrics.dropped.Inc()
	}
}

// Close ends the trainer, after it has written what it has learned; the framework calls it.
func (l *Learner) Close() error {
	l.sink.Close()
	return nil
}

// decision is what the profile saw when it decided, kept until the pod is bound.
type decision struct {
	step     experience.Step // but for action and costs
	rows     []int32         // of the candidates, in the state's order
	requests cluster.Resources
	drawn    int32  // row of the node that the network's probabilities chose; -1 where none did
	entry    *entry // nil until a node is reserved
}

// Clone implements fwk.StateData: there is one decision a cycle.
func (d *decision) Clone() fwk.StateData { return d }

// explore notes the decision and may make another candidate the best one.
func (l *Learner) explore(state fwk.CycleState, pod *cluster.Pod, raw []float32) {
	d := &decision{
		step: experience.Step{Actor: l.actor, Epoch: l.epoch, State: l.learned.Graph(&l.mirror.snapshot, pod, l.rows).Clone(), Waited: l.waited, Network: l.net.Fingerprint()},
		rows: slices.Clone(l.rows), requests: pod.Requests, drawn: -1,
	}
	choice, explored := -1, false
	if l.net.Head() == checkpoint.ActorCritic {
		var log float32
		choice, log = policy.Sample(l.rng, raw)
		explored = choice != policy.Best(raw)
		d.step.Log, d.drawn = float64(log), l.rows[choice]
	} else if l.chance() {
		choice, explored = l.rng.IntN(len(raw)), true // even where chance picks the best
	}
	state.Write(decisionKey, d)
	if choice >= 0 {
		preferAnother(raw, choice) // alone: it may be one of several equals
	}
	if explored {
		l.metrics.explored.Inc()
	}
}

// chance tells whether this decision is left to chance, as a share epsilon of them is.
func (l *Learner) chance() bool {
	epsilon := l.epsilon.next()
	l.metrics.epsilon.Set(epsilon)
	return l.rng.Float64() < epsilon
}

// PostFilter implements fwk.PostFilterPlugin: no node is feasible. It notes who has to wait, each
// pod once: one that was tried before has the condition that upstream gives it then.
func (l *Learner) PostFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Reason == v1.PodReasonUnschedulable {
			return nil, fwk.NewStatus(fwk.Unschedulable)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waited++
	l.metrics.waited.Inc()
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// Reserve implements fwk.ReservePlugin: a node is chosen, so the step's action is known. It comes
// in the scheduling cycle, while the mirror is still as it was for PreScore.
func (l *Learner) Reserve(_ context.Context, state fwk.CycleState, _ *v1.Pod, node string) *fwk.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := read(state)
	if d == nil {
		return nil // the only feasible node, or upstream's choice
	}
	row, known := l.mirror.row[node]
	action := slices.Index(d.rows, row)
	if !known || action < 0 {
		return nil
	}
	if d.drawn >= 0 && d.drawn != row {
		l.metrics.overruled.Inc() // blended in scores chose: nobody knows with what probability
		return nil
	}
	d.step.Action = action
	d.step.Before, d.step.After = l.costs(row, d.requests)
	d.entry = l.ledger.open(d.step)
	return nil
}

// Unreserve implements fwk.ReservePlugin: the pod did not get the node.
func (l *Learner) Unreserve(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ string) {
	l.settle(state, false)
}

// PostBind implements fwk.PostBindPlugin: the pod has the node.
func (l *Learner) PostBind(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ string) {
	l.settle(state, true)
}

func (l *Learner) settle(state fwk.CycleState, bound bool) {
	if d := read(state); d != nil && d.entry != nil {
		l.ledger.settle(d.entry, bound)
	}
}

// read returns the cycle's decision; nil where the network made none.
func read(state fwk.CycleState) *decision {
	data, err := state.Read(decisionKey)
	if err != nil {
		return nil
	}
	return data.(*decision)
}

// costs are the objective's without and with a pod on the node of a row. It is evaluated
// twice, which learning alone pays for.
func (l *Learner) costs(row int32, r cluster.Resources) (before, after float64) {
	nodes := l.mirror.snapshot.Nodes
	before, was := l.term.Cost(nodes), nodes[row]
	nodes[row] = convertNode(l.mirror.infos[row])
	nodes[row].Add(r)
	after = l.term.Cost(nodes)
	nodes[row] = was
	return before, after
}
