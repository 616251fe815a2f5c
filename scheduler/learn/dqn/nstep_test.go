package dqn

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Each transition has the return and the discount of the definition, for every n and every length of an
// episode.
func TestNStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, steps := rapid.IntRange(1, 6).Draw(t, "n"), rapid.IntRange(1, 12).Draw(t, "steps")
		s := nStep{n: n, gamma: 0.5}
		states, rewards := make([]*frame, steps+1), make([]float64, steps)
		var got []transition
		for i := range states {
			states[i] = &frame{}
		}
		for i := range steps {
			if tr, ok := s.ready(states[i]); ok {
				got = append(got, tr)
			}
			s.begin(states[i], i, -1)
			rewards[i] = float64(rapid.IntRange(-4, 4).Draw(t, "reward"))
			s.reward(rewards[i])
		}
		s.end(func(tr transition) { got = append(got, tr) })
		if len(got) != steps {
			t.Fatalf("%d transitions of %d steps", len(got), steps)
		}
		for i, tr := range got {
			want := 0.0
			for k := i; k < min(i+n, steps); k++ {
				want += math.Pow(0.5, float64(k-i)) * rewards[k]
			}
			discount, next := 0.0, (*frame)(nil)
			if i+n < steps {
				discount, next = math.Pow(0.5, float64(n)), states[i+n]
			}
			if tr.action != i || tr.state != states[i] || tr.next != next || math.Abs(tr.ret-want) > 1e-12 || tr.discount != discount {
				t.Fatalf("transition %d of %d, n=%d: %+v; want return %v, discount %v", i, steps, n, tr, want, discount)
			}
		}
	})
}
