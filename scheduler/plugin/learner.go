package plugin

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/policy/supply"
)

// learner is the plugin of a profile with LearnArgs. It explores, and listens to its own decisions
// to make an experience.Step of each that was bound.
type learner struct {
	*recorder
	epsilon exploration
	rng     *rand.Rand
	supply  supply.Table
	stars   *neural.KindStars
	sink    experience.Sink
	learned *learnMetrics
	actor   string // of the steps: this profile on this host
	epoch   uint64 // of the steps: when this learner started
	number  uint64 // of the last step
}

var (
	_ fwk.ReservePlugin  = &learner{}
	_ fwk.PostBindPlugin = &learner{}
	_ observer           = &learner{}
	_ decision.Listener  = &learner{}
)

// newLearner makes p explore, and starts the trainer when active is closed.
func newLearner(ctx context.Context, p *learnedScore, args LearnArgs, active <-chan struct{}) *learner {
	l := &learner{
		recorder: newRecorder(ctx, p), learned: learnMetricsOf(p.profile),
		epsilon: exploration{now: args.InitEpsilon, decay: args.EpsilonDecay, final: args.FinalEpsilon},
		rng:     rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), // a restart must not repeat the draws of the last run
		stars:   neural.NewKindStars(nil, true),
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
	p.observer = l
	return l
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

// scored implements observer: it lets the recorder begin a decision, adds the step, and explores, if a network that learns decided.
func (l *learner) scored(s *scoring) {
	l.recorder.scored(s)
	d, is := s.decider.(*networkDecider)
	if s.reason != "" || !is || d.net.Architecture().Graph != checkpoint.KindsGraph || s.view.snapshot.Demand == nil {
		return
	}
	if step := l.step(s.view.snapshot); step.Validate() == nil { // else nobody has counted a pod yet, or an owner asks for too much
		decisionKey.Read(s.state).decision.Step = step
	}
	l.explore(s)
}

// explore may make another candidate the best one.
func (l *learner) explore(s *scoring) {
	if l.chance() {
		preferAnother(s.total, l.rng.IntN(len(s.total)))
		l.learned.explored.Inc()
	}
}

// step returns a step, without its number, with the kinds of pods as they are before the placement.
func (l *learner) step(s *cluster.Snapshot) experience.Step {
	l.supply.Sync(s)
	l.stars.Look(&l.supply)
	seen, sums := l.stars.Seen()
	step := experience.Step{Actor: l.actor, Epoch: l.epoch, Cluster: sums}
	for i, k := range l.supply.Kinds {
		step.Kinds = append(step.Kinds, experience.Kind{
			Key: k.Hash(), Seen: seen[i], Waits: 100 * k.Waiting * objective.Share(k.Pod.Requests, l.supply.Capacity),
		})
	}
	return step
}

// chance reports whether to choose a random node, which has probability epsilon.
func (l *learner) chance() bool {
	epsilon := l.epsilon.next()
	l.learned.epsilon.Set(epsilon)
	return l.rng.Float64() < epsilon
}

// Reserve implements fwk.ReservePlugin: a node is chosen, so the step gets a number. A try of a pod group is no choice yet.
func (l *learner) Reserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if st := l.recorder.Reserve(ctx, state, pod, node); !st.IsSuccess() || state.IsPodGroupSchedulingCycle() {
		return st
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	d := &decisionKey.Read(state).entry.decision
	if step, has := d.Step.(experience.Step); has {
		l.number++
		step.Number = l.number
		d.Step = step
	}
	return nil
}

// Decided implements decision.Listener: it sends the decision's step to the sink.
func (l *learner) Decided(d decision.Decision) {
	step, has := d.Step.(experience.Step)
	switch {
	case !has: // a fallback, or a pod with one feasible node
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
