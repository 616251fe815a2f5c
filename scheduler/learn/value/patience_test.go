//go:build torch

package value

import (
	"math"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/fatal"
)

// marks is an exam that gives one total after another: first to the network that learning begins with.
type marks struct {
	totals []float64
	asked  int
}

func (*marks) Key() string { return "one after another" }

func (m *marks) Total(*checkpoint.Checkpoint) (float64, error) {
	m.asked++
	if v := m.totals[m.asked-1]; !math.IsNaN(v) {
		return v, nil
	}
	return marked{}.Total(nil)
}

// Learning goes on from networks that the guard refuses until it has refused so many in a row, and goes back then. Only networks that pass
// are saved, and the stored state is that of one.
func TestGuardIsPatient(t *testing.T) {
	const good, bad = 1, 2
	for name, c := range map[string]struct {
		patience int
		totals   []float64
		want     string // P: passes, R: refused, B: refused, and learning goes back
	}{
		"it gets through a bad spell":           {3, []float64{bad, bad, good}, "RRP"},
		"it goes back after so many":            {3, []float64{bad, bad, bad, bad}, "RRBR"},
		"the count begins anew after a pass":    {3, []float64{bad, bad, good, bad, bad, good}, "RRPRRP"},
		"the count begins anew when it is back": {2, []float64{bad, bad, bad, good}, "RBRP"},
		"no patience":                           {0, []float64{bad, good}, "BP"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			trainer := onlineTrainer(smallKinds())
			trainer.Guard = Guard{Exam: &marks{totals: append([]float64{good}, c.totals...)}, Patience: c.patience, Tolerance: 0.01}
			trainer.Save = func(*checkpoint.Checkpoint) error { got += "P"; return nil }
			trainer.Note = func(line string) {
				if strings.Contains(line, "goes back") {
					got += "B"
				} else {
					got += "R"
				}
			}
			start := kindNetwork(1)
			fatal.If(t, trainer.begin(start))
			defer trainer.learner.Drop()
			before, err := trainer.learner.Checkpoint()
			fatal.If(t, err)
			for range c.totals {
				fatal.If(t, trainer.judge())
			}
			after, err := trainer.learner.Checkpoint()
			fatal.If(t, err)
			if got != c.want || trainer.count.Passed != strings.Count(c.want, "P") || trainer.count.KeptBack != len(c.want)-trainer.count.Passed {
				t.Errorf("%s, %+v; want %s", got, trainer.count, c.want)
			}
			if before.Fingerprint() != after.Fingerprint() {
				t.Error("the network changed, though nothing was learned")
			}
		})
	}
}
