package trial

import (
	"strings"
	"testing"

	"gnnsched/internal/golden"
	"gnnsched/internal/kuberelease"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy/stock"
	"gnnsched/scheduler/sim"
)

// comparison returns the default's outcomes and a second contender's, whose objective is higher by add plus wobble times the seed's number.
func comparison(add, wobble float64, unscheduled int) *eval.Comparison {
	r := &eval.Comparison{Seeds: eval.Seeds(1, 10), Results: []eval.Result{{Name: "kube-scheduler"}, {Name: tunedStock}}}
	for i := range r.Seeds {
		base := sim.Outcome{Cost: 0.1 + 0.001*float64(i), Unscheduled: 3, Waited: 10}
		mine := base
		mine.Cost += add + wobble*(float64(i)-4.5)
		mine.Unscheduled += unscheduled
		r.Results[0].Outcomes, r.Results[1].Outcomes = append(r.Results[0].Outcomes, base), append(r.Results[1].Outcomes, mine)
	}
	return r
}

func TestWarnings(t *testing.T) {
	once := comparison(0.01, 0, 0)
	once.OneWorkload = true
	for _, c := range []struct {
		name string
		r    *eval.Comparison
		want []string
	}{
		{"better", comparison(-0.01, 0.001, 0), nil},
		{"better with more left out", comparison(-0.01, 0.001, 2), []string{"worse than the default in unscheduled: 5 against 3 (p = "}},
		{"chance", comparison(-0.001, 0.01, 0), []string{"not shown to be better than the default in objective"}},
		{"the same", comparison(0, 0, 0), []string{"not shown to be better than the default in objective"}},
		{"worse", comparison(0.01, 0.001, 0), []string{"worse than the default in objective: 0.1145 against 0.1045 (p = "}},
		{"one sample", once, []string{"they are one sample. With --resample=false",
			"worse than the default in objective: 0.1145 against 0.1045 (one sample)"}},
	} {
		got := warnings(c.r)
		if len(got) != len(c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: %q, want %q", c.name, got[i], want)
			}
		}
	}
}

func TestHeadGolden(t *testing.T) {
	p := stock.Default()
	p.NoDefaultSpread = true
	h := head{
		version: "v1", scenario: eval.Scenario{Name: "made", Config: sim.Config{Objective: objective.Mix{{Term: objective.Pack{}, Weight: 1}}}},
		profile: p, command: "gnnsched tune stock --free-preferences", judged: comparison(-0.01, 0.001, 2),
	}
	golden.Check(t, "head.txt", strings.Replace(h.text(), kuberelease.Scheduler, "1.37", 1))
}
