package neural

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/policy/policytest"
)

// Over random changes of the cluster, bindings and measurements, the features of usage that are kept are to the bit
// those that are computed anew, split or whole, and the scores are those of a new policy on the whole graph.
func TestKeptUsageIsExact(t *testing.T) {
	for _, sets := range [][]string{{"base", "usage"}, {"base", "whole", "usage"}} {
		net := network(t, checkpoint.GNN, sets...)
		layout := net.Layout()
		rapid.Check(t, func(t *rapid.T) {
			s, serial := policytest.DrawSnapshot(t), 0
			rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			old, encoder := New("old", net, nil), encode.New(layout)
			for range 6 {
				measureSome(rng, s)
				pod, candidates := &cluster.Pod{Requests: policytest.DrawRequests(t)}, policytest.DrawCandidates(t, len(s.Nodes))
				if rng.IntN(2) == 0 {
					known(pod)
				}
				if rng.IntN(3) == 0 {
					encoder.Encode(s, pod, candidates) // as a learner between two decisions
				}
				got := encoder.EncodeSplit(s, pod, candidates)
				fatal.If(t, got.Validate())
				whole := encode.New(layout).Encode(s, pod, candidates)
				width := layout.Split.Width()
				for i, v := range candidates {
					if row := layout.Split.Whole(got.SplitX[i*width:(i+1)*width], got.Kept[v].X); !slices.Equal(row, whole.CandidateRow(i)) {
						t.Fatalf("candidate %d: kept %v, computed anew %v", i, row, whole.CandidateRow(i))
					}
				}
				out := fatal.Value(net.NewSession().Score(whole, nil))(t)
				kept := policytest.Scores(t, old, s, pod, candidates)
				policytest.Near(t, kept, policytest.Scores(t, New("new", net, nil), s, pod, candidates))
				nearWithin(t, kept, out.Scores, 5e-5*largest(whole.CandidateX))
				policytest.Change(t, s, &serial)
			}
		})
	}
}

// nearWithin fails the test unless got equals want within a tolerance, relative to scores over 1.
func nearWithin(t *rapid.T, got, want []float32, tolerance float64) {
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > tolerance*max(1, math.Abs(float64(want[i]))) {
			t.Fatalf("score %d is %v, want %v", i, got[i], want[i])
		}
	}
}

// largest returns the largest absolute value, at least 1. A pod that is larger than a node has features of thousands, and
// the order of additions then matters more.
func largest(x []float32) float64 {
	most := 1.0
	for _, v := range x {
		most = max(most, math.Abs(float64(v)))
	}
	return most
}

// measureSome gives some nodes a new measurement, changes that of others in place as a binding does, and takes that of
// others away.
func measureSome(rng *rand.Rand, s *cluster.Snapshot) {
	s.Now += 100 * rng.Float64()
	for _, n := range s.Nodes {
		switch rng.IntN(6) {
		case 0:
			n.Usage = measured(rng)
			n.Usage.At, n.Usage.Known[rng.IntN(cluster.Dimensions)] = s.Now, false
		case 1:
			if n.Usage != nil {
				n.Usage.Missing[rng.IntN(cluster.Dimensions)] += 500
				n.Usage.Version = cluster.NextVersion()
			}
		case 2:
			n.Usage = nil
		case 3:
			n.Usage = measured(rng)
			n.Usage.Version = 0 // never kept
		}
	}
}
