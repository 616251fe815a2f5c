package plugin

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/neural"
)

// Name is the plugin's name in KubeSchedulerConfiguration.
const Name = "LearnedScore"

const stateKey = fwk.StateKey("gnnsched/" + Name)

// Plugin is one profile's instance.
type Plugin struct {
	handle   fwk.Handle
	profile  string
	deadline time.Duration
	model    *model               // nil where a heuristic decides
	makes    *heuristic.Heuristic // nil where a network does
	upstream *upstream
	metrics  profileMetrics

	mu        sync.Mutex // scheduling cycles come one at a time; this keeps it so
	net       *infer.Network
	learned   *neural.Policy
	gpuNet    *infer.GPUNetwork
	gpu       *neural.GPUPolicy
	heuristic policy.Policy // of this profile alone; nil for not yet made
	demand    *demand       // nil where the decider does not ask for it
	mirror    mirror
	rows      []int32
	raw       []float32

	// explore, of a Learner alone, may change the scores of a decision that the network made.
	explore func(fwk.CycleState, *cluster.Pod, []float32)

	complained map[string]time.Time // when each reason was last logged
}

var (
	_ fwk.PreScorePlugin = &Plugin{}
	_ fwk.ScorePlugin    = &Plugin{}
)

// New makes the plugin for one profile; kube-scheduler calls it.
func New(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	profile := h.ProfileName()
	args, err := DecodeArgs(obj, profile)
	if err != nil {
		return nil, err
	}
	registerMetrics()
	up, err := newUpstream(ctx, h)
	if err != nil {
		return nil, err
	}
	p := &Plugin{
		handle: h, profile: profile, deadline: args.Deadline.Duration, upstream: up, metrics: metricsOf(profile),
		complained: map[string]time.Time{},
	}
	deciders.Store(h, p)
	context.AfterFunc(ctx, func() { deciders.Delete(h) })
	if args.Policy != "" {
		err := p.decideBy(args)
		return p, err
	}
	if p.demand, err = newDemand(p.profile, args.Workload); err != nil {
		return nil, err
	}
	p.model = openModel(ctx, args, profile)
	go p.model.watch(ctx, args.ReloadInterval.Duration)
	if args.Learn != nil {
		return newLearner(ctx, p, *args.Learn)
	}
	return p, nil
}

// deciders are the plugins of this process by their profile's handle, for GPUShares.
var deciders sync.Map

// decideBy makes a heuristic decide.
func (p *Plugin) decideBy(args Args) error {
	h, err := heuristic.Find(args.Policy)
	if err != nil {
		return err
	}
	p.makes = &h
	if h.TypicalPods {
		p.demand, err = newDemand(p.profile, args.Workload)
	}
	return err
}

// Name implements fwk.Plugin.
func (p *Plugin) Name() string { return Name }

// scores is one decision's result: a score in each row that is a candidate.
type scores struct {
	row   map[string]int32 // by node name
	byRow []int8
}

// Clone implements fwk.StateData. Nothing writes to scores after PreScore.
func (s *scores) Clone() fwk.StateData { return s }

// PreScore implements fwk.PreScorePlugin: it runs the network or the heuristic over the
// feasible nodes, or upstream's scoring where that has nothing to say.
func (p *Plugin) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cap(p.raw) < len(nodes) {
		p.raw = make([]float32, 2*len(nodes))
	}
	raw := p.raw[:len(nodes)]
	p.metrics.candidates.Observe(float64(len(nodes)))
	took, reason, err := p.decide(state, pod, nodes, raw)
	if err != nil {
		fallbacks.WithLabelValues(p.profile, reason).Inc()
		p.complain(ctx, pod, reason, err, "Upstream's scoring decides instead of the "+p.decider())
		if err := p.upstream.score(ctx, state, pod, nodes, raw); err != nil {
			p.complain(ctx, pod, "upstream", err, "A part of upstream's scoring is left out")
		}
		state.Write(stateKey, byName(nodes, raw))
		return nil
	}
	p.metrics.duration.Observe(took.Seconds())
	p.metrics.spread.Observe(spread(raw))
	state.Write(stateKey, p.byRow(raw))
	return nil
}

// byRow turns the raw scores of p.rows into what Score looks up.
func (p *Plugin) byRow(raw []float32) *scores {
	out := make([]int8, len(p.mirror.snapshot.Nodes)+len(raw))
	list, byRow := out[:len(raw)], out[len(raw):]
	toNodeScores(raw, list, func(i int) string { return p.mirror.snapshot.Nodes[p.rows[i]].Name }, p.makes != nil && p.makes.RandomTies)
	for i, r := range p.rows {
		byRow[r] = list[i]
	}
	return &scores{row: p.mirror.row, byRow: byRow}
}

// byName is byRow without the mirror, which a failed decision may have left unfit.
func byName(nodes []fwk.NodeInfo, raw []float32) *scores {
	s := &scores{row: make(map[string]int32, len(nodes)), byRow: make([]int8, len(nodes))}
	toNodeScores(raw, s.byRow, func(i int) string { return nodes[i].Node().Name }, false)
	for i, n := range nodes {
		s.row[n.Node().Name] = int32(i)
	}
	return s
}

// decide runs the network or the heuristic, writes the raw scores of nodes and says how long it
// took. The reason names the error for the metric.
func (p *Plugin) decide(state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo, raw []float32) (took time.Duration, reason string, err error) {
	defer func() {
		if r := recover(); r != nil {
			p.forget() // what is kept between decisions is in doubt
			reason, err = reasonPanic, fmt.Errorf("%s panicked: %v", p.decider(), r)
		}
	}()
	infos, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return 0, reasonSnapshot, fmt.Errorf("read the snapshot: %w", err)
	}
	d := p.counting()
	d.begin(infos) // once, for all decisions: not the first one's time
	start := time.Now()
	waiting := convertPod(pod)
	d.come(&waiting)
	deciding := p.current(start)
	if deciding == nil {
		return 0, reasonNoModel, errors.New("no network is loaded")
	}
	p.mirror.sync(infos)
	p.rows = p.mirror.rows(nodes, p.rows[:0])
	err = deciding.Score(&p.mirror.snapshot, &waiting, p.rows, raw)
	switch {
	case errors.Is(err, infer.ErrDeadline):
		return 0, reasonDeadline, fmt.Errorf("%w (%v)", err, p.deadline)
	case err != nil:
		p.forget()
		return 0, reasonNotFinite, err
	}
	if p.explore != nil && deciding == policy.Policy(p.learned) {
		p.explore(state, &waiting, raw)
	}
	return time.Since(start), "", nil
}

// counting is the demand where what decides now goes by it, nil elsewhere.
func (p *Plugin) counting() *demand {
	if p.makes == nil && p.model.devices.Load() == nil {
		return nil
	}
	return p.demand
}

// current is the policy that decides now, with the deadline of a decision that began at
// start; nil where no network is loaded.
func (p *Plugin) current(start time.Time) policy.Policy {
	typical, changed := p.counting().typical()
	if p.makes != nil {
		if p.heuristic == nil || changed {
			p.heuristic = p.makes.New(policy.Setting{Seed: rand.Uint64(), Typical: typical}) // a restart must not repeat the draws of the last run
		}
		return p.heuristic
	}
	expired := func() bool { return time.Since(start) > p.deadline }
	if net := p.model.devices.Load(); net != nil {
		if net != p.gpuNet || changed {
			p.gpuNet, p.gpu = net, neural.NewGPU(p.profile, net, typical)
		}
		p.gpu.Until(expired)
		return p.gpu
	}
	net := p.model.current.Load()
	if net == nil {
		return nil
	}
	if net != p.net {
		p.net, p.learned = net, neural.New(p.profile, net)
	}
	p.learned.Until(expired)
	return p.learned
}

// devices are those that the policy chooses on a node for a pod whose node is chosen; none
// where it cannot say. scored tells whether it scored the pod's nodes in this cycle, as it does
// not where one alone is feasible: then it looks at the cluster now.
func (p *Plugin) devices(pod *cluster.Pod, uid types.UID, node string, scored bool) (on cluster.DeviceSet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() {
		if recover() != nil { // the default choice is as good as any
			p.forget()
			on = 0
		}
	}()
	infos, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return 0
	}
	d := p.counting()
	d.begin(infos)
	if !scored {
		d.come(pod)
	}
	deciding := p.current(time.Now())
	if deciding == nil {
		return 0
	}
	p.mirror.sync(infos)
	row, known := p.mirror.row[node]
	if !known {
		return 0
	}
	p.mirror.without(row, uid)
	if chooser, chooses := deciding.(policy.DeviceChooser); chooses && !scored {
		if err := chooser.Score(&p.mirror.snapshot, pod, []int32{row}, make([]float32, 1)); err != nil {
			p.forget()
			return 0
		}
	}
	return policy.Devices(deciding, p.mirror.snapshot.Nodes[row], pod)
}

// decider is what logs call that which should decide.
func (p *Plugin) decider() string {
	if p.makes != nil {
		return "policy " + p.makes.Name
	}
	return "network"
}

// forget drops what is kept between decisions, so that the next one starts afresh.
func (p *Plugin) forget() {
	p.learned, p.net, p.gpu, p.gpuNet, p.heuristic, p.mirror = nil, nil, nil, nil, nil, mirror{}
}

// logAgain is how long a reason is not logged again: a thousand pods a second may have it.
const logAgain = 10 * time.Second

// logger names our own lines, so that what Kubernetes' chatter is silenced with can let them
// through.
func logger(ctx context.Context) klog.Logger { return klog.FromContext(ctx).WithName("gnnsched") }

func (p *Plugin) complain(ctx context.Context, pod *v1.Pod, reason string, err error, what string) {
	if last, before := p.complained[reason]; before && time.Since(last) < logAgain {
		return
	}
	p.complained[reason] = time.Now()
	logger(ctx).Error(err, what, "profile", p.profile, "reason", reason, "pod", klog.KObj(pod))
}

// Score implements fwk.ScorePlugin.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	d, err := state.Read(stateKey)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	s := d.(*scores)
	return int64(s.byRow[s.row[node.Node().Name]]), nil
}

// ScoreExtensions implements fwk.ScorePlugin; the scores are in 0 to 100 already.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

// spread is the best minus the worst score.
func spread(raw []float32) float64 {
	if len(raw) == 0 {
		return 0
	}
	low, high := raw[0], raw[0]
	for _, v := range raw {
		low, high = min(low, v), max(high, v)
	}
	return float64(high) - float64(low)
}
