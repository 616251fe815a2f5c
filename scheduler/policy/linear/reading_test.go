package linear

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy/policytest"
)

// A reading has the features and the weights that make the score of the last decision.
func TestReading(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(append(TunedNames(), "rule")).Draw(t, "policy")
		p := Rule()
		if name != "rule" {
			p = Tuned(name)
		}
		s, pod := policytest.DrawSnapshot(t), &cluster.Pod{Requests: policytest.DrawRequests(t)}
		rows := policytest.DrawCandidates(t, len(s.Nodes))
		scores := policytest.Scores(t, p, s, pod, rows)
		for i, want := range scores {
			r := p.Reading(s, pod, rows, i)
			sum, size := 0.0, 1.0
			for j, x := range r.Features {
				sum += float64(x) * float64(r.Weights[j])
				size += math.Abs(float64(x) * float64(r.Weights[j]))
			}
			if math.Abs(sum-float64(want)) > 1e-5*size {
				t.Fatalf("candidate %d: the reading gives %v, the score is %v", i, sum, want)
			}
		}
	})
}
