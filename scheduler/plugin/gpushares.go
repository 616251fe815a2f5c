package plugin

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/plugin/dra"
	"gnnsched/scheduler/plugin/userconfig"
)

// GPUSharesName is the plugin's name in KubeSchedulerConfiguration.
const GPUSharesName = userconfig.GPUShares

// gpuShares accounts for GPU devices, which nodes and pods name as package kube describes. It
// filters nodes by devices and GPU models, which upstream's filters do not know. It chooses a pod's
// devices when a node is reserved, and writes them on the pod in the same request that binds it: no
// pod ever has a node without its devices, or devices without a node.
//
// In a profile with LearnedScore the profile's policy chooses the devices, otherwise
// cluster.Node.ChooseDevices does. GPUShares ignores pods that request no GPU.
type gpuShares struct {
	*profile
	handle fwk.Handle
	ledger *dra.Ledger

	mu    sync.RWMutex // filters run in parallel
	books map[string]book
	view  *dra.View // of what claims use
}

// book is the use of a node's devices in one state of the node.
type book struct {
	state nodeState
	node  *cluster.Node // the devices, and the pods that use them
	promises
}

var (
	_ fwk.PreFilterPlugin   = &gpuShares{}
	_ fwk.FilterPlugin      = &gpuShares{}
	_ fwk.ReservePlugin     = &gpuShares{}
	_ fwk.BindPlugin        = &gpuShares{}
	_ fwk.EnqueueExtensions = &gpuShares{}
	_ fwk.SignPlugin        = &gpuShares{}
)

// newGPUShares makes the plugin for one profile; kube-scheduler calls it. It has no arguments.
func newGPUShares(ctx context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	set.Register()
	g := &gpuShares{profile: profileOf(ctx, h), handle: h, ledger: dra.LedgerOf(ctx, h), books: map[string]book{}}
	g.taken = g.devicesTaken
	return g, nil
}

// Name implements fwk.Plugin.
func (g *gpuShares) Name() string { return GPUSharesName }

const (
	askKey     = dra.CycleKey[*ask]("gnnsched/" + GPUSharesName)
	devicesKey = dra.CycleKey[cluster.DeviceSet]("gnnsched/" + GPUSharesName + "/devices") // those chosen for the pod
)

// ask is the pod of one scheduling cycle. Nothing writes to it after PreFilter.
type ask struct {
	pod     cluster.Pod // with its GPU requests only
	all     cluster.Pod // with all its requests
	indexed bool        // the pod wants to know its devices
	claims  bool        // on nodes that do not offer kube.GPUResource, a claim serves the pod
}

// PreFilter implements fwk.PreFilterPlugin. A pod that has a node keeps its devices: it is back in the queue because the kubelet defers
// its resize (InPlacePodVerticalScalingSchedulerPreemption), and its node counts it already.
func (g *gpuShares) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if pod.Spec.NodeName != "" {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	g.reserved.sweep(g.handle.SnapshotSharedLister().NodeInfos())
	r, err := requestOf(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the pod's GPUs: "+err.Error())
	}
	if r.None() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	view, err := g.ledger.View(ctx)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	askKey.Write(state, &ask{
		pod: cluster.Pod{Name: pod.Name, Namespace: pod.Namespace, Requests: cluster.Resources{GPU: r.GPU, GPUMilli: r.GPUMilli, Pods: 1},
			GPUModels: r.Models},
		all:     convertPod(pod),
		indexed: r.WantsIndex,
		claims:  !r.WantsIndex && len(r.Models) == 0 && g.ledger.Serves(kube.GPUResource),
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.view = view
	if len(g.books) > 2*len(nodes)+100 {
		clear(g.books) // most are of nodes that are gone
	}
	return nil, nil
}

// requestOf returns the GPUs that a pending pod requests.
func requestOf(pod *v1.Pod) (kube.GPURequest, error) {
	return kube.GPURequestOf(pod.Annotations, kube.Requests(pod))
}

// PreFilterExtensions implements fwk.PreFilterPlugin. There are none: Filter keeps no state between
// nodes.
func (g *gpuShares) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter implements fwk.FilterPlugin.
func (g *gpuShares) Filter(_ context.Context, state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	a := askKey.Read(state) // nil if the pod requests no GPU
	if a == nil || a.claims && info.GetAllocatable().GetScalarResources()[kube.GPUResource] == 0 {
		return nil
	}
	g.mu.RLock()
	awaits := g.view.Awaits(info.Node().Name)
	g.mu.RUnlock()
	if awaits {
		return fwk.NewStatus(fwk.Unschedulable, "node(s) had GPUs of claims and no ResourceSlice yet")
	}
	switch with(g.devicesOf(info, "", nil), g.nodeReservations().GPUs(pod, info)).Fit(&a.pod) {
	case cluster.WrongModel:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) had no GPU of a model that the pod allows")
	case cluster.NoGPU:
		return fwk.NewStatus(fwk.Unschedulable, "node(s) had too few idle GPUs")
	case cluster.NoDevice:
		return fwk.NewStatus(fwk.Unschedulable, "node(s) had no GPU with room for the share")
	}
	return nil
}

// devicesOf returns a node with its devices and the pods that use them, have them reserved or are
// nominated for them, except the given pod. The nominated pods are those of info, where upstream's
// filters put them, and the given ones. The caller must not change the node.
func (g *gpuShares) devicesOf(info fwk.NodeInfo, except types.UID, nominated []kube.RunningPod) *cluster.Node {
	b := g.bookOf(info, except)
	n := g.reserved.closeLost(with(b.node, g.reserved.missing(info, except)))
	return promises{slices.Concat(b.nominated, nominated), b.leaving}.with(n)
}

// devicesTaken returns what pods without claims use of the cards of nodes, as dra.Host.Taken does.
func (g *gpuShares) devicesTaken(view *dra.View) map[string][]int64 {
	g.mu.Lock()
	g.view = view
	g.mu.Unlock()
	out := map[string][]int64{}
	nodes := g.handle.SnapshotSharedLister().NodeInfos()
	for name := range view.Nodes() {
		info, err := nodes.Get(name)
		if err != nil || !amounts(info.GetAllocatable()).HasGPUs() {
			continue
		}
		if used := view.Node(name).Others(g.devicesOf(info, "", nil).GPUs); used != nil {
			out[name] = used
		}
	}
	return out
}

// bookOf returns the book of a node, without the given pod if it is of a group and its devices are not
// chosen yet.
func (g *gpuShares) bookOf(info fwk.NodeInfo, except types.UID) book {
	g.mu.RLock()
	b, view := g.books[info.Node().Name], g.view
	g.mu.RUnlock()
	state := stateOf(info, view)
	if except != "" && state.topped(except) {
		return g.convertDevices(info, view, except)
	}
	if b.state != state {
		b = g.convertDevices(info, view, "")
		b.state = state
		g.mu.Lock()
		g.books[info.Node().Name] = b
		g.mu.Unlock()
	}
	return b
}

// convertDevices converts a node's devices and the pods on it that use GPUs, except the given pod.
func (g *gpuShares) convertDevices(info fwk.NodeInfo, view *dra.View, except types.UID) book {
	n := &cluster.Node{Name: info.Node().Name}
	kube.SetGPUs(n, info.Node(), amounts(info.GetAllocatable()))
	n.Allocatable.Pods = math.MaxInt64 // upstream counts them
	counts := func(p *v1.Pod) bool { return except == "" || p.UID != except }
	var claims *dra.Placer
	if n.HasDevices() { // GPUs that are in slices only are for claims
		claims = placeClaims(n, view, info, counts)
	}
	p := g.reserved.place(n, info, func(p *v1.Pod, r kube.RunningPod) bool {
		return r.Requests.TotalGPUMilli() > 0 && counts(p) && !claims.Has(p)
	})
	return book{node: n, promises: p}
}

// Reserve implements fwk.ReservePlugin: it chooses the devices and writes them on the scheduler's own
// copy of the pod, which the scheduler counts on the node and nobody else holds yet. Until the
// snapshot shows that copy, the reservations do.
func (g *gpuShares) Reserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	devicesKey.Delete(state) // of a try with the pod's group, after which recorders have read it
	a := askKey.Read(state)
	if a == nil || a.pod.Requests.TotalGPUMilli() == 0 {
		if pod.Annotations[kube.GPUIndexAnnotation] != "" { // which its owner wrote
			writeDevices(state, pod, 0)
		}
		return nil
	}
	info, err := g.handle.SnapshotSharedLister().NodeInfos().Get(nodeName)
	if err != nil {
		return fwk.AsStatus(err)
	}
	n := g.devicesOf(info, pod.UID, g.nominated(pod, nodeName))
	if !n.HasDevices() {
		return nil
	}
	given := reservation{node: nodeName, generation: info.GetGeneration(), pod: kube.RunningPod{Requests: a.pod.Requests}}
	if a.pod.Requests.GPUMilli == 0 && !a.indexed && !amounts(info.GetAllocatable()).SharesGPUs() {
		g.reserved.add(pod.UID, given) // the kubelet chooses
		return nil
	}
	n = with(n, g.nodeReservations().GPUs(pod, info))
	on := g.nodeReservations().GPUsFor(pod, info)
	if !n.FitsOn(a.pod.Requests, on) {
		on = g.choose(state, a, pod, n)
	}
	if !n.FitsOn(a.pod.Requests, on) {
		return fwk.NewStatus(fwk.Unschedulable, "node(s) had no room on the GPUs")
	}
	given.pod.Devices = on
	g.reserved.add(pod.UID, given)
	writeDevices(state, pod, on)
	return nil
}

// nominated returns what pods request that are nominated for a node and come before the pod: those of
// at least its priority, as upstream's filters count them.
func (g *gpuShares) nominated(pod *v1.Pod, node string) (out []kube.RunningPod) {
	for _, p := range g.handle.NominatedPodsForNode(node) {
		if p.GetPod().UID == pod.UID || corev1helpers.PodPriority(p.GetPod()) < corev1helpers.PodPriority(pod) {
			continue
		}
		if r := runningPod(p); r.Requests.TotalGPUMilli() > 0 {
			out = append(out, r)
		}
	}
	return out
}

// writeDevices writes the devices, which may be none, on the scheduler's copy of the pod, and has Bind
// write them on the API server's.
func writeDevices(state fwk.CycleState, pod *v1.Pod, on cluster.DeviceSet) {
	pod.Annotations = maps.Clone(pod.Annotations)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[kube.GPUIndexAnnotation] = kube.FormatDevices(on)
	devicesKey.Write(state, on)
}

// choose returns the devices that the profile's policy chooses, if it decides about the pod and its choice fits.
func (g *gpuShares) choose(state fwk.CycleState, a *ask, pod *v1.Pod, n *cluster.Node) cluster.DeviceSet {
	on := g.scores.devices(context.Background(), view{pod: &a.all, manifest: pod}, n.Name, stateKey.Read(state))
	if n.FitsOn(a.pod.Requests, on) {
		return on
	}
	return n.ChooseDevices(a.pod.Requests)
}

// Unreserve implements fwk.ReservePlugin. kube-scheduler calls it when anything after Reserve fails
// or the pod is deleted before it is bound, and drops its copy of the pod.
func (g *gpuShares) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	g.reserved.drop(pod.UID)
}

// Bind implements fwk.BindPlugin: upstream's binding with the devices as an annotation, which
// the API server copies to the pod.
func (g *gpuShares) Bind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	on, has := devicesKey.Find(state)
	if !has {
		return fwk.NewStatus(fwk.Skip)
	}
	binding := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			Annotations: map[string]string{kube.GPUIndexAnnotation: kube.FormatDevices(on)},
		},
		Target: v1.ObjectReference{Kind: "Node", Name: nodeName},
	}
	if c := g.handle.APICacher(); c != nil {
		done, err := c.BindPod(binding)
		if err == nil {
			err = c.WaitOnFinish(ctx, done)
		}
		return fwk.AsStatus(err)
	}
	return fwk.AsStatus(g.handle.ClientSet().CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{}))
}

// EventsToRegister implements fwk.EnqueueExtensions: the events after which a refused pod may fit.
func (g *gpuShares) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete | fwk.Update}, QueueingHintFn: afterPod},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable | fwk.UpdateNodeLabel}},
		{Event: fwk.ClusterEvent{Resource: fwk.ResourceSlice, ActionType: fwk.Add}}, // see dra.View.Awaits
	}, nil
}

// afterPod reports whether to try a refused pod again after an event of a pod: the refused pod changed
// its request for GPUs, or a pod that held GPUs left. It is called for every update of every pod, so it
// does as little as possible. What a running pod's owner writes into its annotations frees nothing.
func afterPod(_ klog.Logger, refused *v1.Pod, before, after any) (fwk.QueueingHint, error) {
	old, now, err := util.As[*v1.Pod](before, after)
	switch {
	case err != nil:
		return fwk.Queue, err
	case now == nil:
		r, _ := requestOf(old)
		return hint(!r.None() && (old.Spec.NodeName != "" || old.Status.NominatedNodeName != "")), nil
	case old == nil:
		return fwk.QueueSkip, nil
	}
	return hint(now.UID == refused.UID && gpuAnnotations(old) != gpuAnnotations(now)), nil
}

// gpuAnnotations returns the mutable fields of a pending pod that GPUShares depends on.
func gpuAnnotations(p *v1.Pod) [3]string {
	a := p.Annotations
	return [3]string{a[kube.GPUCountAnnotation], a[kube.GPUMilliAnnotation], a[kube.GPUModelAnnotation]}
}

func hint(worth bool) fwk.QueueingHint {
	if worth {
		return fwk.Queue
	}
	return fwk.QueueSkip
}

// SignPod implements fwk.SignPlugin, so that upstream can batch pods without GPUs. Pods with GPUs
// cannot be batched: each leaves other devices for the next.
func (g *gpuShares) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if r, err := requestOf(pod); err != nil || !r.None() {
		return nil, fwk.NewStatus(fwk.Unschedulable, "pods with GPUs are not batched")
	}
	return nil, nil
}
