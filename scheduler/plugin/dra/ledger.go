package dra

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/internal/cluster/cards"
)

// Ledger translates the slices and allocations of a scheduler's DRA manager. All profiles of a process share
// the manager and the ledger.
type Ledger struct {
	manager fwk.SharedDRAManager
	shares  shares
	order   order

	holding sync.Mutex
	held    map[*resourceapi.AllocationResult]int // how many pods being bound have it

	mu     sync.Mutex
	shapes map[string]*shape // by node
	last   *View
}

// allLedgers holds the *Ledger of each DRA manager in this process.
var allLedgers sync.Map

// LedgerOf returns the ledger of a scheduler's DRA manager until ctx is done; nil if there is no manager.
func LedgerOf(ctx context.Context, h fwk.Handle) *Ledger {
	m := h.SharedDRAManager()
	if m == nil {
		return nil
	}
	l, known := allLedgers.LoadOrStore(m, &Ledger{manager: m, shapes: map[string]*shape{}})
	if !known {
		context.AfterFunc(ctx, func() { allLedgers.Delete(m) })
	}
	return l.(*Ledger)
}

// View holds the devices that claims use on all nodes, in one state of the cluster. It never changes. A nil View has no nodes.
type View struct {
	ledger *Ledger
	nodes  map[string]*Node
	awaits map[string]bool // see Awaits
}

// Awaits reports whether claims hold GPUs of a node that no slice describes. Such a node has come back before its slices, and nobody can
// say which of its GPUs are free. v may be nil.
func (v *View) Awaits(node string) bool { return v != nil && v.awaits[node] }

// Node returns what claims use on a node; nil if it has no devices of slices.
func (v *View) Node(name string) *Node {
	if v == nil {
		return nil
	}
	return v.nodes[name]
}

// hasMIG reports whether some node has cards with MIG.
func (v *View) hasMIG() bool {
	for _, n := range v.nodes {
		if n.slices != nil {
			return true
		}
	}
	return false
}

// Nodes returns the names of the nodes with devices of slices.
func (v *View) Nodes() iter.Seq[string] {
	if v == nil {
		return func(func(string) bool) {}
	}
	return maps.Keys(v.nodes)
}

// gatherPatience is how long the ledger tries to read allocations that change meanwhile, as upstream's plugin
// does.
const gatherPatience = 5 * time.Second

// View returns the present view, allocations in flight included; nil if no node has devices of slices. As long as nothing changes,
// it returns the same pointer. l may be nil.
func (l *Ledger) View(ctx context.Context) (*View, error) {
	if l == nil {
		return nil, nil
	}
	all, err := l.manager.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return nil, fmt.Errorf("list the resource slices: %w", err)
	}
	if !slices.ContainsFunc(all, cards.OfNode) {
		return l.update(nil, nil), nil
	}
	var state *structured.AllocatedState
	err = wait.PollUntilContextTimeout(ctx, time.Microsecond, gatherPatience, true, func(context.Context) (bool, error) {
		state, err = l.gather()
		return err == nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("gather the allocated devices: %w", err)
	}
	return l.update(all, state), nil
}

// update returns the view of slices and allocations. What has not changed since the last view is kept.
func (l *Ledger) update(all []*resourceapi.ResourceSlice, state *structured.AllocatedState) *View {
	byNode := map[string][]*resourceapi.ResourceSlice{}
	for _, s := range all {
		if cards.OfNode(s) {
			byNode[*s.Spec.NodeName] = append(byNode[*s.Spec.NodeName], s)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.last
	shapes, view := make(map[string]*shape, len(byNode)), &View{ledger: l, nodes: make(map[string]*Node, len(byNode))}
	same := true
	for name, in := range byNode {
		s := l.shapes[name]
		slices.SortFunc(in, cards.Compare)
		if s == nil || !slices.Equal(s.In, in) { // an informer replaces objects and never changes them
			if s = newShape(in); s == nil {
				continue
			}
		}
		shapes[name] = s
		n := old.Node(name)
		if n == nil || n.shape != s || !n.holds(state) {
			before := n
			n = newNode(s, state)
			if before != nil && before.shape == s && before.equal(n) {
				before.made, n = n.made, before
			} else {
				same = false
			}
		}
		view.nodes[name] = n
	}
	l.shapes, view.awaits = shapes, awaited(byNode, state)
	switch {
	case len(view.nodes) == 0:
		l.last = nil
	case !same || old == nil || len(old.nodes) != len(view.nodes) || !maps.Equal(old.awaits, view.awaits):
		l.last = view
	}
	return l.last
}

// Serves reports whether claims serve a resource that a pod requests, on nodes that do not offer it. l may be nil.
func (l *Ledger) Serves(name v1.ResourceName) bool {
	return l != nil && l.manager.DeviceClassResolver().GetDeviceClass(name) != nil
}

// awaited returns the pools whose GPUs are allocated and which have no slice, given the slices by node. A pool of one node has the
// node's name, by convention.
func awaited(byNode map[string][]*resourceapi.ResourceSlice, state *structured.AllocatedState) map[string]bool {
	var out map[string]bool
	look := func(id structured.DeviceID) {
		if pool := id.Pool.String(); byNode[pool] == nil && cards.HasGPUs(id.Driver.String()) {
			if out == nil {
				out = map[string]bool{}
			}
			out[pool] = true
		}
	}
	if state != nil {
		for id := range state.AllocatedDevices {
			look(id)
		}
		for id := range state.AggregatedCapacity {
			look(id)
		}
	}
	return out
}
