package heuristic

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/policytest"
)

func anyCluster() []Heuristic {
	return slices.DeleteFunc(List(), func(h Heuristic) bool { return h.GPU })
}

func forGPUs() []Heuristic {
	return slices.DeleteFunc(List(), func(h Heuristic) bool { return !h.GPU })
}

// Names are distinct, equal the names of the policies, and are found.
func TestHeuristicNames(t *testing.T) {
	names := append(Names(), GPUNames()...)
	for i, n := range names {
		h, err := Find(n)
		if err != nil || h.New(policy.Setting{Seed: 1}).Name() != n || h.About == "" || slices.Index(names, n) != i {
			t.Errorf("%s: %+v, %v", n, h, err)
		}
	}
	if _, err := Find("worst-fit"); err == nil {
		t.Error("worst-fit: no error")
	}
}

// On any state, even with nodes that offer nothing or are overcommitted, every heuristic gives finite
// scores, and the same seed gives the same scores.
func TestHeuristicsAreFiniteAndSeeded(t *testing.T) {
	for _, h := range List() {
		t.Run(h.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s, seed := policytest.DrawSnapshot(t), rapid.Uint64().Draw(t, "seed")
				a, b := h.New(policy.Setting{Seed: seed}), h.New(policy.Setting{Seed: seed})
				for range 3 {
					pod, candidates := &cluster.Pod{Requests: policytest.DrawRequests(t)}, policytest.DrawCandidates(t, len(s.Nodes))
					got := policytest.Scores(t, a, s, pod, candidates)
					for _, v := range got {
						if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
							t.Fatalf("scores %v", got)
						}
					}
					if again := policytest.Scores(t, b, s, pod, candidates); !slices.Equal(got, again) {
						t.Fatalf("%v, and again %v", got, again)
					}
				}
			})
		})
	}
}

// While every node is a candidate, each has its turn once a round. A node that is no candidate is
// skipped, and no other node loses its turn.
func TestRoundRobinTakesTurns(t *testing.T) {
	s := &cluster.Snapshot{Nodes: []*cluster.Node{node(1, 0, 0), node(1, 0, 0), node(1, 0, 0)}}
	p := &inTurn{}
	for i, c := range []struct {
		candidates []int32
		want       int32
	}{
		{[]int32{0, 1, 2}, 0}, {[]int32{0, 1, 2}, 1}, {[]int32{2, 1, 0}, 2}, {[]int32{0, 1, 2}, 0},
		{[]int32{0, 2}, 2}, {[]int32{1, 2}, 1}, {[]int32{1}, 1}, {[]int32{0, 1, 2}, 2},
	} {
		if got := c.candidates[policy.Best(policytest.Scores(t, p, s, nil, c.candidates))]; got != c.want {
			t.Errorf("decision %d among %v: %d, want %d", i, c.candidates, got, c.want)
		}
	}
	s.Nodes = s.Nodes[:1]
	if got := policy.Best(policytest.Scores(t, p, s, nil, []int32{0})); got != 0 {
		t.Errorf("after the others left: %d", got)
	}
}
