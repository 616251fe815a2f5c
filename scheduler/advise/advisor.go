package advise

import (
	"context"
	"errors"
	"fmt"
	"math"
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
