package plugin

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/scheduler/experience"
)

// However bindings end, the steps of the bound pods go on in the order of their decisions,
// each once, as soon as nothing earlier is open, and the others are gaps; over the limit the
// oldest is given up.
func TestLedger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sent []uint64
		lost := 0
		l := &ledger{limit: rapid.IntRange(1, 5).Draw(t, "limit"), send: func(s experience.Step) { sent = append(sent, s.Number) }, lose: func() { lost++ }}
		var open []*entry
		bound := map[uint64]bool{}
		total := 0
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			if len(open) == 0 || rapid.Bool().Draw(t, "opens") {
				total++
				open = append(open, l.open(experience.Step{}))
				continue
			}
			i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
			e, ok := open[i], rapid.Bool().Draw(t, "bound")
			given := e.settled
			l.settle(e, ok)
			l.settle(e, !ok) // a second word does not count
			bound[e.step.Number] = ok && !given
			open = slices.Delete(open, i, i+1)
		}
		for _, e := range open {
			l.settle(e, false)
		}
		var want []uint64
		for n := uint64(1); n <= uint64(total); n++ {
			if bound[n] {
				want = append(want, n)
			}
		}
		if !slices.Equal(sent, want) || lost != total-len(want) || len(l.queue) != 0 {
			t.Fatalf("sent %v, want %v; %d lost of %d, %d open", sent, want, lost, total, len(l.queue))
		}
	})
}
