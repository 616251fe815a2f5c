package cem

import (
	"context"
	"encoding/json"
	"os"
	"slices"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
)

// heldOutSeed is the seed of the first held-out episode. The evaluation starts with it too; it
// is far from the seeds of tuning.
const heldOutSeed = 1

// Judged are the metrics that HeldOut.Worse is about, the objective first.
var Judged = slices.DeleteFunc(slices.Clone(eval.Metrics), func(m eval.Metric) bool {
	return m.Name != eval.Objective.Name && m.Name != eval.Unscheduled.Name && m.Name != "waited"
})

// HeldOut compares p with baseline on episodes of a scenario that tuning did not see. It
// returns the mean of every metric for both, under the names of baseline and "tuned".
func HeldOut(ctx context.Context, s eval.Scenario, baseline eval.Contender, p *linear.Policy, episodes int) (*linear.HeldOut, error) {
	r, err := Judge(ctx, s, []eval.Contender{baseline, {Name: "tuned", New: func(policy.Setting) policy.Policy { return p }}}, episodes)
	if err != nil {
		return nil, err
	}
	out := &linear.HeldOut{FirstSeed: heldOutSeed, Episodes: episodes, Samples: r.Samples(), Means: map[string]map[string]float64{},
		Worse: map[string]float64{}}
	for _, x := range r.Results {
		means := map[string]float64{}
		for _, m := range eval.Metrics {
			means[m.Name] = x.Mean(m)
		}
		out.Means[x.Name] = means
	}
	for i, d := range r.Differences(Judged) {
		if d[0].Mean > 0 {
			out.Worse[Judged[i].Name] = d[0].Adjusted
		}
	}
	return out, nil
}

// Judge compares contenders on episodes of a scenario that tuning did not see.
func Judge(ctx context.Context, s eval.Scenario, contenders []eval.Contender, episodes int) (*eval.Comparison, error) {
	s.Optimum = false // only the contenders matter
	return eval.Compare(ctx, s, contenders, eval.Seeds(heldOutSeed, episodes), nil)
}

// Save writes a policy's weights to a .json file, which linear.Load reads.
func Save(path string, p *linear.Policy) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
