// Package nodereservation keeps nodes for pods that their owner is about to make anew. Whoever evicts a pod writes an annotation on
// the node that its successor shall get, and LearnedScore prefers that node to all others.
package nodereservation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/watched"
)

// Reservation is an element of the JSON list in a node's kube.HoldsAnnotation. It
// keeps the node for pods of one controller, until the node has so many of them. Other pods do not get the room that these need, unless
// their priority is higher.
type Reservation struct {
	Owner    types.UID       `json:"owner"` // of the controller
	Pods     int             `json:"pods"`
	Until    time.Time       `json:"until"`
	Room     v1.ResourceList `json:"room,omitempty"` // requests of one pod
	Priority int32           `json:"priority,omitempty"`
	// GPUs has the devices of each pod in the order in which they come, as kube.GPUIndexAnnotation does; the last one's last. Each is
	// a pod with the request GPU.
	GPUs []string          `json:"gpus,omitempty"`
	GPU  cluster.Resources `json:"gpu,omitzero"`
}

// Nodes knows the reservations of a cluster's nodes. It is safe for concurrent use.
type Nodes struct {
	clock  clock.PassiveClock
	some   atomic.Bool
	mu     sync.Mutex
	byNode map[string][]Reservation // by node
	tried  map[types.UID]struct{}   // pods that have been kept to their nodes once
}

// Watch follows the nodes of an informer.
func Watch(nodes cache.SharedInformer, c clock.PassiveClock) (*Nodes, error) {
	n := &Nodes{clock: c, byNode: map[string][]Reservation{}, tried: map[types.UID]struct{}{}}
	_, err := nodes.AddEventHandler(watched.Handler(func(was, is *v1.Node, _ bool) {
		if is != nil {
			n.set(is.Name, is.Annotations[kube.HoldsAnnotation])
		} else {
			n.set(was.Name, "")
		}
	}))
	return n, err
}

// maxPods is more than any node has. A node may write its own annotation, and Keeps adds the requests of each pod.
const maxPods = 1000

// set takes the annotation of a node. One that cannot be read reserves nothing.
func (n *Nodes) set(node, annotation string) {
	var list []Reservation
	if annotation != "" && json.Unmarshal([]byte(annotation), &list) != nil {
		list = nil
	}
	for i := range list {
		list[i].Pods = min(list[i].Pods, maxPods)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(list) == 0 {
		delete(n.byNode, node)
	} else {
		n.byNode[node] = list
	}
	if n.some.Store(len(n.byNode) > 0); len(n.byNode) == 0 {
		clear(n.tried)
	}
}

// Any reports whether a node of the cluster is held.
func (n *Nodes) Any() bool { return n != nil && n.some.Load() }

// others returns the reservations of a node that keep room from a pod.
func (n *Nodes) others(pod *v1.Pod, node string) (out []Reservation) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now, owner := n.clock.Now(), metav1.GetControllerOfNoCopy(pod)
	for _, h := range n.byNode[node] {
		if owner != nil && owner.UID == h.Owner {
			return nil
		}
		if h.Priority >= ptr.Deref(pod.Spec.Priority, 0) && now.Before(h.Until) {
			out = append(out, h)
		}
	}
	return out
}

// come returns the devices of the pods that are still to come to a node.
func (h *Reservation) come(node fwk.NodeInfo) []string {
	return h.GPUs[min(max(h.taken(node)-h.Pods+len(h.GPUs), 0), len(h.GPUs)):]
}

// GPUs returns what keeps GPUs of a node from a pod: pods that are to come.
func (n *Nodes) GPUs(pod *v1.Pod, node fwk.NodeInfo) (out []kube.RunningPod) {
	if !n.Any() {
		return nil
	}
	for _, h := range n.others(pod, node.Node().Name) {
		for _, index := range h.come(node) {
			out = append(out, kube.RunningPod{Requests: h.GPU, Devices: devices(index)})
		}
	}
	return out
}

// GPUsFor returns the devices of a node that are held for a pod; none if its devices do not matter.
func (n *Nodes) GPUsFor(pod *v1.Pod, node fwk.NodeInfo) cluster.DeviceSet {
	if len(n.For(pod, []fwk.NodeInfo{node})) == 0 {
		return 0
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	owner := metav1.GetControllerOfNoCopy(pod).UID
	for _, h := range n.byNode[node.Node().Name] {
		if all := h.come(node); h.Owner == owner && len(all) > 0 {
			return devices(all[0])
		}
	}
	return 0
}

func devices(index string) cluster.DeviceSet {
	return kube.Devices(map[string]string{kube.GPUIndexAnnotation: index})
}

// Keeps reports whether a node would lack room for the pods that it is held for, if another pod got it.
func (n *Nodes) Keeps(pod *v1.Pod, node fwk.NodeInfo) bool {
	list := n.others(pod, node.Node().Name)
	if len(list) == 0 {
		return false
	}
	held := &framework.Resource{}
	for _, h := range list {
		for range h.Pods - h.taken(node) {
			held.Add(h.Room)
		}
	}
	more := framework.NewResource(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}))
	has, used := node.GetAllocatable(), node.GetRequested()
	if lacks(held.MilliCPU, more.MilliCPU, has.GetMilliCPU(), used.GetMilliCPU()) ||
		lacks(held.Memory, more.Memory, has.GetMemory(), used.GetMemory()) {
		return true
	}
	for name, n := range held.ScalarResources {
		if lacks(n, more.ScalarResources[name], has.GetScalarResources()[name], used.GetScalarResources()[name]) {
			return true
		}
	}
	return false
}

// lacks reports whether a resource that both want does not suffice for both.
func lacks(held, more, has, used int64) bool {
	return held > 0 && more > 0 && held+more > has-used
}

// Once is For the first time that a pod has such nodes, and none afterwards, so that a pod that does not fit there gets another node.
func (n *Nodes) Once(pod *v1.Pod, nodes []fwk.NodeInfo) (names sets.Set[string]) {
	held := n.For(pod, nodes)
	if len(held) == 0 {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, again := n.tried[pod.UID]; again {
		return nil
	}
	n.tried[pod.UID] = struct{}{}
	names = sets.Set[string]{}
	for _, i := range held {
		names.Insert(nodes[i].Node().Name)
	}
	return names
}

// For returns the indices of the nodes that are held for a pod; none if it has no controller, or its siblings have taken all of them.
func (n *Nodes) For(pod *v1.Pod, nodes []fwk.NodeInfo) (out []int32) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || !n.Any() {
		return nil
	}
	now := n.clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, node := range nodes {
		for _, h := range n.byNode[node.Node().Name] {
			if h.Owner == owner.UID && now.Before(h.Until) && h.taken(node) < h.Pods {
				out = append(out, int32(i))
				break
			}
		}
	}
	return out
}

// taken returns how many pods of the owner the node has.
func (h *Reservation) taken(node fwk.NodeInfo) (n int) {
	for _, p := range node.GetPods() {
		o := metav1.GetControllerOfNoCopy(p.GetPod())
		if o != nil && o.UID == h.Owner && p.GetPod().DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// CordonTime is how long a node stays cordoned by a run of gnnsched defrag that does not renew its mark.
const CordonTime = 10 * time.Minute

// Emptied is the value of kube.DefragAnnotation on the nodes that a run cordoned and emptied.
const Emptied = "emptied"

// Moving returns the value of kube.DefragAnnotation of a node that is cordoned from now on for CordonTime.
func Moving(now time.Time) string {
	return kube.DefragMoving + " until " + now.Add(CordonTime).UTC().Format(time.RFC3339)
}

// Cordoned reports whether a run cordoned the node to move its pods, and until when. Marks of earlier versions have no time.
func Cordoned(n *v1.Node) (until time.Time, is bool) {
	text, is := strings.CutPrefix(n.Annotations[kube.DefragAnnotation], kube.DefragMoving)
	until, _ = time.Parse(time.RFC3339, strings.TrimPrefix(text, " until "))
	return until, is
}

// GiveBack uncordons the nodes of runs that have ended without doing so, and returns their names. It also removes reservations that are
// over, and marks where somebody has uncordoned the node: who cordons it again does it for reasons of their own. over reports whether a
// mark with this time is.
func GiveBack(ctx context.Context, c kubernetes.Interface, nodes []*v1.Node, over func(until time.Time) bool) (names []string, err error) {
	var errs []error
	for _, n := range nodes {
		annotations, spec := map[string]any{}, map[string]any(nil)
		if until, is := Cordoned(n); is && over(until) {
			names = append(names, n.Name)
			annotations[kube.DefragAnnotation], spec = nil, map[string]any{"unschedulable": nil}
		}
		if n.Annotations[kube.DefragAnnotation] != "" && !n.Spec.Unschedulable {
			annotations[kube.DefragAnnotation] = nil
		}
		if text := n.Annotations[kube.HoldsAnnotation]; text != "" && over(lastOf(text)) {
			annotations[kube.HoldsAnnotation] = nil
		}
		if len(annotations) > 0 {
			errs = append(errs, Change{n.Name, n.ResourceVersion, annotations, spec}.Patch(ctx, c))
		}
	}
	return names, errors.Join(errs...)
}

// lastOf returns when the last of a node's reservations ends; the zero time if the annotation cannot be read.
func lastOf(annotation string) (out time.Time) {
	var list []Reservation
	_ = json.Unmarshal([]byte(annotation), &list)
	for _, h := range list {
		if h.Until.After(out) {
			out = h.Until
		}
	}
	return out
}

// Change is a change of a node.
type Change struct {
	Node, Version     string         // Version "" is any
	Annotations, Spec map[string]any // nil removes a value
}

// Patch makes the change. A node that is gone, or has another version by now, stays as it is.
func (x Change) Patch(ctx context.Context, c kubernetes.Interface) error {
	meta := map[string]any{"annotations": x.Annotations}
	if x.Version != "" {
		meta["resourceVersion"] = x.Version
	}
	all := map[string]any{"metadata": meta}
	if x.Spec != nil {
		all["spec"] = x.Spec
	}
	patch, err := json.Marshal(all)
	if err != nil {
		return err
	}
	_, err = c.CoreV1().Nodes().Patch(ctx, x.Node, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !slices.ContainsFunc([]func(error) bool{apierrors.IsNotFound, apierrors.IsConflict, apierrors.IsInvalid},
		func(is func(error) bool) bool { return is(err) }) {
		return fmt.Errorf("mark node %s: %w", x.Node, err)
	}
	return nil
}
