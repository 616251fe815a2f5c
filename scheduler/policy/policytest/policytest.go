// Package policytest draws random clusters for the tests of policies and checks what the interface
// policy.Policy promises.
package policytest

import (
	"fmt"
	"math"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/stock"
)

// Scores returns p's scores of the candidates, as if pod fitted on each of them.
func Scores(t rapid.TB, p policy.Policy, s *cluster.Snapshot, pod *cluster.Pod, candidates []int32) []float32 {
	out := make([]float32, len(candidates))
	if err := p.Score(s, pod, candidates, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Rows returns the candidates 0 to nodes-1.
func Rows(nodes int) []int32 {
	out := make([]int32, nodes)
	for i := range out {
		out[i] = int32(i)
	}
	return out
}

// DrawSnapshot draws nodes of odd sizes, some without CPU or memory, with pods of odd sizes. Some
// pods request nothing, and some nodes are overcommitted.
func DrawSnapshot(t *rapid.T) *cluster.Snapshot {
	s := &cluster.Snapshot{}
	for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
		n := &cluster.Node{Name: fmt.Sprintf("n%d", i), Version: cluster.NextVersion(), Allocatable: cluster.Resources{
			MilliCPU: rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(1000, 96_000)).Draw(t, "cpu"),
			Memory:   rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(1<<30, 1<<39)).Draw(t, "memory"),
			Pods:     110,
		}}
		for range rapid.IntRange(0, 12).Draw(t, "pods") {
			n.Add(DrawRequests(t))
		}
		s.Nodes = append(s.Nodes, n)
	}
	return s
}

// DrawRequests draws what a pod requests of CPU and memory, which may be nothing.
func DrawRequests(t *rapid.T) cluster.Resources {
	return cluster.Resources{
		MilliCPU: rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(1, 16_000)).Draw(t, "request cpu"),
		Memory:   rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(1, 1<<36)).Draw(t, "request memory"),
		Pods:     1,
	}
}

// DrawCandidates draws one or more of n nodes, in any order.
func DrawCandidates(t *rapid.T, n int) []int32 {
	return rapid.Permutation(Rows(n)).Draw(t, "candidates")[:rapid.IntRange(1, n).Draw(t, "of them")]
}

// Change changes s as time does: pods come and go; nodes join, leave, and change size, zone or
// place in the list. serial numbers the nodes that join.
func Change(t *rapid.T, s *cluster.Snapshot, serial *int) {
	for range rapid.IntRange(0, 6).Draw(t, "changes") {
		i := rapid.IntRange(0, len(s.Nodes)-1).Draw(t, "node")
		n := s.Nodes[i]
		switch rapid.IntRange(0, 7).Draw(t, "what") {
		case 0:
			*serial++
			s.Nodes = append(s.Nodes, &cluster.Node{
				Name: fmt.Sprintf("new%d", *serial), Version: cluster.NextVersion(), Zone: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone"),
				Allocatable: cluster.Resources{MilliCPU: 4000, Memory: 8 << 30, Pods: 20},
			})
		case 1:
			if len(s.Nodes) > 1 {
				s.Nodes = append(s.Nodes[:i], s.Nodes[i+1:]...)
			}
		case 2:
			n.Allocatable.MilliCPU = rapid.Int64Range(0, 64_000).Draw(t, "cpu")
			n.Version = cluster.NextVersion()
		case 3:
			n.Zone = rapid.SampledFrom([]string{"", "a", "c"}).Draw(t, "zone")
			n.Version = cluster.NextVersion()
		case 4:
			j := rapid.IntRange(0, len(s.Nodes)-1).Draw(t, "other")
			s.Nodes[i], s.Nodes[j] = s.Nodes[j], s.Nodes[i]
		case 5:
			if len(n.Groups) > 0 {
				n.Remove(n.Groups[0].Each, 0)
			}
		default:
			n.Add(DrawRequests(t))
		}
	}
}

// Near fails the test unless got equals want within a relative tolerance of 1e-5.
func Near(t *rapid.T, got, want []float32) {
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > 1e-5*max(1, math.Abs(float64(want[i]))) {
			t.Fatalf("score %d is %v, want %v", i, got[i], want[i])
		}
	}
}

// CheckOrder checks that the scores of the policies that make returns depend neither on the order
// of the nodes nor on that of the candidates.
func CheckOrder(t *rapid.T, make func() policy.Policy) {
	s := DrawSnapshot(t)
	pod := &cluster.Pod{Requests: DrawRequests(t)}
	serial := 0
	Change(t, s, &serial)
	candidates := DrawCandidates(t, len(s.Nodes))
	want := Scores(t, make(), s, pod, candidates)

	place := rapid.Permutation(Rows(len(s.Nodes))).Draw(t, "place") // of each node in the other order
	other := &cluster.Snapshot{Nodes: append([]*cluster.Node(nil), s.Nodes...)}
	for i, n := range s.Nodes {
		other.Nodes[place[i]] = n
	}
	order := rapid.Permutation(Rows(len(candidates))).Draw(t, "order")
	moved, expected := append([]int32(nil), candidates...), append([]float32(nil), want...)
	for i, c := range candidates {
		moved[order[i]], expected[order[i]] = place[c], want[i]
	}
	Near(t, Scores(t, make(), other, pod, moved), expected)
}

// DrawProfile draws a valid profile.
func DrawProfile(t *rapid.T) stock.Profile {
	weight := func(name string) int64 {
		return rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 100)).Draw(t, name)
	}
	p := stock.Profile{
		Weights: stock.Weights{
			Fit: weight("fit"), Balanced: weight("balanced"), Spread: weight("spread"), Taints: weight("taints"),
			NodeAffinity: weight("node affinity"), PodAffinity: weight("pod affinity"), ImageLocality: weight("image locality"),
		},
		Strategy:        rapid.SampledFrom(stock.Strategies).Draw(t, "strategy"),
		NoDefaultSpread: rapid.Bool().Draw(t, "no default spread"),
	}
	for _, r := range drawProfileResources(t, "fit resources") {
		p.Fit = append(p.Fit, stock.Weighted{Resource: r, Weight: rapid.Int64Range(1, 100).Draw(t, "resource weight")})
	}
	p.Balanced = drawProfileResources(t, "balanced resources")
	if p.Strategy == stock.RequestedToCapacityRatio {
		at := rapid.Int64Range(0, 40).Draw(t, "first")
		for at <= 100 {
			p.Shape = append(p.Shape, stock.Point{Utilization: at, Score: rapid.Int64Range(0, stock.MaxShapeScore).Draw(t, "score")})
			at += rapid.Int64Range(1, 50).Draw(t, "step")
		}
	}
	return p
}

// drawProfileResources draws one or more resources in any order.
func drawProfileResources(t *rapid.T, name string) []stock.Resource {
	all := rapid.Permutation(stock.Resources).Draw(t, name)
	return all[:rapid.IntRange(1, len(all)).Draw(t, "of them")]
}

// GPUNode returns a node with the given thousandths of a CPU and number of devices, on which pods
// with the given requests run.
func GPUNode(cpu, devices int64, running ...cluster.Resources) *cluster.Node {
	n := &cluster.Node{Allocatable: cluster.Resources{MilliCPU: cpu, Memory: 1 << 40, GPU: devices, Pods: 100}, GPUs: make([]int64, devices),
		Version: cluster.NextVersion()}
	for _, r := range running {
		n.Add(r)
	}
	return n
}

// Whole returns the requests of a pod for one CPU and whole devices.
func Whole(devices int64) cluster.Resources {
	return cluster.Resources{MilliCPU: 1000, GPU: devices, Pods: 1}
}

// Share returns the requests of a pod for one CPU and a share of a device, in thousandths.
func Share(milli int64) cluster.Resources {
	return cluster.Resources{MilliCPU: 1000, GPUMilli: milli, Pods: 1}
}
