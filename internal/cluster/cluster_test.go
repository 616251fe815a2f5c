package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func node() *Node {
	return &Node{Name: "n", Labels: map[string]string{"disk": "ssd"}, Allocatable: Resources{MilliCPU: 4000, Memory: 8 << 30, GPU: 1, Pods: 3}}
}

func TestFit(t *testing.T) {
	small := Resources{MilliCPU: 500, Memory: 1 << 30, Pods: 1}
	taint := Taint{"dedicated", "gpu", NoSchedule}
	for _, c := range []struct {
		name string
		edit func(n *Node, p *Pod)
		want Reason
	}{
		{"fits", func(*Node, *Pod) {}, Fits},
		{"cordoned", func(n *Node, _ *Pod) { n.Unschedulable = true }, Cordoned},
		{"taint", func(n *Node, _ *Pod) { n.Taints = []Taint{taint} }, Untolerated},
		{"soft taint", func(n *Node, _ *Pod) { n.Taints = []Taint{{"a", "b", PreferNoSchedule}} }, Fits},
		{"tolerated by value", func(n *Node, p *Pod) {
			n.Taints, p.Tolerations = []Taint{taint}, []Toleration{{Key: "dedicated", Value: "gpu"}}
		}, Fits},
		{"wrong value", func(n *Node, p *Pod) {
			n.Taints, p.Tolerations = []Taint{taint}, []Toleration{{Key: "dedicated", Value: "cpu"}}
		}, Untolerated},
		{"tolerates everything", func(n *Node, p *Pod) { n.Taints, p.Tolerations = []Taint{taint}, []Toleration{{Exists: true}} }, Fits},
		{"other effect", func(n *Node, p *Pod) {
			n.Taints, p.Tolerations = []Taint{taint}, []Toleration{{Exists: true, Effect: NoExecute}}
		}, Untolerated},
		{"selector", func(_ *Node, p *Pod) { p.NodeSelector = map[string]string{"disk": "ssd"} }, Fits},
		{"selector miss", func(_ *Node, p *Pod) { p.NodeSelector = map[string]string{"disk": "hdd"} }, SelectorMiss},
		{"selector absent", func(_ *Node, p *Pod) { p.NodeSelector = map[string]string{"arch": ""} }, SelectorMiss},
		{"cpu", func(_ *Node, p *Pod) { p.Requests.MilliCPU = 4001 }, NoCPU},
		{"memory", func(_ *Node, p *Pod) { p.Requests.Memory = 9 << 30 }, NoMemory},
		{"gpu", func(_ *Node, p *Pod) { p.Requests.GPU = 2 }, NoGPU},
		{"pods", func(n *Node, _ *Pod) { n.Add(small); n.Add(small); n.Add(small) }, TooManyPods},
		{"asks nothing of an overcommitted node", func(n *Node, p *Pod) {
			n.Add(Resources{MilliCPU: 5000, Pods: 1})
			p.Requests = Resources{Pods: 1}
		}, Fits},
	} {
		n, p := node(), &Pod{Requests: small}
		c.edit(n, p)
		if got := n.Fit(p); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Adding pods and removing them in any order leaves the node as it was. After each step, Requested
// is the sum of the groups, and the groups are sorted and distinct.
func TestAddRemove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := node()
		shapes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Resources {
			return Resources{MilliCPU: rapid.Int64Range(0, 3).Draw(t, "cpu") * 100, Memory: rapid.Int64Range(0, 2).Draw(t, "mem") << 20, Pods: 1}
		}), 1, 30).Draw(t, "shapes")
		for _, s := range shapes {
			before := n.Version
			if n.Add(s); n.Unchanged(before) {
				t.Fatal("generation did not grow")
			}
			var sum Resources
			for i, g := range n.Groups {
				sum = sum.Plus(g.Each.Times(g.Count))
				if i > 0 && compare(n.Groups[i-1].Each, g.Each) >= 0 {
					t.Fatalf("groups not sorted: %v", n.Groups)
				}
			}
			if sum != n.Requested {
				t.Fatalf("requested %v, groups add up to %v", n.Requested, sum)
			}
		}
		for _, i := range rapid.Permutation(indices(len(shapes))).Draw(t, "order") {
			n.Remove(shapes[i], 0)
		}
		if n.Requested != (Resources{}) || len(n.Groups) != 0 {
			t.Fatalf("left over: %v %v", n.Requested, n.Groups)
		}
	})
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func TestRemoveOfUnknownPodPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	node().Remove(Resources{MilliCPU: 1, Pods: 1}, 0)
}

func TestFeasible(t *testing.T) {
	a, b, c := node(), node(), node()
	b.Unschedulable = true
	s := Snapshot{Nodes: []*Node{a, b, c}}
	if d := cmp.Diff([]int32{0, 2}, s.Feasible(&Pod{Requests: Resources{MilliCPU: 1, Pods: 1}}, nil)); d != "" {
		t.Error(d)
	}
}

func TestAdmits(t *testing.T) {
	tainted := Node{Taints: []Taint{{"a", "", PreferNoSchedule}, {"b", "", NoExecute}}}
	for _, c := range []struct {
		name      string
		node      Node
		available bool // without tolerations
		admits    bool // with a toleration of key b
	}{
		{"plain", Node{}, true, true},
		{"cordoned", Node{Unschedulable: true}, false, false},
		{"soft taint", Node{Taints: []Taint{{"a", "", PreferNoSchedule}}}, true, true},
		{"a soft and a hard taint", tainted, false, true},
		{"another hard taint", Node{Taints: []Taint{{"c", "", NoSchedule}}}, false, false},
		{"cordoned and tainted", Node{Unschedulable: true, Taints: tainted.Taints}, false, false},
	} {
		if got := c.node.Available(); got != c.available {
			t.Errorf("%s: available: %v", c.name, got)
		}
		if got := c.node.Admits([]Toleration{{Key: "b", Exists: true}}); got != c.admits {
			t.Errorf("%s: admits: %v", c.name, got)
		}
	}
}
