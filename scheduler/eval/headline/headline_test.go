package headline_test

import (
	"bytes"
	"testing"

	"gnnsched/internal/golden"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/headline"
	"gnnsched/scheduler/sim"
)

// made returns a comparison of two baselines, three networks and a bound. The best network's objective is
// fraction of the best baseline's, and it leaves more pods out.
func made(name string, seeds int, fraction float64, more int) *eval.Comparison {
	c := &eval.Comparison{Scenario: eval.Scenario{Name: name}, Seeds: eval.Seeds(1, seeds)}
	for _, p := range []struct {
		name   string
		kind   eval.Kind
		factor float64
		left   int
	}{
		{"kube-scheduler", eval.Baseline, 1.2, 0}, {"linear", eval.Baseline, 1, 0}, {"gnn", eval.Network, fraction, more},
		{"dqn", eval.Network, 1.5, 0}, {"clairvoyant", eval.Bound, 0.1, 0},
	} {
		r := eval.Result{Name: p.name, Kind: p.kind}
		for i := range seeds {
			cost := 0.1 + 0.01*float64(i%7)
			r.Outcomes = append(r.Outcomes, sim.Outcome{Cost: 1, MeanCost: p.factor * cost, Unscheduled: 5 + p.left})
		}
		c.Results = append(c.Results, r)
	}
	return c
}

func all() []*eval.Comparison {
	one := made("one-workload", 20, 0.5, 0)
	one.OneWorkload = true
	without := made("without", 20, 0.5, 0)
	without.Results = without.Results[:2]
	return []*eval.Comparison{
		made("ahead", 20, 0.9, -1), made("behind", 20, 1.1, 0), made("level", 20, 1, 0), made("pods", 20, 1, 1), made("mixed", 20, 0.9, 2),
		made("few-seeds", 6, 0.9, 0), one, without,
	}
}

func TestMarkdownGolden(t *testing.T) {
	var b bytes.Buffer
	if err := headline.Of(all()).WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "verdicts.md", b.String())
}

// The verdict needs both the direction and a p that holds among all networks and scenarios. Six seeds cannot
// give one, and the bound is never the best of its kind.
func TestVerdicts(t *testing.T) {
	rows := headline.Of(all()).Rows
	want := []headline.Verdict{headline.Ahead, headline.Behind, headline.Level, headline.Behind, headline.Mixed, headline.Few, headline.One}
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want %d", len(rows), len(want))
	}
	for i, r := range rows {
		if r.Verdict() != want[i] || r.Baseline.Name != "linear" || r.Policy.Name != "gnn" {
			t.Errorf("%s: %s against %s is %s, want %s", r.Scenario, r.Policy.Name, r.Baseline.Name, r.Verdict(), want[i])
		}
	}
	// Seven comparisons, each with two networks and two metrics: 28 p.
	if d := rows[0].Difference; d.Adjusted <= d.P || d.Adjusted > 28*d.P {
		t.Errorf("p %v became %v", d.P, d.Adjusted)
	}
}
