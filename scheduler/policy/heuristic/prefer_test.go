package heuristic

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/policytest"
)

// node returns a node of size times 10 CPUs and 10 GiB, with a pod that requests the given CPUs and
// GiB.
func node(size, cpu, mem int64) *cluster.Node {
	n := &cluster.Node{Name: "n", Version: cluster.NextVersion(),
		Allocatable: cluster.Resources{MilliCPU: size * 10_000, Memory: size * 10 << 30, Pods: 10}}
	if cpu+mem > 0 {
		n.Add(cluster.Resources{MilliCPU: 1000 * cpu, Memory: mem << 30})
	}
	return n
}

func named(t *testing.T, name string) policy.Policy {
	h, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return h.New(policy.Setting{})
}

func TestHeuristicsPrefer(t *testing.T) {
	pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 1000, Memory: 1 << 30, Pods: 1}}
	for _, c := range []struct {
		name   string
		policy policy.Policy
		nodes  []*cluster.Node
		want   int
	}{
		{"emptiest", Kubernetes{}, []*cluster.Node{node(1, 4, 4), node(1, 2, 2), node(1, 6, 6)}, 1},
		{"evens out", Kubernetes{}, []*cluster.Node{node(1, 4, 4), node(1, 2, 6), node(1, 3, 3)}, 2},
		{"fullest", named(t, "most-allocated"), []*cluster.Node{node(1, 4, 4), node(1, 2, 2), node(1, 6, 6)}, 2},
		{"fullest by share", named(t, "most-allocated"), []*cluster.Node{node(1, 4, 4), node(4, 20, 20)}, 1},
		{"least left", leastLeft{}, []*cluster.Node{node(1, 4, 4), node(1, 6, 6), node(1, 2, 2)}, 1},
		{"least left by amount", leastLeft{}, []*cluster.Node{node(4, 20, 20), node(1, 4, 4)}, 1},
		{"nothing offered", leastLeft{}, []*cluster.Node{{Name: "none"}}, 0},
		{"most free", alignment{}, []*cluster.Node{node(1, 4, 4), node(1, 2, 2), node(1, 6, 6)}, 1},
		{"most free in all", alignment{}, []*cluster.Node{node(1, 4, 3), node(1, 2, 4), node(1, 7, 1)}, 1},
		{"where it is a larger part", alignment{}, []*cluster.Node{node(4, 20, 20), node(1, 5, 5)}, 1},
		{"fullest by the shape", named(t, "requested-to-capacity-ratio"), []*cluster.Node{node(1, 4, 4), node(1, 2, 2), node(1, 6, 6)}, 2},
	} {
		s := &cluster.Snapshot{Nodes: c.nodes}
		got := policytest.Scores(t, c.policy, s, pod, policytest.Rows(len(c.nodes)))
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
	a, b := NewRandom(rand.New(rand.NewPCG(1, 1))), NewRandom(rand.New(rand.NewPCG(1, 1)))
	candidates := make([]int32, 4)
	var count [4]int
	const rounds = 8000
	for range rounds {
		x := policytest.Scores(t, a, nil, nil, candidates)
		if y := policytest.Scores(t, b, nil, nil, candidates); fmt.Sprint(x) != fmt.Sprint(y) {
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

// The scores of policies that neither draw nor take turns do not depend on the order of nodes.
func TestOrderOfNodesMeansNothing(t *testing.T) {
	for _, h := range anyCluster() {
		if h.NotImitable == "" {
			t.Run(h.Name, func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					policytest.CheckOrder(t, func() policy.Policy { return h.New(policy.Setting{Seed: 1}) })
				})
			})
		}
	}
}
