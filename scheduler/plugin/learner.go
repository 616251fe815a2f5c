package plugin

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"gnnsched/gnn/graph"
	"gnnsched/scheduler/cluster"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/online"
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
	feed    *online.Feed
	metrics learnMetrics
}

var (
	_ fwk.ReservePlugin  = &Learner{}
	_ fwk.PostBindPlugin = &Learner{}
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
	log := logger(ctx).WithValues("profile", p.profile)
	l.feed = online.Start(ctx, online.Config{
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

func (l *Learner) send(s online.Step) {
	if !l.feed.Offer(s) {
		l.metrics.dropped.Inc()
	}
}

// Close ends the trainer, after it has written what it has learned; the framework calls it.
func (l *Learner) Close() error {
	l.feed.Close()
	return nil
}

// decision is what the profile saw when it decided, kept until the pod is bound.
type decision struct {
	state    *graph.Graph
	rows     []int32 // of the candidates, in the state's order
	requests cluster.Resources
	entry    *entry // nil until a node is reserved
}

// Clone implements fwk.StateData: there is one decision a cycle.
func (d *decision) Clone() fwk.StateData { return d }

// explore notes the decision and, for a share epsilon of them, makes a random candidate
// the best one.
func (l *Learner) explore(state fwk.CycleState, pod *cluster.Pod, raw []float32) {
	state.Write(decisionKey, &decision{
		state: l.learned.Graph(&l.mirror.snapshot, pod, l.rows).Clone(), rows: slices.Clone(l.rows), requests: pod.Requests,
	})
	epsilon := l.epsilon.next()
	l.metrics.epsilon.Set(epsilon)
	if l.rng.Float64() < epsilon {
		preferAnother(raw, l.rng.IntN(len(raw)))
		l.metrics.explored.Inc()
	}
}

// Reserve implements fwk.ReservePlugin: a node is chosen, so the step's action is known. It comes in the scheduling cycle, while the mirror is still as it was for PreScore.
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
	before, after := l.costs(row, d.requests)
	d.entry = l.ledger.open(online.Step{State: d.state, Action: action, Before: before, After: after})
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
