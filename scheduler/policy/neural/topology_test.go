package neural

import (
	"math"
	"math/rand/v2"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy/policytest"
)

// A network with the set topology gives a pod with several devices those that are near each other, and tells nodes apart by where their
// idle devices are, which another network does not.
func TestGPUPolicySeesTopology(t *testing.T) {
	where := &cluster.Topology{NUMA: []string{"0", "0", "1", "1"}}
	node := func(used ...int64) *cluster.Node {
		n := policytest.GPUNode(64_000, 4)
		copy(n.GPUs, used)
		n.Requested.GPU = 2
		n.Topology = where
		return n
	}
	s := &cluster.Snapshot{Nodes: []*cluster.Node{node(1000, 1000, 0, 0), node(1000, 0, 1000, 0), node(0, 1000, 0, 1000)}}
	pod, rows := &cluster.Pod{Requests: policytest.Whole(1)}, []int32{0, 1, 2}
	for _, c := range []struct {
		features []string
		apart    bool
		two      cluster.DeviceSet
	}{{[]string{"base", "topology"}, true, 0b1100}, {nil, false, 0b0101}} {
		a := checkpoint.Architecture{Graph: checkpoint.GPUGraph, Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 8, Features: c.features}
		net, err := infer.New(checkpoint.Random(a, rand.New(rand.NewPCG(1, 2))))
		if err != nil {
			t.Fatal(err)
		}
		p := New("learned", net, nil)
		got := policytest.Scores(t, p, s, pod, rows)
		if apart := got[0] != got[1]; apart != c.apart || math.Abs(float64(got[1]-got[2])) > 1e-6 {
			t.Errorf("%v: scores %v", c.features, got)
		}
		if on := p.Devices(node(0, 500, 0, 0), &cluster.Pod{Requests: policytest.Whole(2)}); on != c.two {
			t.Errorf("%v: %b, want %b", c.features, on, c.two)
		}
		if n := len(p.(*GPUPolicy).states.ids); c.apart && n != 7 || !c.apart && n != 3 {
			t.Errorf("%v: %d states", c.features, n)
		}
	}
}
