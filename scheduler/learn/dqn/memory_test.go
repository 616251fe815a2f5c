package dqn

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gnnsched/scheduler/learn/learntest"
)

// Drawing follows the priorities, and draws only transitions that are kept.
func TestMemoryDrawsByPriority(t *testing.T) {
	r, rng := sized(5, 1<<30, 1), rand.New(rand.NewPCG(1, 2))
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
	r, rng := sized(3, 1<<30, 0), rand.New(rand.NewPCG(1, 2))
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
	r, g := sized(5, 1<<30, 1), learntest.Graph(t)
	for i := range 8 {
		r.add(transition{state: pack(g, nil), action: i})
	}
	one := newLedger()
	one.hold(pack(g, nil))
	r.prioritise([]int{0, 1, 2, 3, 4}, []float32{5, 6, 7, 3, 4}) // equal to their actions
	for room, want := range map[int][]int{2: {6, 7}, 5: {3, 4, 5, 6, 7}, 9: {3, 4, 5, 6, 7}} {
		n := r.newest(room*one.bytes + one.bytes/2)
		var got []int
		for i := range n.size {
			action := n.transitions[n.slot(i)].action
			got = append(got, action)
			if p := n.tree[len(n.tree)/2+n.slot(i)]; p < float64(action) || p > float64(action)+0.01 {
				got = append(got, -1)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("room for %d: %v, want %v", room, got, want)
		}
	}
}
