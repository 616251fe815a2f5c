package plugin

import (
	"context"
	"maps"
	"math"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// GPUSharesName is the plugin's name in KubeSchedulerConfiguration.
const GPUSharesName = "GPUShares"

// GPUShares keeps the books of GPU devices, as package kube has them on nodes and pods. It
// filters by devices and models, which upstream's filters do not know, chooses a pod's devices
// when a node is reserved, and writes them on the pod in the same request that binds it: so no
// pod has a node without its devices, or the other way round.
//
// In a profile with LearnedScore its policy chooses the devices, in any other
// cluster.Node.ChooseDevices. It has nothing to say on pods that ask for no GPU.
type GPUShares struct {
	handle fwk.Handle

	mu    sync.RWMutex // filters run beside each other
	books map[string]book
}

// book is what a node's devices are used for, at one generation of the node.
type book struct {
	generation int64
	node       *cluster.Node // with devices, and the pods that use them
}

var (
	_ fwk.PreFilterPlugin   = &GPUShares{}
	_ fwk.FilterPlugin      = &GPUShares{}
	_ fwk.ReservePlugin     = &GPUShares{}
	_ fwk.BindPlugin        = &GPUShares{}
	_ fwk.EnqueueExtensions = &GPUShares{}
	_ fwk.SignPlugin        = &GPUShares{}
)

// NewGPUShares makes the plugin for one profile; kube-scheduler calls it. It has no arguments.
func NewGPUShares(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	return &GPUShares{handle: h, books: map[string]book{}}, nil
}

// Name implements fwk.Plugin.
func (g *GPUShares) Name() string { return GPUSharesName }

const (
	askKey     = fwk.StateKey("gnnsched/" + GPUSharesName)
	devicesKey = fwk.StateKey("gnnsched/" + GPUSharesName + "/devices")
)

// ask is what the pod of a cycle asks for.
type ask struct {
	pod     cluster.Pod // its GPUs alone
	all     cluster.Pod // and what else it asks for
	indexed bool        // wants to know its devices
}

// Clone implements fwk.StateData. Nothing writes to ask after PreFilter.
func (a *ask) Clone() fwk.StateData { return a }

// chosen is the devices that were chosen.
type chosen cluster.DeviceSet

// Clone implements fwk.StateData.
func (c chosen) Clone() fwk.StateData { return c }

// PreFilter implements fwk.PreFilterPlugin.
func (g *GPUShares) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	r, err := requestOf(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the pod's GPUs: "+err.Error())
	}
	if r.None() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(askKey, &ask{
		pod:     cluster.Pod{Name: pod.Name, Namespace: pod.Namespace, Requests: cluster.Resources{GPU: r.GPU, GPUMilli: r.GPUMilli, Pods: 1}, GPUModels: r.Models},
		all:     convertPod(pod),
		indexed: r.WantsIndex,
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.books) > 2*len(nodes)+100 {
		clear(g.books) // of nodes that have gone
	}
	return nil, nil
}

// requestOf is what a pending pod asks for.
func requestOf(pod *v1.Pod) (kube.GPURequest, error) {
	return kube.GPURequestOf(pod.Annotations, kube.Requests(pod))
}

// PreFilterExtensions implements fwk.PreFilterPlugin; Filter looks at the node that it is given.
func (g *GPUShares) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter implements fwk.FilterPlugin.
func (g *GPUShares) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	a := asked(state)
	if a == nil {
		return nil
	}
	switch g.book(info).Fit(&a.pod) {
	case cluster.WrongModel:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) had no GPU of a model that the pod allows")
	case cluster.NoGPU:
		return fwk.NewStatus(fwk.Unschedulable, "node(s) had too few idle GPUs")
	case cluster.NoDevice:
		return fwk.NewStatus(fwk.Unschedulable, "node(s) had no GPU with room for the share")
	}
	return nil
}

func asked(state fwk.CycleState) *ask {
	data, err := state.Read(askKey)
	if err != nil {
		return nil // the pod asks for no GPU
	}
	return data.(*ask)
}

// book is the books of a node. Whoever reads it must not change it.
func (g *GPUShares) book(info fwk.NodeInfo) *cluster.Node {
	name, generation := info.Node().Name, info.GetGeneration()
	g.mu.RLock()
	b, known := g.books[name]
	g.mu.RUnlock()
	if known && b.generation == generation {
		return b.node
	}
	n := &cluster.Node{Name: name, Generation: generation}
	kube.SetGPUs(n, info.Node().Labels, amounts(info.GetAllocatable()))
	n.Allocatable.Pods = math.MaxInt64 // upstream counts them
	var running []kube.RunningPod
	for _, p := range info.GetPods() {
		if r := runningPod(p); r.Requests.TotalGPUMilli() > 0 {
			running = append(running, r)
		}
	}
	kube.Place(n, running)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.books[name] = book{generation, n}
	return n
}

// Reserve implements fwk.ReservePlugin: it chooses the devices, and notes them on the copy of
// the pod that the scheduler has begun to count on the node, which nobody else holds yet.
func (g *GPUShares) Reserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	a := asked(state)
	if a == nil || a.pod.Requests.TotalGPUMilli() == 0 {
		return nil
	}
	info, err := g.handle.SnapshotSharedLister().NodeInfos().Get(nodeName)
	if err != nil {
		return fwk.AsStatus(err)
	}
	n := g.book(info)
	if !n.HasDevices() || a.pod.Requests.GPUMilli == 0 && !a.indexed && !amounts(info.GetAllocatable()).SharesGPUs() {
		return nil
	}
	on := g.choose(state, a, n)
	if !n.FitsOn(a.pod.Requests, on) {
		return fwk.NewStatus(fwk.Unschedulable, "node(s) had no room on the GPUs")
	}
	pod.Annotations = maps.Clone(pod.Annotations)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[kube.GPUIndexAnnotation] = kube.FormatDevices(on)
	state.Write(devicesKey, chosen(on))
	return nil
}

// choose lets the profile's policy choose, if it has one and what it chooses fits.
func (g *GPUShares) choose(state fwk.CycleState, a *ask, n *cluster.Node) cluster.DeviceSet {
	if p, has := deciders.Load(g.handle); has {
		_, err := state.Read(stateKey)
		if on := p.(*Plugin).devices(&a.all, n.Name, err == nil); n.FitsOn(a.pod.Requests, on) {
			return on
		}
	}
	return n.ChooseDevices(a.pod.Requests)
}

// Unreserve implements fwk.ReservePlugin. There is nothing to take back: the scheduler drops
// its copy of the pod, and nothing was written.
func (g *GPUShares) Unreserve(context.Context, fwk.CycleState, *v1.Pod, string) {}

// Bind implements fwk.BindPlugin: upstream's binding with the devices as an annotation, which
// the API server copies to the pod.
func (g *GPUShares) Bind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	data, err := state.Read(devicesKey)
	if err != nil {
		return fwk.NewStatus(fwk.Skip)
	}
	binding := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			Annotations: map[string]string{kube.GPUIndexAnnotation: kube.FormatDevices(cluster.DeviceSet(data.(chosen)))},
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

// EventsToRegister implements fwk.EnqueueExtensions: what may let a pod on that was refused.
func (g *GPUShares) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete | fwk.Update}, QueueingHintFn: afterPod},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable | fwk.UpdateNodeLabel}},
	}, nil
}

// afterPod tells whether a pod that was refused is worth another attempt: it says something else
// now, or another that held GPUs has left or says something else. Any pod's every update comes
// here, so that it looks no further than it must.
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
	other := now.UID != refused.UID
	return hint((!other || now.Spec.NodeName != "") && says(old) != says(now)), nil
}

// says is what a pod says that GPUShares goes by and that may change.
func says(p *v1.Pod) [4]string {
	a := p.Annotations
	return [4]string{a[kube.GPUCountAnnotation], a[kube.GPUMilliAnnotation], a[kube.GPUModelAnnotation], a[kube.GPUIndexAnnotation]}
}

func hint(worth bool) fwk.QueueingHint {
	if worth {
		return fwk.Queue
	}
	return fwk.QueueSkip
}

// SignPod implements fwk.SignPlugin, so that upstream goes on batching pods without GPUs.
// Others differ by the devices that are left, and are not batched.
func (g *GPUShares) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if r, err := requestOf(pod); err != nil || !r.None() {
		return nil, fwk.NewStatus(fwk.Unschedulable, "pods with GPUs are not batched")
	}
	return nil, nil
}
