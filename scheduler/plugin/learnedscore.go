package plugin

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/internal/logging"
	"gnnsched/scheduler/plugin/canary"
	"gnnsched/scheduler/plugin/dra"
	"gnnsched/scheduler/plugin/traffic"
	"gnnsched/scheduler/plugin/userconfig"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/probe"
	"gnnsched/scheduler/usage"
)

// Name is the plugin's name in KubeSchedulerConfiguration.
const Name = userconfig.LearnedScore

const stateKey = fwk.StateKey("gnnsched/" + Name)

// learnedScore is the plugin of one profile. It scores and does nothing else: recorder and learner
// add to it.
type learnedScore struct {
	handle   fwk.Handle
	profile  string
	active   activeDecider
	upstream *upstream
	metrics  profileMetrics
	observer observer
	canary   *canary.Split // nil if the decider decides about all pods

	preferences *preferences // nil if the plugin does not look at them
	learns      bool         // the decider scores only the nodes that the preferences leave

	mu         sync.Mutex // scheduling cycles come one at a time; this keeps it so
	demand     *demandTracker
	mirror     mirror
	ledger     *dra.Ledger
	usage      *usage.View
	traffic    *traffic.View
	rows       []int32              // of the current decision's candidates, in the mirror
	raw        []float32            // reused
	scored     uint64               // pods whose nodes were scored
	asked      *dra.Ask             // with which the last one's were
	complained map[string]time.Time // when each reason was last logged
}

var (
	_ fwk.PreScorePlugin = &learnedScore{}
	_ fwk.ScorePlugin    = &learnedScore{}
)

// newPlugin makes the plugin of one profile.
func newPlugin(ctx context.Context, obj runtime.Object, h fwk.Handle, active <-chan struct{}, recording Recording) (fwk.Plugin, error) {
	args, err := DecodeArgs(obj, h.ProfileName())
	if err != nil {
		return nil, err
	}
	p, err := newLearnedScore(ctx, args, h)
	if err != nil {
		return nil, err
	}
	if args.Share != nil {
		p.canary = canary.New(ctx, *args.Share, h, active, logger(ctx))
	}
	if args.Learn != nil {
		l, err := newLearner(ctx, p, *args.Learn, active)
		if err != nil {
			return nil, err
		}
		recording.listen(ctx, l.recorder)
		return l, nil
	}
	if recording.Book == nil && p.canary == nil {
		return p, nil
	}
	r := newRecorder(ctx, p)
	recording.listen(ctx, r)
	return r, nil
}

// newLearnedScore makes a plugin that nothing observes, and watches its checkpoint file until ctx
// ends.
func newLearnedScore(ctx context.Context, args Args, h fwk.Handle) (*learnedScore, error) {
	registerMetrics()
	profile := h.ProfileName()
	up, err := newUpstream(ctx, h)
	if err != nil {
		return nil, err
	}
	p := &learnedScore{
		handle: h, profile: profile, upstream: up, metrics: metricsOf(profile), observer: nobody{},
		mirror:     mirror{reserved: reservationsOf(ctx, h.SnapshotSharedLister())},
		ledger:     dra.LedgerOf(ctx, h),
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
	logger(ctx).Info("Preferences of manifests", "profile", profile, "preferences", args.Preferences)
	if args.spreadsBeforeTraffic() {
		logger(ctx).Info("Upstream's default topology spread decides before traffic does, and pulls pods apart that talk to each other: --preferences declared leaves it out", "profile", profile)
	}
	if err := p.chooseDecider(ctx, args); err != nil {
		return nil, err
	}
	deciders.Store(h, p)
	context.AfterFunc(ctx, func() { deciders.Delete(h) })
	return p, nil
}

// chooseDecider makes the heuristic or the network of args the active decider.
func (p *learnedScore) chooseDecider(ctx context.Context, args Args) (err error) {
	if args.Policy == "" {
		if p.demand, err = newDemandTracker(p.profile, args.Workload, args.PodsLeave); err != nil {
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
	if p.demand, err = newDemandTracker(p.profile, workload, args.PodsLeave); err != nil || h.Network == "" {
		return err
	}
	p.demand.beginWith(ctx, Args{Variant: h.Network})
	return nil
}

// deciders maps the fwk.Handle of a profile to its *learnedScore, for GPUShares.
var deciders sync.Map

// Name implements fwk.Plugin.
func (p *learnedScore) Name() string { return Name }

// scores holds the node scores of one decision, in 0 to 100.
type scores struct {
	pod   uint64           // its number among those whose nodes were scored
	row   map[string]int32 // by node name
	byRow []int8
}

// Clone implements fwk.StateData. Nothing writes to scores after PreScore.
func (s *scores) Clone() fwk.StateData { return s }

// scoring is one decision on its way from the feasible nodes to their scores.
type scoring struct {
	pod      *v1.Pod
	feasible []fwk.NodeInfo
	nodes    []fwk.NodeInfo // the feasible ones that the preferences leave
	raw      []float32      // a score for each of nodes
	left     []int32        // of each of nodes, its index in feasible; nil if all are left
	rank     []int64        // of each feasible node, by preferences; nil if all are left
	decider  decider
	view     view         // what the decider saw
	question bool         // the pod only asks, and is none that arrives
	reason   string       // why upstream's scoring decided instead; empty if it did not
	group    canary.Group // of the pod; empty without a canary
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
		state.Write(stateKey, s.byName(p.scored, true))
		return nil
	}
	p.prefer(ctx, state, s)
	took, err := p.decide(ctx, state, s)
	if err != nil {
		p.fallBack(ctx, state, s, err)
		state.Write(stateKey, s.byName(p.scored, false))
		return nil
	}
	p.metrics.duration.Observe(took.Seconds())
	p.metrics.spread.Observe(spread(s.raw))
	state.Write(stateKey, p.byRow(s))
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

// byName turns the raw scores into node scores without the mirror, which a failed decision may
// have left in a bad state. With ties, all best nodes get 100, as in upstream's own profile.
func (s *scoring) byName(pod uint64, ties bool) *scores {
	out := &scores{pod: pod, row: make(map[string]int32, len(s.nodes)), byRow: make([]int8, len(s.nodes))}
	toNodeScores(s.raw, out.byRow, s.name, ties)
	for i := range s.nodes {
		out.row[s.name(i)] = int32(i)
	}
	return out
}

// name returns the name of a feasible node.
func (s *scoring) name(i int) string { return s.nodes[i].Node().Name }

// decide lets the decider write the raw scores and returns how long that took. If it fails, it sets
// s.reason.
func (p *learnedScore) decide(ctx context.Context, state fwk.CycleState, s *scoring) (took time.Duration, err error) {
	defer func() {
		if r := recover(); r != nil {
			p.forget(s.decider) // what they keep between decisions may be damaged
			s.reason, err = reasonPanic, fmt.Errorf("%s panicked: %v", s.decider.label(), r)
		}
	}()
	s.view.began = time.Now()
	infos, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		s.reason = reasonSnapshot
		return 0, fmt.Errorf("read the snapshot: %w", err)
	}
	asked := dra.Asked(state).Among(ctx, s.names)
	p.asked = asked
	if err := p.look(ctx, asked); err != nil {
		s.reason = reasonSnapshot
		return 0, err
	}
	waiting := convertPod(s.pod)
	asked.Apply(&waiting)
	s.view.pod, s.view.manifest = &waiting, s.pod
	if s.decider.typicalPods() != noPods {
		p.demand.countRunning(infos)
		if !s.question {
			p.demand.countPending(&waiting)
		}
		s.view.typical = p.demand.typicalFor(s.decider, infos)
		s.view.began = time.Now() // a decision's time does not include counting all running pods, which is rare
	}
	p.mirror.sync(infos, state.IsPodGroupSchedulingCycle())
	seen, raw := s.feasible, p.raw[:len(s.feasible)]
	if p.learns { // the step's candidates are those that could be chosen
		seen, raw = s.nodes, s.raw
	}
	p.rows = p.mirror.rows(seen, p.rows[:0])
	defer p.mirror.closeCards(ctx, p.rows, asked)()
	s.view.snapshot, s.view.rows = &p.mirror.snapshot, p.rows
	p.usage.Attach(&p.mirror.snapshot, infos, s.pod, &waiting)
	p.traffic.Attach(&p.mirror.snapshot, infos, s.pod)
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

// forget drops what the decider, the mirror and the view of the traffic keep between decisions, so that the next decision
// starts afresh.
func (p *learnedScore) forget(d decider) {
	d.forget()
	p.mirror = mirror{reserved: p.mirror.reserved}
	p.traffic.Forget()
}

// logAgain is how long a reason is not logged again: a thousand pods a second may have it.
const logAgain = 10 * time.Second

// logger names our own log lines, so that a filter for Kubernetes' lines lets them through.
func logger(ctx context.Context) klog.Logger {
	return klog.FromContext(ctx).WithName(logging.ProjectLogger)
}

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
	s := readScores(state)
	if s == nil {
		return 0, fwk.AsStatus(fwk.ErrNotFound)
	}
	return int64(s.byRow[s.row[node.Node().Name]]), nil
}

// readScores returns the scores of the cycle's pod; nil if its nodes were not scored.
func readScores(state fwk.CycleState) *scores {
	data, err := state.Read(stateKey)
	if err != nil {
		return nil
	}
	return data.(*scores)
}

// ScoreExtensions implements fwk.ScorePlugin. There are none: the scores are in 0 to 100 already.
func (p *learnedScore) ScoreExtensions() fwk.ScoreExtensions { return nil }
