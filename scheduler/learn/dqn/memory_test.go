package dqn

import (
	"math"
	"math/rand/v2"
	"testing"

	"gnnsched/scheduler/learn/learntest"
)

// Drawing follows the priorities, and draws only transitions that are kept.
func TestMemoryDrawsByPriority(t *testing.T) {
	r, rng := newMemory(5, 1), rand.New(rand.NewPCG(1, 2))
	for i := range 8 { // 3 to 7 stay
		r.add(transition{action: i})
	}
	slots := []int{0, 1, 2, 3, 4} // hold 5, 6, 7, 3, 4
	r.prioritise(slots, []float32{1, 2, 3, 4, 0})
	counts := map[int]int{}
	const draws = 20000
	for range draws / 10 {
		s := r.draw(rng, 10, 1)
		for i, tr := range s.transitions {
			counts[tr.action]++
			if s.weights[i] <= 0 || s.weights[i] > 1 {
				t.Fatalf("weight %v", s.weights[i])
			}
		}
	}
	for action, want := range map[int]float64{5: 0.1, 6: 0.2, 7: 0.3, 3: 0.4, 4: 0, 0: 0} {
		if got := float64(counts[action]) / draws; math.Abs(got-want) > 0.01 {
			t.Errorf("action %d drawn with frequency %v, want %v", action, got, want)
		}
	}
}

func TestMemoryDrawsUniformly(t *testing.T) {
	r, rng := newMemory(3, 0), rand.New(rand.NewPCG(1, 2))
	for i := range 3 {
		r.add(transition{action: i})
	}
	r.prioritise([]int{0, 1, 2}, []float32{100, 1, 0})
	for _, w := range r.draw(rng, 30, 1).weights {
		if w != 1 {
			t.Errorf("weight %v under uniform drawing", w)
		}
	}
}

// newest keeps the latest transitions that fit, with their priorities.
func TestNewest(t *testing.T) {
	r, g := newMemory(5, 1), learntest.Graph(t)
	for i := range 8 {
		r.add(transition{state: g.Clone(), action: i})
	}
	r.prioritise([]int{0, 1, 2, 3, 4}, []float32{5, 6, 7, 3, 4}) // equal to their actions
	for room, want := range map[int][]int{0: nil, 2: {6, 7}, 5: {3, 4, 5, 6, 7}, 9: {3, 4, 5, 6, 7}} {
		n := r.newest(room*size(g) + size(g)/2)
		var got []int
		for i, t := range n.transitions[:n.size] {
			got = append(got, t.action)
			if p := n.tree[len(n.tree)/2+i]; p < float64(t.action) || p > float64(t.action)+0.01 {
				got = append(got, -1)
			}
		}
		if len(got) != len(want) || len(got) > 0 && (got[0] != want[0] || got[len(got)-1] != 7) {
			t.Errorf("room for %d: %v, want %v", room, got, want)
		}
	}
}
