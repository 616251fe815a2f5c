package encode_test

import (
	"math"
	"slices"
	"testing"

	"gnnsched/gnn/feature"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/sim"
)

// The set whole gives a network the sums that the linear policy computes over all available nodes.
func TestWholeHasTheLinearFeatures(t *testing.T) {
	layout, err := feature.NewLayout([]string{"base", "whole"})
	fatal.If(t, err)
	columns := map[string]int{} // by the linear policy's name
	for i, f := range feature.List(layout.Candidate) {
		if name, ok := map[string]string{
			"all_balance": "balance", "all_skew": "skew", "all_over": "over", "match": "match", "size": "size", "empty": "empty",
		}[f.Name]; ok {
			columns[name] = i
		}
	}
	if len(columns) != 6 {
		t.Fatalf("columns %v", columns)
	}
	s, err := eval.Find("small8")
	fatal.If(t, err)
	env, err := sim.New(s.Config)
	fatal.If(t, err)
	fatal.If(t, env.Reset(1))
	encoder := encode.New(layout)
	compared := 0
	for step := 0; !env.Done() && step < 400; step++ {
		rows := env.Candidates()
		g := encoder.Encode(env.Snapshot(), env.Pending(), rows)
		scores := make([]float32, len(rows))
		for name, column := range columns {
			if step%20 != 0 {
				break
			}
			weights := make([]float64, len(linear.Features))
			weights[slices.Index(linear.Features, name)] = 1
			p, err := linear.New(name, weights)
			fatal.If(t, err)
			fatal.If(t, p.Score(env.Snapshot(), env.Pending(), rows, scores))
			for i, want := range scores {
				want = max(min(want, 4), -4)
				if got := g.CandidateRow(i)[column]; math.Abs(float64(got-want)) > 2e-3 {
					t.Fatalf("step %d, %s of candidate %d: %v, the linear policy has %v", step, name, i, got, want)
				} else if got != 0 {
					compared++
				}
			}
		}
		fatal.If(t, linear.Tuned("linear").Score(env.Snapshot(), env.Pending(), rows, scores))
		env.Step(policy.Best(scores))
	}
	if compared < 300 {
		t.Errorf("%d values were compared", compared)
	}
}
