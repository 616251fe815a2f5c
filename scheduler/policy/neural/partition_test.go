package neural

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/policy/policytest"
)

// A network with the set partitions scores, with its caches, as the network itself does on the state after the placement, whichever memory
// slices are in use, and takes the GPU of the lowest value.
func TestGPUPolicySeesPartitions(t *testing.T) {
	a := checkpoint.Architecture{Graph: checkpoint.GPUGraph, Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 8,
		Features: []string{"base", "partitions"}}
	net, err := infer.New(checkpoint.Random(a, rand.New(rand.NewPCG(1, 2))))
	if err != nil {
		t.Fatal(err)
	}
	session, e := net.Actor(), encode.NewStars(net.Layout(), nil)
	phi, psi := make([]float32, net.Width()), make([]float32, net.Width())
	var g graph.GPUNode
	value := func(n *cluster.Node, r cluster.Resources, on cluster.DeviceSet) float32 {
		e.Node(&g, n, r, on)
		session.Node(phi, &g)
		return infer.Dot(phi, psi)
	}
	p := New("learned", net, nil)
	differ := false
	rapid.Check(t, func(t *rapid.T) {
		n := policytest.GPUNode(64_000, 4)
		for i := range n.GPUs {
			s := mig.Slices(rapid.Uint8().Draw(t, "used"))
			n.Slices, n.GPUs[i] = append(n.Slices, s), mig.Used(s.Computing(), s.Len())
		}
		profile := rapid.SampledFrom([]mig.Profile{mig.One, mig.OneWide, mig.Two, mig.Three, mig.Four}).Draw(t, "profile")
		pod := &cluster.Pod{Partition: profile, Requests: cluster.Resources{MilliCPU: 2000, GPUMilli: profile.Milli(), Pods: 1}}
		fits := 0
		for i, s := range n.Slices {
			if profile.Fits(s) {
				fits++
			} else {
				n.GPUs[i] = cluster.DeviceMilli // as the plugin shows it
			}
		}
		if fits == 0 {
			return
		}
		s := &cluster.Snapshot{Nodes: []*cluster.Node{n}}
		got := policytest.Scores(t, p, s, pod, []int32{0})[0]
		session.Cluster(psi, encode.NewStars(net.Layout(), nil).Features(s.Nodes))
		least, first := float32(math.Inf(1)), float32(0)
		for i, used := range n.Slices {
			if profile.Fits(used) {
				v := value(n, pod.Requests, cluster.Device(i))
				if first == 0 {
					first = v
				}
				differ = differ || math.Abs(float64(first-v)) > 1e-3
				least = min(least, v)
			}
		}
		if want := value(n, cluster.Resources{}, 0) - least; math.Abs(float64(got-want)) > 1e-5 {
			t.Fatalf("%08b, %s: %v, want %v", n.Slices, profile.Name(40), got, want)
		}
		if on := p.Devices(n, pod); on.Len() != 1 || value(n, pod.Requests, on) > least+1e-5 {
			t.Fatalf("%08b, %s: device %b is not the best", n.Slices, profile.Name(40), on)
		}
	})
	if !differ {
		t.Error("all GPUs have the same value")
	}
}
