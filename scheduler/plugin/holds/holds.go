// Package holds keeps nodes for pods that their owner is about to make anew. Whoever evicts a pod writes an annotation on the node that its
// successor shall get, and LearnedScore prefers that node to all others.
package holds

import (
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"gnnsched/internal/watched"
)

// Annotation of a node is a JSON list of [Hold]. Its other pods may still take the room.
const Annotation = "gnnsched.io/holds"

// Hold keeps a node for pods of one controller, until the node has so many of them.
type Hold struct {
	Owner types.UID `json:"owner"` // of the controller
	Pods  int       `json:"pods"`
	Until time.Time `json:"until"`
}

// Nodes knows the holds of a cluster's nodes. It is safe for concurrent use.
type Nodes struct {
	clock clock.PassiveClock
	some  atomic.Bool
	mu    sync.Mutex
	holds map[string][]Hold      // by node
	tried map[types.UID]struct{} // pods that have been kept to their nodes once
}

// Watch follows the nodes of an informer.
func Watch(nodes cache.SharedInformer, c clock.PassiveClock) (*Nodes, error) {
	n := &Nodes{clock: c, holds: map[string][]Hold{}, tried: map[types.UID]struct{}{}}
	_, err := nodes.AddEventHandler(watched.Handler(func(was, is *v1.Node, _ bool) {
		if is != nil {
			n.set(is.Name, is.Annotations[Annotation])
		} else {
			n.set(was.Name, "")
		}
	}))
	return n, err
}

// set takes the annotation of a node. One that cannot be read holds nothing.
func (n *Nodes) set(node, annotation string) {
	var list []Hold
	if annotation != "" && json.Unmarshal([]byte(annotation), &list) != nil {
		list = nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(list) == 0 {
		delete(n.holds, node)
	} else {
		n.holds[node] = list
	}
	if n.some.Store(len(n.holds) > 0); len(n.holds) == 0 {
		clear(n.tried)
	}
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
	if owner == nil || !n.some.Load() {
		return nil
	}
	now := n.clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, node := range nodes {
		for _, h := range n.holds[node.Node().Name] {
			if h.Owner == owner.UID && now.Before(h.Until) && h.taken(node) < h.Pods {
				out = append(out, int32(i))
				break
			}
		}
	}
	return out
}

// taken returns how many pods of the owner the node has.
func (h *Hold) taken(node fwk.NodeInfo) (n int) {
	for _, p := range node.GetPods() {
		o := metav1.GetControllerOfNoCopy(p.GetPod())
		if o != nil && o.UID == h.Owner && p.GetPod().DeletionTimestamp == nil {
			n++
		}
	}
	return n
}
