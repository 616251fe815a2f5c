package plugin

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"gnnsched/scheduler/plugin/canary"
	"gnnsched/scheduler/plugin/dra"
	"gnnsched/scheduler/plugin/nodereservation"
	"gnnsched/scheduler/plugin/traffic"
	"gnnsched/scheduler/usage"
)

// learnedScore is the plugin of one profile. It scores and does nothing else: recorder and learner
// add to it.
type learnedScore struct {
	profile  string
	active   activeDecider
	upstream *upstream
	metrics  profileMetrics
	observer observer
	canary   *canary.Split // nil if the decider decides about all pods

	preferences      *preferences // nil if the plugin does not look at them
	nodeReservations *nodereservation.Nodes

	mu sync.Mutex // scheduling cycles come one at a time; this keeps it so
	clusterView
	raw        []float32            // reused
	scored     uint64               // pods whose nodes were scored
	asked      *dra.Ask             // with which the last one's were
	complained map[string]time.Time // when each reason was last logged
}

// observer sees each decision between its raw scores and the choice of a node, in the scheduling
// cycle and under the plugin's lock.
type observer interface {
	// scored is called with the raw scores of the decider or, after a fallback, of upstream. It may
	// change them.
	scored(s *scoring)
}

// nobody is the observer of a profile without listeners.
type nobody struct{}

func (nobody) scored(*scoring) {}

var (
	_ fwk.PreFilterPlugin   = &learnedScore{}
	_ fwk.PreScorePlugin    = &learnedScore{}
	_ fwk.ScorePlugin       = &learnedScore{}
	_ fwk.EnqueueExtensions = &learnedScore{}
)

// newLearnedScore makes a plugin that nothing observes, and watches its checkpoint file until ctx
// ends.
func newLearnedScore(ctx context.Context, args Args, h fwk.Handle, reserved *reservations) (*learnedScore, error) {
	set.Register()
	profile := h.ProfileName()
	up, err := newUpstream(ctx, h)
	if err != nil {
		return nil, err
	}
	p := &learnedScore{
		profile: profile, upstream: up, metrics: metricsOf(profile), observer: nobody{},
		clusterView: clusterView{handle: h, ledger: dra.LedgerOf(ctx, h), mirror: mirror{reserved: reserved}},
		complained:  map[string]time.Time{},
	}
	if p.usage, err = usage.Start(ctx, args.Usage, h, logger(ctx)); err != nil {
		return nil, err
	}
	if p.traffic, err = traffic.Start(ctx, args.Traffic, h, logger(ctx)); err != nil {
		return nil, err
	}
	if p.preferences, err = newPreferences(ctx, args.Preferences, up, h); err != nil {
		return nil, err
	}
	nodes := h.SharedInformerFactory().Core().V1().Nodes().Informer()
	if p.nodeReservations, err = nodereservation.Watch(nodes, clock.RealClock{}); err != nil {
		return nil, err
	}
	logger(ctx).Info("Preferences of manifests", "profile", profile, "preferences", args.Preferences)
	if args.spreadsBesideTraffic() {
		logger(ctx).Info("Upstream's default topology spread is weighed against traffic, and pulls pods apart that talk to each other: "+
			"--preferences declared leaves it out", "profile", profile)
	}
	if err := p.chooseDecider(ctx, args); err != nil {
		return nil, err
	}
	return p, nil
}

// Name implements fwk.Plugin.
func (p *learnedScore) Name() string { return Name }

// PreFilter implements fwk.PreFilterPlugin. It keeps a pod to the nodes that are held for it, because kube-scheduler looks only at a part
// of the nodes of a large cluster. A pod that has a node is back for its resize.
func (p *learnedScore) PreFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod,
	nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if pod.Spec.NodeName != "" || !p.nodeReservations.Any() {
		return nil, fwk.NewStatus(fwk.Skip) // Filter too
	}
	if names := p.nodeReservations.Once(pod, nodes); names != nil {
		return &fwk.PreFilterResult{NodeNames: names}, nil
	}
	return nil, nil
}

// Filter implements fwk.FilterPlugin. It leaves the room on a node to the pods that the node is held for.
func (p *learnedScore) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if p.nodeReservations.Keeps(pod, node) {
		return fwk.NewStatus(fwk.Unschedulable, "room held for pods that are moved")
	}
	return nil
}

// PreFilterExtensions implements fwk.PreFilterPlugin. There are none.
func (p *learnedScore) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// EventsToRegister implements fwk.EnqueueExtensions. A pod that a hold keeps off a node, or to one where it does not fit, is
// tried again when a hold changes.
func (p *learnedScore) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeAnnotation}}}, nil
}

// PreScore implements fwk.PreScorePlugin. It takes the pod through the four stages of a decision, and keeps the node scores for Score.
func (p *learnedScore) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.begin(state, pod, nodes)
	s.group = p.groupOf(pod)
	if err := p.decideOn(ctx, s); err != nil || s.group == canary.Rest {
		p.scoreUpstream(ctx, s, err)
	}
	stateKey.Write(state, p.rank(s))
	return nil
}

// begin begins the scoring of the nodes for a pod.
func (p *learnedScore) begin(state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *scoring {
	if cap(p.raw) < len(nodes) {
		p.raw = make([]float32, 2*len(nodes))
	}
	p.scored++
	p.metrics.candidates.Observe(float64(len(nodes)))
	return &scoring{state: state, pod: pod, feasible: nodes, nodes: nodes, raw: p.raw[:len(nodes)], decider: p.active.load()}
}

// decideOn takes a pod through the first three stages: see.go turns the pod and the nodes into plain values, narrow.go leaves the nodes
// that may be chosen, and decide.go lets the decider score them. If that fails, decideOn sets s.reason. For a pod of the canary's rest
// it ends before the decider.
func (p *learnedScore) decideOn(ctx context.Context, s *scoring) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.reason, err = reasonPanic, fmt.Errorf("%s panicked: %v", s.decider.label(), r)
		}
		if s.reason == reasonPanic || s.reason == reasonNotFinite {
			p.forget(s.decider) // what is kept between decisions may be damaged
		}
	}()
	if err := p.see(ctx, s); err != nil {
		s.reason = reasonSnapshot
		return err
	}
	p.narrow(ctx, s)
	p.count(&s.view, s.decider, !s.onlyAsks)
	if s.group == canary.Rest {
		return nil
	}
	return p.decide(ctx, s)
}

// groupOf returns the group of a pod; empty without a canary.
func (p *learnedScore) groupOf(pod *v1.Pod) canary.Group {
	if p.canary == nil {
		return ""
	}
	return p.canary.GroupOf(pod)
}

// logAgain is how long a reason is not logged again: a thousand pods a second may have it.
const logAgain = 10 * time.Second

func (p *learnedScore) complain(ctx context.Context, s *scoring, reason string, err error, what string) {
	p.complainOf(ctx, klog.KObj(s.pod), reason, err, what)
}

// complainOf logs an error about a pod, unless one with the same reason was logged just before.
func (p *learnedScore) complainOf(ctx context.Context, pod klog.ObjectRef, reason string, err error, what string) {
	if last, before := p.complained[reason]; before && time.Since(last) < logAgain {
		return
	}
	p.complained[reason] = time.Now()
	logger(ctx).Error(err, what, "profile", p.profile, "reason", reason, "pod", pod)
}

// Score implements fwk.ScorePlugin.
func (p *learnedScore) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	s := stateKey.Read(state)
	if s == nil {
		return 0, fwk.AsStatus(fwk.ErrNotFound)
	}
	return int64(s.byRow[s.row[node.Node().Name]]), nil
}

// ScoreExtensions implements fwk.ScorePlugin. There are none: the scores are in 0 to 100 already.
func (p *learnedScore) ScoreExtensions() fwk.ScoreExtensions { return nil }
