package policy_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy"
)

func network(t testing.TB, e checkpoint.Encoder) *infer.Network {
	c := checkpoint.Random(checkpoint.Architecture{Encoder: e, Head: checkpoint.DQN, Hidden: 32}, rand.New(rand.NewPCG(1, 2)))
	n, err := infer.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// scores gives every node a score, as if all were feasible; candidates in the given order.
func scores(t rapid.TB, p policy.Policy, s *cluster.Snapshot, pod *cluster.Pod, candidates []int32) []float32 {
	out := make([]float32, len(candidates))
	if err := p.Score(s, pod, candidates, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// node returns one of 10 CPU and 10 GiB times size, with pods that ask for the given CPU and GiB.
func node(size, cpu, mem int64) *cluster.Node {
	n := &cluster.Node{Name: "n", Generation: 1, Allocatable: cluster.Resources{MilliCPU: size * 10_000, Memory: size * 10 << 30, Pods: 10}}
	if cpu+mem > 0 {
		n.Add(cluster.Resources{MilliCPU: 1000 * cpu, Memory: mem << 30})
	}
	return n
}

func ratio(t testing.TB, shape []policy.ShapePoint) policy.Policy {
	p, err := policy.NewRequestedToCapacityRatio(shape)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestHeuristicsPrefer(t *testing.T) {
	pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 1000, Memory: 1 << 30, Pods: 1}}
	for _, c := range []struct {
		name   string
		policy policy.Policy
		nodes  []*cluster.Node
		want   int
	}{
		{"emptiest", policy.Kubernetes{}, []*cluster.Node{node(1, 4, 4), node(1, 2, 2), node(1, 6, 6)}, 1},
		{"evens out", policy.Kubernetes{}, []*cluster.Node{node(1, 4, 4), node(1, 2, 6), node(1, 3, 3)}, 2},
		{"fullest", policy.MostAllocated{}, []*cluster.Node{node(1, 4, 4), node(1, 2, 2), node(1, 6, 6)}, 2},
		{"fullest by share", policy.MostAllocated{}, []*cluster.Node{node(1, 4, 4), node(4, 20, 20)}, 1},
		{"least left", policy.BestFit{}, []*cluster.Node{node(1, 4, 4), node(1, 6, 6), node(1, 2, 2)}, 1},
		{"least left by amount", policy.BestFit{}, []*cluster.Node{node(4, 20, 20), node(1, 4, 4)}, 1},
		{"nothing offered", policy.BestFit{}, []*cluster.Node{{Name: "none"}}, 0},
		{"most free", policy.DotProduct{}, []*cluster.Node{node(1, 4, 4), node(1, 2, 2), node(1, 6, 6)}, 1},
		{"most free in all", policy.DotProduct{}, []*cluster.Node{node(1, 4, 3), node(1, 2, 4), node(1, 7, 1)}, 1},
		{"where it is a larger part", policy.DotProduct{}, []*cluster.Node{node(4, 20, 20), node(1, 5, 5)}, 1},
		{"fullest by the shape", ratio(t, policy.BinPacking()), []*cluster.Node{node(1, 4, 4), node(1, 2, 2), node(1, 6, 6)}, 2},
		{"emptiest by the shape", ratio(t, []policy.ShapePoint{{0, 10}, {100, 0}}), []*cluster.Node{node(1, 4, 4), node(1, 2, 2), node(1, 6, 6)}, 1},
	} {
		s := &cluster.Snapshot{Nodes: c.nodes}
		got := scores(t, c.policy, s, pod, rows(len(c.nodes)))
		if policy.Best(got) != c.want {
			t.Errorf("%s: %s gives %v, want the best at %d", c.name, c.policy.Name(), got, c.want)
		}
		for _, v := range got {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				t.Errorf("%s: %s gives %v", c.name, c.policy.Name(), got)
			}
		}
	}
}

func TestRandomIsFairAndSeeded(t *testing.T) {
	a, b := policy.NewRandom(rand.New(rand.NewPCG(1, 1))), policy.NewRandom(rand.New(rand.NewPCG(1, 1)))
	candidates := make([]int32, 4)
	var count [4]int
	const rounds = 8000
	for range rounds {
		x := scores(t, a, nil, nil, candidates)
		if y := scores(t, b, nil, nil, candidates); fmt.Sprint(x) != fmt.Sprint(y) {
			t.Fatalf("the same seed gives %v and %v", x, y)
		}
		count[policy.Best(x)]++
	}
	for _, n := range count {
		if n < rounds/4-300 || n > rounds/4+300 { // eight standard deviations
			t.Errorf("of %d draws: %v", rounds, count)
		}
	}
}

func TestBest(t *testing.T) {
	for want, scores := range map[int][]float32{-1: nil, 0: {3, 3, 3}, 1: {-2, -1, -1.5}, 2: {float32(math.Inf(-1)), 0, 1}} {
		if got := policy.Best(scores); got != want {
			t.Errorf("%v: %d, want %d", scores, got, want)
		}
	}
}

// change does to the cluster what time does: pods come and go, nodes join, leave, change
// size, zone or place in the list.
func change(t *rapid.T, s *cluster.Snapshot, serial *int) {
	for range rapid.IntRange(0, 6).Draw(t, "changes") {
		i := rapid.IntRange(0, len(s.Nodes)-1).Draw(t, "node")
		n := s.Nodes[i]
		switch rapid.IntRange(0, 7).Draw(t, "what") {
		case 0:
			*serial++
			s.Nodes = append(s.Nodes, &cluster.Node{
				Name: fmt.Sprintf("new%d", *serial), Generation: 1, Zone: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone"),
				Allocatable: cluster.Resources{MilliCPU: 4000, Memory: 8 << 30, Pods: 20},
			})
		case 1:
			if len(s.Nodes) > 1 {
				s.Nodes = append(s.Nodes[:i], s.Nodes[i+1:]...)
			}
		case 2:
			n.Allocatable.MilliCPU = rapid.Int64Range(0, 64_000).Draw(t, "cpu")
			n.Generation++
		case 3:
			n.Zone = rapid.SampledFrom([]string{"", "a", "c"}).Draw(t, "zone")
			n.Generation++
		case 4:
			j := rapid.IntRange(0, len(s.Nodes)-1).Draw(t, "other")
			s.Nodes[i], s.Nodes[j] = s.Nodes[j], s.Nodes[i]
		case 5:
			if len(n.Groups) > 0 {
				n.Remove(n.Groups[0].Each, 0)
			}
		default:
			n.Add(drawRequests(t))
		}
	}
}

// somePermutation draws candidates: some of the nodes, in any order.
func somePermutation(t *rapid.T, n int) []int32 {
	return rapid.Permutation(rows(n)).Draw(t, "candidates")[:rapid.IntRange(1, n).Draw(t, "of them")]
}

func within(t *rapid.T, what string, got, want []float32, tolerance float64) {
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > tolerance*max(1, math.Abs(float64(want[i]))) {
			t.Fatalf("%s: score %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// A learned policy that has seen much gives what a new one gives.
func TestLearnedForgetsHistory(t *testing.T) {
	for _, e := range []checkpoint.Encoder{checkpoint.GNN, checkpoint.MLP} {
		net := network(t, e)
		rapid.Check(t, func(t *rapid.T) {
			s, serial, old := drawSnapshot(t), 0, policy.NewLearned("x", net)
			for range 8 {
				pod, candidates := &cluster.Pod{Requests: drawRequests(t)}, somePermutation(t, len(s.Nodes))
				got := scores(t, old, s, pod, candidates)
				within(t, "after a history", got, scores(t, policy.NewLearned("y", net), s, pod, candidates), 1e-5)
				change(t, s, &serial)
			}
		})
	}
}

// For every policy that does not draw or take turns, the order of nodes and of candidates
// means nothing.
func TestEquivariance(t *testing.T) {
	policies := map[string]func() policy.Policy{
		"gnn": func() policy.Policy { return policy.NewLearned("gnn", network(t, checkpoint.GNN)) },
		"mlp": func() policy.Policy { return policy.NewLearned("mlp", network(t, checkpoint.MLP)) },
	}
	for _, h := range policy.Heuristics() {
		if h.Name != "random" && h.Name != "round-robin" {
			policies[h.Name] = func() policy.Policy { return h.New(policy.Setting{Seed: 1}) }
		}
	}
	for name, make := range policies {
		rapid.Check(t, func(t *rapid.T) {
			s, pod, serial := drawSnapshot(t), &cluster.Pod{Requests: drawRequests(t)}, 0
			change(t, s, &serial)
			candidates := somePermutation(t, len(s.Nodes))
			want := scores(t, make(), s, pod, candidates)

			place := rapid.Permutation(indices(len(s.Nodes))).Draw(t, "place") // of each node in the other order
			other := &cluster.Snapshot{Nodes: append([]*cluster.Node(nil), s.Nodes...)}
			for i, n := range s.Nodes {
				other.Nodes[place[i]] = n
			}
			order := rapid.Permutation(indices(len(candidates))).Draw(t, "order")
			moved, expected := append([]int32(nil), candidates...), append([]float32(nil), want...)
			for i, c := range candidates {
				moved[order[i]], expected[order[i]] = int32(place[c]), want[i]
			}
			within(t, name, scores(t, make(), other, pod, moved), expected, 1e-5)
		})
	}
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
