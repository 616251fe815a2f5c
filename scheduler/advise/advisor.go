package advise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/kuberelease"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/server"
)

// Config describes an Advisor.
type Config struct {
	Client  kubernetes.Interface
	Dynamic dynamic.Interface // nil: none of upstream's plugins that watch by name of a resource
	// Profile decides. Its SchedulerName selects the pods that may be asked about. preference.Blend is not possible, because kube-scheduler
	// itself blends.
	Profile server.Profile
	// Promise is the time for which a pod counts on the node that Rank ranks first while the cluster does not show it bound. The next pod is
	// often asked about before the watch has shown the last one.
	Promise time.Duration
	Clock   clock.PassiveClock
}

// Advisor answers where pods should go. It is safe for concurrent use; answers come one at a time.
type Advisor struct {
	profile   framework.Framework
	cache     cacheOfPods
	snapshot  *cache.Snapshot
	log       klog.Logger
	synced    atomic.Bool
	informers sync.WaitGroup
	turn      chan struct{} // holds a value while an answer is worked out

	// The holder of the turn owns these.
	clock    clock.PassiveClock
	window   time.Duration
	promised map[types.UID]promise
}

// cacheOfPods holds the methods of upstream's cache that an Advisor uses.
type cacheOfPods interface {
	UpdateSnapshot(klog.Logger, *cache.Snapshot) error
	AssumePod(klog.Logger, *v1.Pod) error
	ForgetPod(klog.Logger, *v1.Pod) error
	IsAssumedPod(*v1.Pod) (bool, error)
}

// ErrNotSynced is the error of answers before the cluster's objects have been read.
var ErrNotSynced = errors.New("the state of the cluster has not been read yet")

// New makes an Advisor and starts its informers, which end with ctx (see Wait). It does not wait until they have read
// the cluster: see Synced.
func New(ctx context.Context, c Config) (*Advisor, error) {
	profiles, err := profilesOf(c.Profile)
	if err != nil {
		return nil, err
	}
	shared := kuberelease.Informers(c.Client)
	var named dynamicinformer.DynamicSharedInformerFactory
	if c.Dynamic != nil {
		named = dynamicinformer.NewDynamicSharedInformerFactory(c.Dynamic, 0)
	}
	sched, err := scheduler.New(ctx, c.Client, shared, named,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }, // it has nothing to report
		scheduler.WithProfiles(profiles...),
		scheduler.WithFrameworkOutOfTreeRegistry(plugin.Registry(nil)),
	)
	if err != nil {
		return nil, fmt.Errorf("set up the plugins: %w", err)
	}
	profile := sched.Profiles[c.Profile.SchedulerName]
	snapshot, is := profile.SnapshotSharedLister().(*cache.Snapshot)
	if !is {
		return nil, fmt.Errorf("upstream's snapshot is a %T", profile.SnapshotSharedLister())
	}
	a := &Advisor{
		profile: profile, cache: sched.Cache, snapshot: snapshot, log: klog.FromContext(ctx),
		turn: make(chan struct{}, 1), clock: c.Clock, window: c.Promise, promised: map[types.UID]promise{},
	}
	a.informers.Go(func() {
		a.sync(ctx, sched, shared, named)
		<-ctx.Done()
		shared.Shutdown()
		if named != nil {
			named.Shutdown()
		}
	})
	return a, nil
}

// profilesOf returns upstream's form of the profile.
func profilesOf(p server.Profile) ([]config.KubeSchedulerProfile, error) {
	if p.Preferences == preference.Blend || len(p.Blend) > 0 {
		return nil, errors.New("preferences cannot be blended here, because the scheduler that asks adds its own scores; " +
			"choose first, declared or off")
	}
	if p.Variant == server.DefaultProfile || p.Learn != nil {
		return nil, errors.New("neither upstream's own profile nor one that learns can advise")
	}
	c, err := server.Config{Profiles: []server.Profile{p}, QPS: 1}.Decode()
	if err != nil {
		return nil, err
	}
	return c.Profiles, nil
}

// sync waits until the cache has the cluster's objects.
func (a *Advisor) sync(
	ctx context.Context, sched *scheduler.Scheduler, shared informers.SharedInformerFactory,
	named dynamicinformer.DynamicSharedInformerFactory,
) {
	shared.StartWithContext(ctx)
	shared.WaitForCacheSync(ctx.Done())
	if named != nil {
		named.Start(ctx.Done())
		named.WaitForCacheSync(ctx.Done())
	}
	if sched.WaitForHandlersSync(ctx) == nil && ctx.Err() == nil {
		a.synced.Store(true)
	}
}

// Wait waits until the informers have ended, after New's context has.
func (a *Advisor) Wait() { a.informers.Wait() }

// Synced reports whether the cluster's objects have been read.
func (a *Advisor) Synced() bool { return a.synced.Load() }

// take waits for the turn and brings the snapshot up to date. The caller must call give after a nil error.
func (a *Advisor) take(ctx context.Context) error {
	if !a.Synced() {
		return ErrNotSynced
	}
	select {
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for the answers before this one: %w", context.Cause(ctx))
	}
	a.expire()
	if err := a.cache.UpdateSnapshot(a.log, a.snapshot); err != nil {
		a.give()
		return fmt.Errorf("update the snapshot: %w", err)
	}
	return nil
}

func (a *Advisor) give() { <-a.turn }

// Ranked is the answer about one node.
type Ranked struct {
	Node  string
	Score int8 // as plugin.NodeOpinion; 0 for a node that the advisor does not know
}

// Rank scores the named nodes, which the pod fits on, in the order of names. A node that the watch has
// not shown yet gets 0. The pod then counts on the best node until the cluster shows it bound. If the
// decider fails, the error is a *plugin.Undecided.
func (a *Advisor) Rank(ctx context.Context, pod *v1.Pod, names []string) ([]Ranked, error) {
	if err := a.take(ctx); err != nil {
		return nil, err
	}
	defer a.give()
	if a.unpromise(pod.UID) { // the pod is asked about again
		if err := a.cache.UpdateSnapshot(a.log, a.snapshot); err != nil {
			return nil, fmt.Errorf("update the snapshot: %w", err)
		}
	}
	out := make([]Ranked, len(names))
	known, at := make([]fwk.NodeInfo, 0, len(names)), make([]int, 0, len(names))
	for i, name := range names {
		out[i].Node = name
		if info, err := a.snapshot.Get(name); err == nil {
			known, at = append(known, info), append(at, i)
		}
	}
	if len(known) == 0 {
		return out, nil
	}
	plugin.Arrives(a.profile, pod)
	defer plugin.Leaves(a.profile, pod) // who asks binds it
	opinion, err := plugin.Ask(ctx, a.profile, pod, known, true)
	if err != nil {
		return nil, err
	}
	best := 0
	for i, n := range opinion.Nodes {
		out[at[i]].Score = n.Score
		if n.Score > opinion.Nodes[best].Score {
			best = i
		}
	}
	if err := ctx.Err(); err != nil { // the caller does not wait for the answer any more
		return nil, fmt.Errorf("rank the nodes: %w", context.Cause(ctx))
	}
	a.promise(pod, known[best].Node().Name)
	return out, nil
}

// promise is a pod that counts on a node before the cluster shows it there.
type promise struct {
	pod   *v1.Pod // a copy, with the node
	until time.Time
}

// promise counts a pod on a node, unless it has no UID, or the cluster already shows it on one.
func (a *Advisor) promise(pod *v1.Pod, node string) {
	if a.window <= 0 || pod.UID == "" {
		return
	}
	p := pod.DeepCopy()
	p.Spec.NodeName = node
	if err := a.cache.AssumePod(a.log, p); err != nil {
		return // the cache has it: it is bound
	}
	a.promised[p.UID] = promise{p, a.clock.Now().Add(a.window)}
}

// expire takes back expired promises. Pods that the cluster shows as bound stay.
func (a *Advisor) expire() {
	now := a.clock.Now()
	for uid, p := range a.promised {
		if now.After(p.until) {
			a.unpromise(uid)
		}
	}
}

// unpromise takes back the promise for a pod and reports whether there was one.
func (a *Advisor) unpromise(uid types.UID) bool {
	p, promised := a.promised[uid]
	if !promised {
		return false
	}
	delete(a.promised, uid)
	if assumed, err := a.cache.IsAssumedPod(p.pod); err != nil || !assumed {
		return false
	}
	if err := a.cache.ForgetPod(a.log, p.pod); err != nil {
		a.log.V(4).Info("A pod was bound just before its promise was taken back", "err", err)
	}
	return true
}

// State describes an Advisor: its policy, and the number of nodes and pods in its view.
type State struct {
	Synced bool `json:"ready"`
	Decider
	Nodes    int `json:"nodes"`
	Pods     int `json:"pods"`         // on nodes, promised ones included
	Promised int `json:"promisedPods"` // pods that count on a node where the cluster does not show them yet
}

// State returns the Advisor's current state.
func (a *Advisor) State(ctx context.Context) (State, error) {
	network, err := plugin.ActiveNetwork(a.profile)
	if err != nil {
		return State{}, err
	}
	out := State{Decider: deciderOf(network)}
	if !a.Synced() {
		return out, nil
	}
	if err := a.take(ctx); err != nil {
		return State{}, err
	}
	defer a.give()
	all, err := a.snapshot.NodeInfos().List()
	if err != nil {
		return State{}, fmt.Errorf("read the snapshot: %w", err)
	}
	out.Synced, out.Nodes = true, len(all)
	for _, n := range all {
		out.Pods += len(n.GetPods())
	}
	for _, p := range a.promised {
		if assumed, err := a.cache.IsAssumedPod(p.pod); err == nil && assumed {
			out.Promised++
		}
	}
	return out, nil
}

// Reasons why Admit refuses a pod or a node. Only kube quotes text of a pod's owner, and truncates it.
const (
	refuseShare = "the pod needs a GPU device of its own choice or a share of one, and a scheduler that only asks for advice cannot write " +
		"the device on the pod; set spec.schedulerName to a scheduler of gnnsched"
	refuseShared = "the node shares its GPUs, so that a scheduler of gnnsched must write the device on the pod"
	refuseModel  = "the node has no GPU of a model that the pod allows"
	refuseCount  = "the node has too few GPUs"
)

// Admit returns the named nodes that may not take the pod, each with the reason: no scheduler would assign its GPU devices there. A pod
// without GPUs may go anywhere, since kube-scheduler checks everything else, and any pod may go to a node that the advisor does not know
// yet.
//
// A pod with a share of a GPU, with the annotations of shares, or with a device's index is refused everywhere: it would run without
// devices, or on another pod's devices. A pod that requests whole devices is refused where the node shares its devices, or has a model that
// the pod does not allow.
func (a *Advisor) Admit(ctx context.Context, pod *v1.Pod, names []string) (refused map[string]string, err error) {
	request, wrong := kube.GPURequestOf(pod.Annotations, kube.Requests(pod))
	if wrong == nil && request.None() {
		return nil, nil
	}
	refused = map[string]string{}
	if wrong != nil || request.GPUMilli > 0 || request.WantsIndex {
		why := refuseShare
		if wrong != nil {
			why = "the pod's GPUs: " + wrong.Error()
		}
		for _, name := range names {
			refused[name] = why
		}
		return refused, nil
	}
	if err := a.take(ctx); err != nil {
		return nil, err
	}
	defer a.give()
	asks := &cluster.Pod{Requests: cluster.Resources{GPU: request.GPU, Pods: 1}, GPUModels: request.Models}
	for _, name := range names {
		info, err := a.snapshot.Get(name)
		if err != nil {
			continue
		}
		if why := refusedBy(info.Node(), asks); why != "" {
			refused[name] = why
		}
	}
	return refused, nil
}

// refusedBy returns why even the empty node refuses a pod with whole GPUs; "" if it does not.
func refusedBy(object *v1.Node, asks *cluster.Pod) string {
	amounts := kube.AmountsIn(object.Status.Allocatable)
	if amounts.SharesGPUs() {
		return refuseShared
	}
	n := &cluster.Node{Name: object.Name}
	kube.SetGPUs(n, object, amounts)
	n.Allocatable.Pods = math.MaxInt64
	switch n.Fit(asks) {
	case cluster.WrongModel:
		return refuseModel
	case cluster.NoGPU:
		return refuseCount
	}
	return ""
}

// Suggestion ranks the nodes for a pod. Its lists are not nil.
type Suggestion struct {
	Decider
	Took     float64     `json:"decisionSeconds"` // of the decider
	Nodes    []Suggested `json:"nodes"`           // on which the pod fits, the best first
	Refusals []Refusal   `json:"refusals"`        // the other nodes, the most frequent reason first
}

// Decider says what decides.
type Decider struct {
	Policy string `json:"policy,omitempty"`
	// of the network's checkpoint, as the log has it; empty for a heuristic, or without a network
	Fingerprint string `json:"fingerprint,omitempty"`
}

func deciderOf(n plugin.Network) Decider {
	d := Decider{Policy: n.Policy}
	if n.Fingerprint != 0 {
		d.Fingerprint = fmt.Sprintf("%016x", n.Fingerprint)
	}
	return d
}

// Suggested is a node on which the pod fits.
type Suggested struct {
	Node      string   `json:"node"`
	Score     int8     `json:"score"`     // 0 to 100
	Raw       float32  `json:"rawScore"`  // the decider's own score; 0 if the node is not Preferred
	Preferred bool     `json:"preferred"` // whether the preferences of manifests leave the node to the decider
	Reasons   []string `json:"reasons"`
	CPU       Share    `json:"cpu"`
	Memory    Share    `json:"memory"`
}

// Share is the part of a node's allocatable amount that pods request, in 0 to 1.
type Share struct {
	Now     float64 `json:"requested"`
	WithPod float64 `json:"requestedWithPod"`
}

// Refusal is a reason why nodes cannot take the pod.
type Refusal struct {
	Reason string   `json:"reason"`
	Count  int      `json:"nodes"`
	Nodes  []string `json:"examples"` // the first maxNamed by name
}

// maxNamed is the number of nodes that a Refusal names.
const maxNamed = 5

// Suggest ranks all nodes for a pod, which need not exist. It runs upstream's filters and the profile's
// decider, and changes nothing: the pod counts nowhere afterwards. If the decider fails, the error is a
// *plugin.Undecided.
func (a *Advisor) Suggest(ctx context.Context, pod *v1.Pod) (Suggestion, error) {
	if err := a.take(ctx); err != nil {
		return Suggestion{}, err
	}
	defer a.give()
	feasible, refused, err := Filter(ctx, a.profile, framework.NewCycleState(), pod)
	if err != nil {
		return Suggestion{}, err
	}
	out := Suggestion{Nodes: []Suggested{}, Refusals: group(refused)}
	if len(feasible) == 0 {
		return out, nil
	}
	opinion, err := plugin.Ask(ctx, a.profile, pod, feasible, false)
	if err != nil {
		return Suggestion{}, err
	}
	out.Decider, out.Took, out.Nodes = deciderOf(opinion.Network), opinion.Took.Seconds(), suggested(pod, feasible, opinion)
	return out, nil
}

// Filter runs a profile's filters over all nodes of its snapshot, which must not change meanwhile. refused holds the reasons of the other
// nodes by name. state is the state of a new scheduling cycle; score plugins may continue with it.
func Filter(
	ctx context.Context, profile framework.Framework, state fwk.CycleState, pod *v1.Pod,
) (feasible []fwk.NodeInfo, refused map[string]string, err error) {
	all, err := profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, nil, fmt.Errorf("read the snapshot: %w", err)
	}
	refused = make(map[string]string, len(all))
	only, status, _ := profile.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() {
		if !status.IsRejected() {
			return nil, nil, fmt.Errorf("filter the nodes: %w", status.AsError())
		}
		for _, n := range all {
			refused[n.Node().Name] = Reason(status)
		}
		return nil, refused, nil
	}
	statuses := make([]*fwk.Status, len(all))
	profile.Parallelizer().Until(ctx, len(all), func(i int) {
		if !only.AllNodes() && !only.NodeNames.Has(all[i].Node().Name) {
			statuses[i] = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) were not among those that the pod names")
			return
		}
		statuses[i] = profile.RunFilterPluginsWithNominatedPods(ctx, state, pod, all[i])
	}, "gnnsched/filter")
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("filter the nodes: %w", context.Cause(ctx))
	}
	for i, n := range all {
		switch st := statuses[i]; {
		case st.IsSuccess():
			feasible = append(feasible, n)
		case st.IsRejected():
			refused[n.Node().Name] = Reason(st)
		default:
			return nil, nil, fmt.Errorf("filter the nodes: %w", st.AsError())
		}
	}
	return feasible, refused, nil
}

// maxReason bounds a reason in bytes, because it may quote text of a pod's owner.
const maxReason = 300

// Reason returns why a plugin refuses a node.
func Reason(st *fwk.Status) string { return Shorten(strings.Join(st.Reasons(), " and "), maxReason) }

// Shorten returns the text without control characters, cut after about most bytes.
func Shorten(text string, most int) string {
	short := text
	if len(text) > most {
		short = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(short, "�"))
}

// group collects the nodes by the reason why they are refused.
func group(refused map[string]string) []Refusal {
	by := map[string][]string{}
	for node, why := range refused {
		by[why] = append(by[why], node)
	}
	out := make([]Refusal, 0, len(by))
	for why, nodes := range by {
		slices.Sort(nodes)
		out = append(out, Refusal{why, len(nodes), nodes[:min(len(nodes), maxNamed)]})
	}
	slices.SortFunc(out, func(x, y Refusal) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Reason, y.Reason))
	})
	return out
}

// suggested describes the feasible nodes, the best first, and equals by name.
func suggested(pod *v1.Pod, feasible []fwk.NodeInfo, o plugin.Opinion) []Suggested {
	out, left := make([]Suggested, len(feasible)), 0
	asks := kube.Requests(pod)
	for i, info := range feasible {
		n := o.Nodes[i]
		has, taken := info.GetAllocatable(), info.GetRequested()
		out[i] = Suggested{
			Node: info.Node().Name, Score: n.Score, Raw: n.Raw, Preferred: n.Preferred,
			CPU:    share(taken.GetMilliCPU(), asks.MilliCPU, has.GetMilliCPU()),
			Memory: share(taken.GetMemory(), asks.Memory, has.GetMemory()),
		}
		if n.Preferred {
			left++
		}
	}
	slices.SortFunc(out, func(x, y Suggested) int {
		return cmp.Or(cmp.Compare(y.Score, x.Score), cmp.Compare(y.Raw, x.Raw), cmp.Compare(x.Node, y.Node))
	})
	for i := range out {
		out[i].Reasons = reasons(out, i, left)
	}
	return out
}

func share(now, asks, of int64) Share {
	return Share{cluster.Fraction(now, of), cluster.Fraction(now+asks, of)}
}

// reasons explains the rank of node i. left is the number of nodes that preferences left.
func reasons(ranked []Suggested, i, left int) (out []string) {
	n := ranked[i]
	switch {
	case !n.Preferred:
		out = append(out, fmt.Sprintf("%d of %d nodes satisfy the pod's preferences better", left, len(ranked)))
	case int64(n.Score) == fwk.MaxNodeScore:
		out = append(out, fmt.Sprintf("it has the highest score (%.4g) of the %d nodes that the pod's preferences leave", n.Raw, left))
	default:
		out = append(out, fmt.Sprintf("its score (%.4g) is rank %d of the %d nodes that the pod's preferences leave, %.4g below the best",
			n.Raw, i+1, left, ranked[0].Raw-n.Raw))
	}
	return append(out, fmt.Sprintf("with the pod, %.0f %% of its CPU and %.0f %% of its memory are requested",
		100*n.CPU.WithPod, 100*n.Memory.WithPod))
}
