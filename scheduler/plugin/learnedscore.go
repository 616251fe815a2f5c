package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/scheduler/plugin/canary"
	"gnnsched/scheduler/plugin/dra"
	"gnnsched/scheduler/plugin/holds"
	"gnnsched/scheduler/plugin/traffic"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/probe"
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

	preferences *preferences // nil if the plugin does not look at them
	holds       *holds.Nodes
	learns      bool // the decider scores only the nodes that the preferences leave

	mu sync.Mutex // scheduling cycles come one at a time; this keeps it so
	sight
	rows       []int32              // of the current decision's candidates, in the mirror
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
	scored(state fwk.CycleState, s *scoring)
}

// nobody is the observer of a profile without listeners.
type nobody struct{}

func (nobody) scored(fwk.CycleState, *scoring) {}

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
		sight:      sight{handle: h, ledger: dra.LedgerOf(ctx, h), mirror: mirror{reserved: reserved}},
		complained: map[string]time.Time{},
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
	if p.holds, err = holds.Watch(h.SharedInformerFactory().Core().V1().Nodes().Informer(), clock.RealClock{}); err != nil {
		return nil, err
	}
	logger(ctx).Info("Preferences of manifests", "profile", profile, "preferences", args.Preferences)
	if args.spreadsBeforeTraffic() {
		logger(ctx).Info("Upstream's default topology spread decides before traffic does, and pulls pods apart that talk to each other: "+
			"--preferences declared leaves it out", "profile", profile)
	}
	if err := p.chooseDecider(ctx, args); err != nil {
		return nil, err
	}
	return p, nil
}

// chooseDecider makes the heuristic or the network of args the active decider.
func (p *learnedScore) chooseDecider(ctx context.Context, args Args) (err error) {
	if args.Policy == "" {
		if p.demand, err = newDemandTracker(p.profile, args.Workload); err != nil {
			return err
		}
		p.demand.beginWith(ctx, args)
		a, err := annotationsOf(ctx, args, p.profile, p.handle)
		if err != nil {
			return err
		}
		m := openModel(ctx, args, p.profile, &p.active, a)
		go m.watch(ctx, args.ReloadInterval.Duration)
		return nil
	}
	h, err := heuristic.Find(args.Policy)
	if err != nil {
		return err
	}
	workload := ""
	if h.GPU { // also for those that need no typical pods: a wrong file is an error of the configuration
		workload = args.Workload
	}
	p.active.store(&heuristicDecider{Heuristic: h})
	if p.demand, err = newDemandTracker(p.profile, workload); err != nil || h.Network == "" {
		return err
	}
	p.demand.beginWith(ctx, Args{Variant: h.Network})
	return nil
}

// Name implements fwk.Plugin.
func (p *learnedScore) Name() string { return Name }

// PreFilter implements fwk.PreFilterPlugin. It keeps a pod to the nodes that are held for it, because kube-scheduler looks only at a part
// of the nodes of a large cluster. A pod that has a node is back for its resize.
func (p *learnedScore) PreFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod,
	nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if pod.Spec.NodeName != "" || !p.holds.Any() {
		return nil, fwk.NewStatus(fwk.Skip) // Filter too
	}
	if names := p.holds.Once(pod, nodes); names != nil {
		return &fwk.PreFilterResult{NodeNames: names}, nil
	}
	return nil, nil
}

// Filter implements fwk.FilterPlugin. It leaves the room on a node to the pods that the node is held for.
func (p *learnedScore) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if p.holds.Keeps(pod, node) {
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

// PreScore implements fwk.PreScorePlugin. It lets the active decider choose among the feasible nodes
// that the preferences leave, or upstream's scoring among all of them if the decider fails. It keeps
// the scores for Score.
func (p *learnedScore) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.begin(pod, nodes)
	if s.group = p.groupOf(pod); s.group == canary.Rest {
		p.scoreUpstream(ctx, state, s)
		stateKey.Write(state, s.byName(p.scored, true))
		return nil
	}
	p.prefer(ctx, state, s)
	took, err := p.decide(ctx, state, s)
	if err != nil {
		p.fallBack(ctx, state, s, err)
		stateKey.Write(state, s.byName(p.scored, false))
		return nil
	}
	p.metrics.duration.Observe(took.Seconds())
	p.metrics.spread.Observe(spread(s.raw))
	stateKey.Write(state, p.byRow(s))
	return nil
}

// begin begins the scoring of the nodes for a pod.
func (p *learnedScore) begin(pod *v1.Pod, nodes []fwk.NodeInfo) *scoring {
	if cap(p.raw) < len(nodes) {
		p.raw = make([]float32, 2*len(nodes))
	}
	p.scored++
	p.metrics.candidates.Observe(float64(len(nodes)))
	return &scoring{pod: pod, feasible: nodes, nodes: nodes, raw: p.raw[:len(nodes)], decider: p.active.load()}
}

// prefer narrows the nodes down to those that are held for the pod, or by the preferences of manifests.
func (p *learnedScore) prefer(ctx context.Context, state fwk.CycleState, s *scoring) {
	if held := p.holds.For(s.pod, s.nodes); len(held) > 0 {
		if len(held) < len(s.nodes) {
			s.keep(make([]int64, len(s.nodes)), held)
		}
		return
	}
	if p.preferences == nil || len(s.nodes) == 0 {
		return
	}
	for _, f := range p.preferences.narrow(ctx, state, s) {
		preferencesFailed.WithLabelValues(p.profile, f.plugin).Inc()
		p.complain(ctx, s, "preference "+f.plugin, f.err, "A preference does not count, because upstream's plugin for it failed")
	}
	p.metrics.preferred.Observe(float64(len(s.nodes)))
}

// FallbackMessage begins the log line about decisions of upstream's scoring. It is logged at most every
// ten seconds for each reason; Fallbacks counts them all.
const FallbackMessage = "Upstream's scoring decides instead of the "

// fallBack lets upstream's scoring decide among all feasible nodes, because the decider failed with
// err. Preferences are part of upstream's scores.
func (p *learnedScore) fallBack(ctx context.Context, state fwk.CycleState, s *scoring, err error) {
	s.keepAll()
	fallbacks.WithLabelValues(p.profile, s.reason).Inc()
	p.complain(ctx, s, s.reason, err, FallbackMessage+s.decider.label())
	if err := p.upstream.score(ctx, state, s); err != nil {
		p.complain(ctx, s, "upstream", err, "A part of upstream's scoring is left out")
	}
	p.observer.scored(state, s)
}

// groupOf returns the group of a pod; empty without a canary.
func (p *learnedScore) groupOf(pod *v1.Pod) canary.Group {
	if p.canary == nil {
		return ""
	}
	return p.canary.GroupOf(pod)
}

// scoreUpstream lets upstream's scoring decide among all feasible nodes for a pod of the rest. The pod counts for the
// typical pods of the workload all the same.
func (p *learnedScore) scoreUpstream(ctx context.Context, state fwk.CycleState, s *scoring) {
	s.view.began = time.Now()
	if s.decider.typicalPods() != noPods {
		waiting := convertPod(s.pod)
		p.demand.countPending(&waiting)
	}
	if err := p.upstream.score(ctx, state, s); err != nil {
		p.complain(ctx, s, "upstream", err, "A part of upstream's scoring is left out")
	}
	p.observer.scored(state, s)
}

// byRow turns the raw scores into node scores.
func (p *learnedScore) byRow(s *scoring) *scores {
	out := make([]int8, len(p.mirror.snapshot.Nodes)+len(s.feasible))
	list, byRow := out[:len(s.feasible)], out[len(s.feasible):]
	rows := p.rows
	s.nodeScores(list)
	if len(rows) < len(s.feasible) {
		rows = p.mirror.rows(s.feasible, nil)
	}
	for i, r := range rows {
		byRow[r] = list[i]
	}
	return &scores{pod: p.scored, row: p.mirror.row, byRow: byRow}
}

// decide lets the decider write the raw scores and returns how long that took. If it fails, it sets
// s.reason.
func (p *learnedScore) decide(ctx context.Context, state fwk.CycleState, s *scoring) (took time.Duration, err error) {
	defer func() {
		if r := recover(); r != nil {
			p.forget(s.decider) // what they keep between decisions may be damaged
			s.reason, err = reasonPanic, fmt.Errorf("%s panicked: %v", s.decider.label(), r)
		}
	}()
	waiting := convertPod(s.pod)
	s.view = view{pod: &waiting, manifest: s.pod, began: time.Now()}
	s.view.claims = dra.Asked(state).Among(ctx, s.names)
	s.view.claims.Apply(&waiting)
	p.asked = s.view.claims
	if err := p.see(ctx, &s.view, s.decider, !s.onlyAsks, state.IsPodGroupSchedulingCycle()); err != nil {
		s.reason = reasonSnapshot
		return 0, err
	}
	seen, raw := s.feasible, p.raw[:len(s.feasible)]
	if p.learns { // the step's candidates are those that could be chosen
		seen, raw = s.nodes, s.raw
	}
	p.rows = p.mirror.rows(seen, p.rows[:0])
	s.view.rows, p.mirror.snapshot.Preferred = p.rows, len(s.nodes)
	defer p.mirror.closeCards(ctx, p.rows, p.asked)()
	p.attach(s.pod, &waiting)
	if err := s.decider.score(s.view, raw); err != nil {
		s.reason = reasonOf(err)
		if s.reason == reasonNotFinite {
			p.forget(s.decider)
		}
		return 0, err
	}
	v := &s.view
	p.active.kept.Keep(probe.Decision{Snapshot: v.snapshot, Pod: v.pod, Candidates: v.rows, Typical: v.typical}, v.began)
	if len(raw) > len(s.raw) {
		for i, l := range s.left { // in order, so none is overwritten before it is read
			s.raw[i] = raw[l]
		}
	}
	took = time.Since(s.view.began)
	p.observer.scored(state, s)
	return took, nil
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

// devices lets the active decider choose devices on the node that was chosen for a pod, of which v has no more than the pod and its
// claims. It returns none if the decider cannot, or does not decide about the pod. cycle holds the scores of the pod's nodes, and is
// nil if only one is feasible. When the pods of a group are reserved, others have been scored since, and more pods may be on the node.
func (p *learnedScore) devices(ctx context.Context, v view, node string, cycle *scores) (on cluster.DeviceSet) {
	if p == nil || p.groupOf(v.manifest) == canary.Rest {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.active.load()
	defer func() {
		if r := recover(); r != nil {
			p.forget(d)
			on = 0
			fallbacks.WithLabelValues(p.profile, reasonPanic).Inc()
			err := fmt.Errorf("%s panicked: %v", d.label(), r)
			p.complainOf(ctx, klog.KObj(v.manifest), reasonPanic, err, "GPUShares chooses the devices instead of the "+d.label())
		}
	}()
	v.began = time.Now()
	if p.see(ctx, &v, d, cycle == nil, true) != nil {
		return 0
	}
	row, known := p.mirror.row[node]
	if !known {
		return 0
	}
	changed := p.mirror.before(row, v.manifest.UID)
	v.rows = []int32{row}
	defer p.mirror.closeCards(ctx, v.rows, v.claims)()
	on, err := d.devices(v, cycle != nil && cycle.pod == p.scored && !changed && v.claims == p.asked)
	if err != nil && !errors.Is(err, errNoNetwork) { // without a network nothing is damaged
		p.forget(d)
	}
	return on
}

// partition returns the memory slices on which the active decider puts a MIG partition on a card with some slices in use; none if it does
// not fit.
func (p *learnedScore) partition(used mig.Slices, profile mig.Profile) mig.Slices {
	p.mu.Lock()
	defer p.mu.Unlock()
	start := profile.BestStart(used)
	if h, is := p.active.load().(*heuristicDecider); is && h.made != nil {
		start = policy.Start(h.made, used, profile)
	}
	if start < 0 {
		return 0
	}
	return profile.On(start)
}
