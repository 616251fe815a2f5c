package plugin

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/plugin/dra"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/neural"
)

// learner is the plugin of a profile with LearnArgs. It explores, and listens to its own decisions
// to make an experience.Step of each that was bound.
type learner struct {
	*recorder
	epsilon exploration
	rng     *rand.Rand
	term    objective.Term
	sink    experience.Sink
	learned *learnMetrics
	actor   string // of the steps: this profile on this host
	epoch   uint64 // of the steps: when this learner started
	number  uint64 // of the last step
	waited  uint64 // pods that found no node at their first attempt
}

var (
	_ fwk.PostFilterPlugin = &learner{}
	_ fwk.ReservePlugin    = &learner{}
	_ fwk.PostBindPlugin   = &learner{}
	_ observer             = &learner{}
	_ decision.Listener    = &learner{}
)

// newLearner makes p explore, and starts the trainer when active is closed.
func newLearner(ctx context.Context, p *learnedScore, args LearnArgs, active <-chan struct{}) (*learner, error) {
	term, err := objective.Parse(args.Objective)
	if err != nil {
		return nil, err
	}
	l := &learner{
		recorder: newRecorder(ctx, p), term: term, learned: learnMetricsOf(p.profile),
		epsilon: exploration{now: args.InitEpsilon, decay: args.EpsilonDecay, final: args.FinalEpsilon},
		rng:     rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), // a restart must not repeat the draws of the last run
		actor:   actorOf(p.profile),
		epoch:   uint64(time.Now().UnixNano()),
	}
	log := logger(ctx).WithValues("profile", p.profile)
	l.sink = experience.StartPipe(ctx, experience.PipeConfig{
		Command: args.Trainer, Queue: queued, Clock: clock.RealClock{}, Begin: active,
		Sent:     l.learned.sent.Inc,
		Output:   func(line string) { log.Info("Trainer: " + line) },
		Reported: l.learned.reported,
		Ended: func(err error, again time.Duration) {
			l.learned.restarted()
			log.Error(err, "The trainer ended; scheduling goes on, and it is started again", "in", again)
		},
	})
	l.listen(ctx, l)
	p.observer, p.learns = l, true
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

// Close ends the trainer after it has written what it has learned; the framework calls it.
func (l *learner) Close() error {
	err := l.recorder.Close()
	l.sink.Close()
	return err
}

// noteKey holds the cycle's note, if the network decided.
const noteKey = dra.CycleKey[*note]("gnnsched/" + Name + "/step")

// note is the step of a scheduling cycle, before the node is chosen. Only the pod's own cycle writes to it.
type note struct {
	step     experience.Step // all but Number, Action, Before and After
	rows     []int32         // of the candidates, in the state's order
	scores   []float32       // of the candidates; exploration has raised the one that it chose
	requests cluster.Resources
}

// scored implements observer: it lets the recorder begin a decision, and explores if a network
// decides.
func (l *learner) scored(s *scoring) {
	l.recorder.scored(s)
	if s.reason == "" {
		if step, draw, learns := l.stepOf(s); learns {
			l.explore(s, step, draw)
		}
	}
}

// stepOf returns a step with the state that the network saw, and whether the candidate is to be drawn with the probabilities
// that the scores give. It has none of a heuristic or of a network that reads devices, which do not learn.
func (l *learner) stepOf(s *scoring) (step experience.Step, draw, learns bool) {
	d, is := s.decider.(*networkDecider)
	if !is || d.net.Architecture().Graph != checkpoint.ClusterGraph {
		return step, false, false
	}
	step.Features, draw = d.net.Layout().Hash(), d.net.Head() == checkpoint.ActorCritic
	if p, is := d.policy(s.view).(*neural.GraphPolicy); is {
		step.State = p.Graph(s.view.snapshot, s.view.pod, s.view.rows).Clone()
	}
	return step, draw, true
}

// explore notes a step with the state that the network saw, and may make another candidate the best one. With draw, the
// candidate is drawn with the probabilities that the scores give.
func (l *learner) explore(s *scoring, step experience.Step, draw bool) {
	step.Actor, step.Epoch, step.Waited, step.Network = l.actor, l.epoch, l.waited, s.decider.fingerprint()
	n := &note{step: step, rows: slices.Clone(s.view.rows), requests: s.view.pod.Requests}
	choice, explored := -1, false
	if draw {
		var log float32
		choice, log = policy.Sample(l.rng, s.raw)
		explored = choice != policy.Best(s.raw)
		n.step.Log = float64(log)
	} else if l.chance() {
		choice, explored = l.rng.IntN(len(s.raw)), true // counts even if the random node is the best one
	}
	noteKey.Write(s.state, n)
	if choice >= 0 {
		preferAnother(s.raw, choice) // the network may have given several nodes the best score
	}
	n.scores = slices.Clone(s.raw)
	if explored {
		l.learned.explored.Inc()
	}
}

// chance reports whether to choose a random node, which has probability epsilon.
func (l *learner) chance() bool {
	epsilon := l.epsilon.next()
	l.learned.epsilon.Set(epsilon)
	return l.rng.Float64() < epsilon
}

// PostFilter implements fwk.PostFilterPlugin: no node is feasible. It counts the pods that have to
// wait, each once: after its first attempt a pod has the condition PodScheduled. A pod whose resize is deferred has a node.
func (l *learner) PostFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod,
	_ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if pod.Spec.NodeName != "" {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Reason == v1.PodReasonUnschedulable {
			return nil, fwk.NewStatus(fwk.Unschedulable)
		}
	}
	l.waited++
	l.learned.waited.Inc()
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// Reserve implements fwk.ReservePlugin: a node is chosen, which is the step's action. It brings the
// mirror up to date first: while a group of pods is tried, the snapshot changes between PreScore and
// Reserve.
func (l *learner) Reserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if st := l.recorder.Reserve(ctx, state, pod, node); !st.IsSuccess() {
		return st
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if state.IsPodGroupSchedulingCycle() {
		return nil // a try
	}
	n, d := noteKey.Read(state), &decisionKey.Read(state).entry.decision
	if n == nil {
		if d.Fallback != "" { // the network did not choose: the next step must not seem to follow the one before
			l.number++
		}
		return nil
	}
	l.number++
	n.step.Number = l.number
	row, known := l.mirror.row[node]
	action := slices.Index(n.rows, row)
	if !known || action < 0 { // other scores chose a node that the network did not see
		l.learned.overruled.Inc()
		return nil
	}
	if n.scores[action] < n.scores[policy.Best(n.scores)] {
		l.learned.overruled.Inc()
		n.step.Overruled, n.step.Log = true, 0
	}
	infos, err := l.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return fwk.AsStatus(err)
	}
	l.mirror.sync(infos, false)   // not a try, see above
	l.attach(pod, &cluster.Pod{}) // rows that were converted again lack it
	n.step.Action = action
	n.step.Before, n.step.After = l.costs(row, pod.UID, n.requests)
	d.Step = n.step
	return nil
}

// Decided implements decision.Listener: it sends the decision's step to the sink.
func (l *learner) Decided(d decision.Decision) {
	step, has := d.Step.(experience.Step)
	switch {
	case !has: // a fallback, or a node that the network did not see
	case !d.Bound:
		l.learned.unbound.Inc()
	case !l.sink.Offer(step):
		l.learned.dropped.Inc()
	}
}

// missed counts the step of a decision that the learner was too slow to hear of.
func (l *learner) missed(d decision.Decision) {
	if d.Step != nil {
		l.learned.dropped.Inc()
	}
}

// costs returns the objective's cost without and with a pod on the node of a row. A pod of a group is
// on the snapshot's node already while the group is tried.
func (l *learner) costs(row int32, pod types.UID, r cluster.Resources) (before, after float64) {
	nodes := l.mirror.snapshot.Nodes
	was := nodes[row]
	nodes[row] = l.mirror.convert(l.mirror.infos[row], pod)
	nodes[row].Usage = was.Usage // else the terms about measured usage would leave out the chosen node
	nodes[row].Traffic = was.Traffic
	before = l.term.Cost(nodes)
	nodes[row].Add(r)
	if t := was.Traffic; t != nil {
		flows := t.Flows
		t.Place(row, l.mirror.snapshot.Peers)
		defer func() {
			t.Remove(row, l.mirror.snapshot.Peers)
			t.Flows = flows // without rounding errors
		}()
	}
	after = l.term.Cost(nodes)
	nodes[row] = was
	return before, after
}

// exploration is the probability of a random decision. It falls by a factor with each decision.
type exploration struct{ now, decay, final float64 }

// next returns the probability for the next decision.
func (e *exploration) next() float64 {
	now := e.now
	e.now = max(e.now*e.decay, e.final)
	return now
}

// preferAnother raises the score of candidate i just above the best one; the others keep theirs.
func preferAnother(raw []float32, i int) {
	best := raw[0]
	for _, v := range raw {
		best = max(best, v)
	}
	raw[i] = math.Nextafter32(best, math.MaxFloat32)
}
