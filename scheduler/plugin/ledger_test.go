package plugin

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/scheduler/decision"
)

// In whatever order bindings end, every decision is sent once, in the order of the numbers, and says
// whether its pod was bound. Over the limit the oldest is sent as unbound.
func TestLedger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sent []decision.Decision
		l := &ledger{limit: rapid.IntRange(1, 5).Draw(t, "limit"), send: func(d decision.Decision) { sent = append(sent, d) }}
		var open []*entry
		bound := map[uint64]bool{}
		total := 0
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			if len(open) == 0 || rapid.Bool().Draw(t, "opens") {
				total++
				open = append(open, l.open(decision.Decision{}))
				continue
			}
			i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
			e, ok := open[i], rapid.Bool().Draw(t, "bound")
			late := e.settled
			l.settle(e, given{devices: 3}, ok)
			l.settle(e, given{devices: 5}, !ok) // a second call does not count
			bound[e.decision.Number] = ok && !late
			open = slices.Delete(open, i, i+1)
		}
		for _, e := range open {
			l.settle(e, given{}, false)
		}
		if len(sent) != total || len(l.queue) != 0 {
			t.Fatalf("%d of %d were sent, %d are open", len(sent), total, len(l.queue))
		}
		for i, d := range sent {
			if d.Number != uint64(i+1) || d.Bound != bound[d.Number] || d.Bound && d.Devices != 3 {
				t.Fatalf("%d was sent: %+v", i, d)
			}
		}
	})
}
