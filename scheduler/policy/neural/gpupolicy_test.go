package neural

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/policytest"
)

func gpuNetwork(t testing.TB, head checkpoint.Head) *infer.Network {
	a := checkpoint.Architecture{Graph: checkpoint.GPUGraph, Encoder: checkpoint.GNN, Head: head, Hidden: 8}
	return fatal.Value(infer.New(checkpoint.Random(a, rand.New(rand.NewPCG(1, 2)))))(t)
}

var gpuDemand = []fragmentation.Demand{
	{Requests: cluster.Resources{MilliCPU: 2000, Pods: 1}, Count: 3},
	{Requests: policytest.Share(500), Count: 2}, {Requests: policytest.Share(300), Count: 1}, {Requests: policytest.Whole(1), Count: 2},
	{Requests: policytest.Whole(2), Count: 1},
}

// gpuPolicies makes the policies for GPU nodes.
func gpuPolicies(t *testing.T) map[string]func(*fragmentation.Typical) Policy {
	net := gpuNetwork(t, checkpoint.DQN)
	return map[string]func(*fragmentation.Typical) Policy{
		"network": func(typical *fragmentation.Typical) Policy { return New("network", net, typical) },
		"fill":    func(typical *fragmentation.Typical) Policy { return NewFill("fill", typical) },
	}
}

func drawGPUNodes(t *rapid.T) *cluster.Snapshot {
	s := &cluster.Snapshot{}
	for range rapid.IntRange(1, 6).Draw(t, "nodes") {
		s.Nodes = append(s.Nodes, policytest.GPUNode(rapid.SampledFrom([]int64{8000, 64_000}).Draw(t, "cpu"),
			rapid.Int64Range(0, 4).Draw(t, "devices")))
	}
	return s
}

// Over many decisions the policy, with its caches, scores like the network itself: the value of the
// node before the placement minus that after it on the best devices, each minus what the node is worth to the reserve.
func TestGPUPolicyIsTheNetwork(t *testing.T) {
	typical := fragmentation.NewTypical(gpuDemand)
	for _, head := range []checkpoint.Head{checkpoint.DQN, checkpoint.ActorCritic} {
		net := gpuNetwork(t, head)
		session, e := net.Actor(), encode.NewStars(net.Layout(), typical)
		phi, psi := make([]float32, net.Width()), make([]float32, net.Width())
		var g graph.GPUNode
		var reserve *encode.Reserve
		value := func(n *cluster.Node, r cluster.Resources, on cluster.DeviceSet) float32 {
			e.Node(&g, n, r, on)
			session.Node(phi, &g)
			held := e.Held()
			return infer.Dot(phi, psi) - float32(reserve.Worth(&held))
		}
		rapid.Check(t, func(t *rapid.T) {
			s, p := drawGPUNodes(t), New("learned", net, typical)
			for range 25 {
				pod := &cluster.Pod{Requests: rapid.SampledFrom(gpuDemand).Draw(t, "pod").Requests}
				rows := s.Feasible(pod, nil)
				if len(rows) == 0 {
					continue
				}
				got := policytest.Scores(t, p, s, pod, rows)
				c := encode.NewStars(net.Layout(), typical)
				session.Cluster(psi, c.Features(s.Nodes))
				reserve = c.Reserve()
				for i, v := range rows {
					n, least := s.Nodes[v], float32(math.Inf(1))
					for _, on := range policy.DeviceWays(n, pod.Requests) {
						least = min(least, value(n, pod.Requests, on))
					}
					if want := value(n, cluster.Resources{}, 0) - least; math.Abs(float64(got[i]-want)) > 1e-6 {
						t.Fatalf("node %v, %+v: %v, want %v", n.GPUs, pod.Requests, got[i], want)
					}
					if on := p.Devices(n, pod); value(n, pod.Requests, on) != least {
						t.Fatalf("node %v, %+v: device %b is not the best", n.GPUs, pod.Requests, on)
					}
				}
				n := s.Nodes[rows[rapid.IntRange(0, len(rows)-1).Draw(t, "choice")]]
				n.AddOn(pod.Requests, p.Devices(n, pod))
			}
		})
	}
}

// Over many decisions the policy that fills nodes, with its caches, scores like a new one and chooses the same devices.
func TestFillIsLikeANewOne(t *testing.T) {
	typical := fragmentation.NewTypical(gpuDemand)
	rapid.Check(t, func(t *rapid.T) {
		s, old := drawGPUNodes(t), NewFill("old", typical)
		for range 25 {
			pod := &cluster.Pod{Requests: rapid.SampledFrom(gpuDemand).Draw(t, "pod").Requests}
			rows := s.Feasible(pod, nil)
			if len(rows) == 0 {
				continue
			}
			fresh := NewFill("fresh", typical)
			got := slices.Clone(policytest.Scores(t, old, s, pod, rows))
			if want := policytest.Scores(t, fresh, s, pod, rows); !slices.Equal(got, want) {
				t.Fatalf("%+v: %v, a new policy says %v", pod.Requests, got, want)
			}
			n := s.Nodes[rows[rapid.IntRange(0, len(rows)-1).Draw(t, "choice")]]
			on := old.Devices(n, pod)
			if want := fresh.Devices(n, pod); on != want {
				t.Fatalf("node %v, %+v: devices %b, a new policy says %b", n.GPUs, pod.Requests, on, want)
			}
			n.AddOn(pod.Requests, on)
		}
	})
}

// The scores do not depend on the order of the nodes.
func TestGPUPolicyIsEquivariant(t *testing.T) {
	s := &cluster.Snapshot{Nodes: []*cluster.Node{policytest.GPUNode(64_000, 4, policytest.Share(300)),
		policytest.GPUNode(64_000, 2, policytest.Whole(1)), policytest.GPUNode(8000, 2),
		policytest.GPUNode(64_000, 4, policytest.Share(500), policytest.Share(300))}}
	pod, typical, rows := &cluster.Pod{Requests: policytest.Share(300)}, fragmentation.NewTypical(gpuDemand), []int32{0, 1, 2, 3}
	for name, make := range gpuPolicies(t) {
		before := slices.Clone(policytest.Scores(t, make(typical), s, pod, rows))
		slices.Reverse(s.Nodes)
		after := policytest.Scores(t, make(typical), s, pod, rows)
		slices.Reverse(after)
		if !slices.Equal(before, after) {
			t.Errorf("%s: %v in reverse order is %v", name, before, after)
		}
	}
}

func TestGPUPolicyGivesUp(t *testing.T) {
	s := &cluster.Snapshot{}
	var rows []int32
	for i := range 200 {
		s.Nodes, rows = append(s.Nodes, policytest.GPUNode(64_000, 2)), append(rows, int32(i))
	}
	p := New("late", gpuNetwork(t, checkpoint.DQN), nil)
	p.Until(func() bool { return true })
	if err := p.Score(s, &cluster.Pod{Requests: policytest.Whole(1)}, rows, make([]float32, len(rows))); !errors.Is(err, infer.ErrDeadline) {
		t.Errorf("%v, want the deadline missed", err)
	}
}

// Before the first call of Score the devices are the default ones.
func TestGPUPolicyBeforeScore(t *testing.T) {
	n, pod := policytest.GPUNode(64_000, 3, policytest.Share(300), policytest.Share(600)), &cluster.Pod{Requests: policytest.Share(300)}
	for name, make := range gpuPolicies(t) {
		if got, want := make(fragmentation.NewTypical(gpuDemand)).Devices(n, pod), n.ChooseDevices(pod.Requests); got != want {
			t.Errorf("%s: %b, want %b", name, got, want)
		}
	}
}

// A pod without GPUs scores 0 on a node without GPUs, whatever the values.
func TestGPUPolicyOnNodesWithoutGPUs(t *testing.T) {
	s := &cluster.Snapshot{Nodes: []*cluster.Node{policytest.GPUNode(64_000, 0), policytest.GPUNode(3000, 2)}}
	for name, make := range gpuPolicies(t) {
		got := policytest.Scores(t, make(fragmentation.NewTypical(gpuDemand)), s,
			&cluster.Pod{Requests: cluster.Resources{MilliCPU: 2000, Pods: 1}}, []int32{0, 1})
		if got[0] != 0 || got[1] == 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Another pod may take a device between the filter and the score. The policy does not panic then, nor where no pods are known.
func TestGPUPolicyOnATakenDevice(t *testing.T) {
	s := &cluster.Snapshot{Nodes: []*cluster.Node{policytest.GPUNode(64_000, 1, policytest.Share(900))}}
	for _, make := range gpuPolicies(t) {
		policytest.Scores(t, make(nil), s, &cluster.Pod{Requests: policytest.Share(300)}, []int32{0})
	}
}
