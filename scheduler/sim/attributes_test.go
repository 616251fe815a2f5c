package sim

import (
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
)

func scarce() Config {
	return Config{Nodes: IntRange{14, 40}, Replicas: IntRange{1, 8}, Load: FloatRange{0.7, 0.9}, Turnover: 1,
		Attributes: &Attributes{Count: IntRange{1, 6}, Pools: IntRange{2, 7}, Plain: IntRange{1, 4}, Needy: IntRange{1, 6}, Drift: 0.3}}
}

// Each kind of pods has a pool, and the load can be reached.
func TestAttributes(t *testing.T) {
	env, err := New(scarce())
	fatal.If(t, err)
	sizes := map[int]bool{}
	for seed := range uint64(60) {
		if err := env.Reset(seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		nodes := env.Nodes()
		sizes[len(nodes)] = true
		if len(nodes) < 10 || len(nodes) > env.MaxNodes() {
			t.Errorf("seed %d: %d nodes", seed, len(nodes))
		}
		needy := false
		for _, a := range env.Plan() {
			allowed := 0
			for _, n := range env.source.nodes(seed) {
				if n.Fit(a.Pod) == cluster.Fits {
					allowed++
				}
			}
			if allowed == 0 {
				t.Fatalf("seed %d: %+v fits on no empty node", seed, a.Pod)
			}
			needy = needy || allowed < len(nodes)
		}
		if !needy {
			t.Errorf("seed %d: every pod fits on every node", seed)
		}
	}
	if len(sizes) < 10 {
		t.Errorf("%d numbers of nodes in 60 episodes", len(sizes))
	}
}

func TestDrift(t *testing.T) {
	c := scarce()
	shapes := scarce().Attributes
	ep := shapes.draw(c, 3)
	same, other := drifted(3, ep.Shapes, 0, 0.3), drifted(3, ep.Shapes, 1, 0.3)
	for i, s := range ep.Shapes {
		if same[i].Weight != s.Weight {
			t.Error("the first fill has other weights")
		}
		if other[i].Weight == s.Weight {
			t.Error("the second fill has the same weights")
		}
	}
}
