package memcluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/utils/clock"

	values "gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/kuberelease"
	"gnnsched/scheduler/advise"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/plugin"
)

// Config describes a Cluster.
type Config struct {
	Client kubernetes.Interface
	Shared informers.SharedInformerFactory // for services, namespaces and other objects that plugins read; clusters may share kuberelease's
	// Dynamic serves plugins that watch resources by their names. It may be nil if the profile enables no such plugin.
	Dynamic dynamicinformer.DynamicSharedInformerFactory
	// Profile decides. Policies that count typical pods count pods with its SchedulerName.
	Profile   config.KubeSchedulerProfile
	Objective objective.Term
	Clock     clock.PassiveClock // measures the durations of choices, and gives the start times of pods
	Seed      uint64             // of the draws of policies and among equal nodes
	Recording plugin.Recording   // if it has a book, choices have their decisions; the owner hands them to it
}

// Cluster is the state of one cluster, with a profile that decides and upstream's own. Its owner tells it what changes, with the
// methods of the cache. It is not safe for concurrent use.
type Cluster struct {
	cache.Cache
	snapshot *cache.Snapshot
	profile  framework.Framework // decides
	filters  framework.Framework // the profile, with filters that count refusals if decisions are recorded
	stock    framework.Framework // upstream's default profile; only its filters are used
	// preemption chooses the victims of a node.
	preemption *defaultpreemption.DefaultPreemption
	ledger     *ledger
	log        klog.Logger
	clock      clock.PassiveClock
	draw       *rand.Rand
	wait       func(context.Context) error // until the handlers of upstream's own cache have seen all objects
}

// stockName is the scheduler name of upstream's profile, which runs beside the deciding one. No pod has it.
const stockName = "gnnsched.memcluster/upstream"

// New makes an empty cluster. ctx ends its plugins.
func New(ctx context.Context, c Config) (*Cluster, error) {
	stock, err := latest.Default()
	if err != nil {
		return nil, fmt.Errorf("upstream's default profile: %w", err)
	}
	stock.Profiles[0].SchedulerName = stockName
	sched, err := scheduler.New(plugin.WithSeed(ctx, c.Seed), c.Client, c.Shared, c.Dynamic,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }, // it has nothing to report
		scheduler.WithProfiles([]config.KubeSchedulerProfile{c.Profile, stock.Profiles[0]}...),
		scheduler.WithFrameworkOutOfTreeRegistry(plugin.RecordingRegistry(nil, c.Recording)),
	)
	if err != nil {
		return nil, fmt.Errorf("set up the plugins: %w", err)
	}
	profile := sched.Profiles[c.Profile.SchedulerName]
	snapshot, is := profile.SnapshotSharedLister().(*cache.Snapshot)
	if !is {
		return nil, fmt.Errorf("upstream's snapshot is a %T", profile.SnapshotSharedLister())
	}
	preemption, err := newPreemption(ctx, profile)
	if err != nil {
		return nil, err
	}
	filters := profile
	if c.Recording.Book != nil {
		filters = plugin.CountRefusals(profile)
	}
	// The scheduler's own cache follows the informers. This one follows the events in their order.
	return &Cluster{
		Cache: kuberelease.Cache(ctx), snapshot: snapshot, profile: profile, filters: filters, stock: sched.Profiles[stockName],
		preemption: preemption,
		ledger:     &ledger{term: c.Objective}, log: klog.FromContext(ctx), clock: c.Clock, draw: rand.New(rand.NewPCG(c.Seed, c.Seed)),
		wait: sched.WaitForHandlersSync,
	}, nil
}

// WaitForHandlers waits until the plugins have seen all objects that the informers have read. It returns ctx's error if ctx ends.
func (c *Cluster) WaitForHandlers(ctx context.Context) error { return c.wait(ctx) }

// Profile returns the profile that decides.
func (c *Cluster) Profile() framework.Framework { return c.profile }

// Node takes over a change of a node: was is nil if it is new, and now if it is gone.
func (c *Cluster) Node(was, now *v1.Node) error {
	switch {
	case was == nil:
		c.AddNode(c.log, now)
	case now != nil:
		c.UpdateNode(c.log, was, now)
	default:
		if err := c.RemoveNode(c.log, was); err != nil {
			return fmt.Errorf("remove node %s: %w", was.Name, err)
		}
	}
	return nil
}

// Cordon gives a node the taint of a cordoned one, as Kubernetes' node controller does, or takes it away. It reports whether that changes
// the node.
func (c *Cluster) Cordon(name string, closed bool) (changed bool, err error) {
	if err := c.UpdateSnapshot(c.log, c.snapshot); err != nil {
		return false, fmt.Errorf("update the snapshot: %w", err)
	}
	info, err := c.snapshot.Get(name)
	if err != nil {
		return false, nil // the node is gone
	}
	cordoned := v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
	is := func(t v1.Taint) bool { return t.MatchTaint(&cordoned) }
	if slices.ContainsFunc(info.Node().Spec.Taints, is) == closed {
		return false, nil
	}
	now := info.Node().DeepCopy()
	if now.Spec.Taints = slices.DeleteFunc(now.Spec.Taints, is); closed {
		now.Spec.Taints = append(now.Spec.Taints, cordoned)
	}
	return true, c.Node(info.Node(), now)
}

// sync brings the snapshot and the ledger up to date with the cache.
func (c *Cluster) sync() error {
	if err := c.UpdateSnapshot(c.log, c.snapshot); err != nil {
		return fmt.Errorf("update the snapshot: %w", err)
	}
	infos, err := c.snapshot.NodeInfos().List()
	if err != nil {
		return fmt.Errorf("read the snapshot: %w", err)
	}
	c.ledger.follow(infos)
	return nil
}

// Cost returns the objective's cost now.
func (c *Cluster) Cost() (float64, error) {
	if err := c.sync(); err != nil {
		return 0, err
	}
	return c.ledger.now(), nil
}

// Nodes returns the present nodes with their pods' requests. The caller must not change them.
func (c *Cluster) Nodes() ([]*values.Node, error) {
	if err := c.sync(); err != nil {
		return nil, err
	}
	return c.ledger.nodes, nil
}

// Choice is the profile's decision about a pod.
type Choice struct {
	Node     string            // "" if no node fits
	Best     []string          // the nodes that kube-scheduler would draw among; Node is one of them
	Feasible int               // number of nodes that fit
	Refused  map[string]string // the reasons of the refused nodes, by name
	Fallback bool              // upstream's scoring decided instead of the profile's
	Took     time.Duration     // for filtering and scoring

	// Score is the total of the profile's plugins for Node, and RunnerUp the best other node with its score. They are empty if fewer
	// than two nodes fit.
	Score         int64
	RunnerUp      string
	RunnerUpScore int64

	// Decision is the record of the choice; nil if decisions are not recorded, or the profile has no LearnedScore.
	Decision *decision.Decision
}

// Choose lets the profile filter and score all nodes for a pod that counts on none of them.
func (c *Cluster) Choose(ctx context.Context, pod *v1.Pod) (Choice, error) {
	if err := c.sync(); err != nil {
		return Choice{}, err
	}
	really := pod.Spec.NodeName
	pod = On(pod, "")
	began, state := c.clock.Now(), framework.NewCycleState()
	var scores []fwk.NodePluginScores
	plugin.CompareWith(state, really)
	plugin.Arrives(c.profile, pod)
	if really != "" {
		defer plugin.Leaves(c.profile, pod)
	}
	feasible, refused, err := advise.Filter(ctx, c.filters, state, pod)
	if err != nil {
		return Choice{}, err
	}
	out := Choice{Feasible: len(feasible), Refused: refused}
	switch len(feasible) {
	case 0:
	case 1: // kube-scheduler scores nothing either
		out.Best = []string{feasible[0].Node().Name}
	default:
		fallbacks, err := plugin.FallbacksIn(c.profile.ProfileName(), func() (err error) {
			out.Best, scores, err = c.best(ctx, state, pod, feasible)
			return err
		})
		if err != nil {
			return Choice{}, err
		}
		out.Fallback = fallbacks > 0
	}
	out.Took = c.clock.Since(began)
	if len(out.Best) > 0 {
		out.Node = out.Best[c.draw.IntN(len(out.Best))]
	}
	out.rank(scores)
	if c.filters != c.profile {
		out.Decision = c.decision(state, pod, out)
	}
	return out, nil
}

// rank sets the score of the node and the runner-up.
func (c *Choice) rank(scores []fwk.NodePluginScores) {
	for _, s := range scores {
		switch {
		case s.Name == c.Node:
			c.Score = s.TotalScore
		case c.RunnerUp == "" || s.TotalScore > c.RunnerUpScore:
			c.RunnerUp, c.RunnerUpScore = s.Name, s.TotalScore
		}
	}
}

// decision returns the record of a choice.
func (c *Cluster) decision(state fwk.CycleState, pod *v1.Pod, ch Choice) *decision.Decision {
	d, scored := plugin.Considered(state)
	if !scored && ch.Feasible > 1 {
		return nil
	}
	if !scored {
		d = decision.Decision{
			Profile: c.profile.ProfileName(), Pod: decision.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)},
			Refused: plugin.RefusalsOf(state), Feasible: ch.Feasible, Preferred: ch.Feasible,
		}
	}
	d.Node, d.Nodes = ch.Node, ch.Feasible+len(ch.Refused)
	if ch.Node == "" {
		d.Failure = fmt.Sprintf(framework.NoNodeAvailableMsg, d.Nodes)
		if len(d.Refused) == 0 {
			d.Refused = plugin.RefusalsByReason(ch.Refused)
		}
	}
	return &d
}

// best returns the nodes with the highest total score, and all scores.
func (c *Cluster) best(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, feasible []fwk.NodeInfo,
) ([]string, []fwk.NodePluginScores, error) {
	if st := c.profile.RunPreScorePlugins(ctx, state, pod, feasible); !st.IsSuccess() {
		return nil, nil, fmt.Errorf("score the nodes: %w", st.AsError())
	}
	scores, st := c.profile.RunScorePlugins(ctx, state, pod, feasible)
	if !st.IsSuccess() {
		return nil, nil, fmt.Errorf("score the nodes: %w", st.AsError())
	}
	var best []string
	var most int64
	for _, s := range scores {
		switch {
		case len(best) == 0 || s.TotalScore > most:
			best, most = []string{s.Name}, s.TotalScore
		case s.TotalScore == most:
			best = append(best, s.Name)
		}
	}
	if len(best) == 0 {
		return nil, nil, errors.New("no node was scored")
	}
	return best, scores, nil
}

// After returns the cost if the pod ran on a node; known is false if there is no such node.
func (c *Cluster) After(pod *v1.Pod, node string) (cost float64, known bool) {
	return c.ledger.after(pod, node)
}

// Alike reports whether two nodes have the same capacity, zone and requests. The choice between them makes no difference to any objective.
func (c *Cluster) Alike(a, b string) bool { return c.ledger.alike(a, b) }

// Admits returns why upstream's default filters refuse a node for the pod; "" if they do not.
func (c *Cluster) Admits(ctx context.Context, pod *v1.Pod, node string) (string, error) {
	return c.refusal(ctx, c.stock, pod, node)
}

// Refusal returns why the profile's filters refuse a node for a pod that counts on none of them; "" if they do not. Choose gives the same
// reason for that node.
func (c *Cluster) Refusal(ctx context.Context, pod *v1.Pod, node string) (string, error) {
	if err := c.UpdateSnapshot(c.log, c.snapshot); err != nil {
		return "", fmt.Errorf("update the snapshot: %w", err)
	}
	return c.refusal(ctx, c.profile, pod, node)
}

func (c *Cluster) refusal(ctx context.Context, profile framework.Framework, pod *v1.Pod, node string) (string, error) {
	info, err := c.snapshot.Get(node)
	if err != nil {
		return "the node is gone", nil
	}
	pod, state := On(pod, ""), framework.NewCycleState()
	among, st, _ := profile.RunPreFilterPlugins(ctx, state, pod)
	if st.IsSuccess() {
		if !among.AllNodes() && !among.NodeNames.Has(node) {
			return "the node is not among those that the pod names", nil
		}
		st = profile.RunFilterPluginsWithNominatedPods(ctx, state, pod, info)
	}
	switch {
	case st.IsSuccess():
		return "", nil
	case st.IsRejected():
		return cmp.Or(advise.Reason(st), "it refuses the pod"), nil
	}
	return "", fmt.Errorf("filter the nodes: %w", st.AsError())
}

// HasDevices reports whether the GPUs that a pod names have room for it on the node that it names.
func (c *Cluster) HasDevices(pod *v1.Pod) bool {
	r, _ := kube.Running(pod)
	if r.Devices == 0 {
		return true
	}
	err := c.sync()
	i, known := c.ledger.row[pod.Spec.NodeName]
	return err == nil && known && c.ledger.nodes[i].FitsOn(r.Requests, r.Devices)
}

// OnDevices is On for a pod with the GPUs that kube.GPUIndexAnnotation names.
func OnDevices(pod *v1.Pod, node, index string) *v1.Pod {
	c := On(pod, node)
	if index != pod.Annotations[kube.GPUIndexAnnotation] {
		c.Annotations = maps.Clone(pod.Annotations)
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, kube.GPUIndexAnnotation, index)
	}
	return c
}

// On returns the pod with another node. It shares all else with the original, which must not change.
func On(pod *v1.Pod, node string) *v1.Pod {
	c := *pod
	c.Spec.NodeName = node
	return &c
}

// ledger keeps the nodes of a snapshot as plain values, for the objective.
type ledger struct {
	term        objective.Term
	nodes       []*values.Node
	generations []int64 // of upstream's node that each was converted from
	running     [][]known
	row         map[string]int
	cost        float64
	known       bool // whether cost is up to date
}

// known is a pod as it was converted. Pods on nodes do not change; another state of a pod is another object.
type known struct {
	pod *v1.Pod
	kube.RunningPod
}

// follow converts the nodes that changed.
func (l *ledger) follow(infos []fwk.NodeInfo) {
	if len(infos) != len(l.nodes) {
		l.begin(infos)
	}
	for i, info := range infos {
		if l.nodes[i] != nil && l.nodes[i].Name != info.Node().Name {
			l.begin(infos)
			l.follow(infos)
			return
		}
		if info.GetGeneration() != l.generations[i] {
			l.running[i] = converted(l.running[i], info)
			l.nodes[i], l.generations[i], l.known = convert(info, l.running[i]), info.GetGeneration(), false
		}
	}
}

// begin gives the nodes their rows, and keeps what is known of those that were there before.
func (l *ledger) begin(infos []fwk.NodeInfo) {
	old := *l
	l.nodes, l.generations, l.running = make([]*values.Node, len(infos)), make([]int64, len(infos)), make([][]known, len(infos))
	l.row, l.known = make(map[string]int, len(infos)), false
	for i, info := range infos {
		name := info.Node().Name
		l.row[name] = i
		if k, there := old.row[name]; there {
			l.nodes[i], l.generations[i], l.running[i] = old.nodes[k], old.generations[k], old.running[k]
		}
	}
}

// converted returns the pods of a node, those of before without converting them again. Pods mostly stay where they were in upstream's list.
func converted(before []known, info fwk.NodeInfo) []known {
	out := make([]known, 0, len(info.GetPods()))
	for i, p := range info.GetPods() {
		pod := p.GetPod()
		if i >= len(before) || before[i].pod != pod {
			i = slices.IndexFunc(before, func(k known) bool { return k.pod == pod })
		}
		if i >= 0 {
			out = append(out, before[i])
			continue
		}
		r, _ := kube.Running(pod) // the trustworthy part of a contradictory GPU request counts
		out = append(out, known{pod, r})
	}
	return out
}

func convert(info fwk.NodeInfo, pods []known) *values.Node {
	n := kube.Node(info.Node())
	n.Power, _ = kube.Power(info.Node()) // the default counts where the annotation is faulty
	running := make([]kube.RunningPod, len(pods))
	for i, p := range pods {
		running[i] = p.RunningPod
	}
	kube.Place(n, running)
	kube.CloseLost(n, 0)
	return n
}

// now returns the cost of the nodes.
func (l *ledger) now() float64 {
	if !l.known {
		l.cost, l.known = l.term.Cost(l.nodes), true
	}
	return l.cost
}

// after returns the cost if the pod ran on a node; known is false if there is no such node.
func (l *ledger) after(pod *v1.Pod, node string) (cost float64, known bool) {
	i, known := l.row[node]
	if !known {
		return 0, false
	}
	old, with := l.nodes[i], *l.nodes[i]
	with.Groups, with.GPUs = slices.Clone(old.Groups), slices.Clone(old.GPUs)
	asks, _ := kube.Pod(pod)
	with.Add(asks.Requests)
	l.nodes[i] = &with
	cost = l.term.Cost(l.nodes)
	l.nodes[i] = old
	return cost, true
}

// alike reports whether two nodes have the same capacity, zone and requests. The choice between them makes no difference to any objective.
func (l *ledger) alike(a, b string) bool {
	i, known := l.row[a]
	j, too := l.row[b]
	if !known || !too {
		return false
	}
	x, y := l.nodes[i], l.nodes[j]
	return x.Zone == y.Zone && x.Allocatable == y.Allocatable && x.Requested == y.Requested && x.GPUModel == y.GPUModel &&
		slices.Equal(x.GPUs, y.GPUs) && slices.Equal(x.Groups, y.Groups) && slices.Equal(x.Taints, y.Taints)
}
