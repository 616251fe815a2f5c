package encode_test

import (
	"math"
	"testing"

	"gnnsched/gnn/feature"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/encode"
)

// The features are computed by hand: one machine is half used, one of the same kind sleeps, and an old one may not sleep.
func TestPowerFeatures(t *testing.T) {
	layout, err := feature.NewLayout([]string{"base", "power"})
	fatal.If(t, err)
	sleep := 1.0
	s := &cluster.Snapshot{}
	for _, m := range []cluster.PowerModel{{Idle: 10, Full: 50, Sleep: &sleep}, {Idle: 10, Full: 50, Sleep: &sleep}, {Idle: 40, Full: 200}} {
		s.Nodes = append(s.Nodes, &cluster.Node{
			Version: cluster.NextVersion(), Allocatable: cluster.Resources{MilliCPU: 10_000, Memory: 8 << 30, Pods: 10}, Power: &m,
		})
	}
	s.Nodes[0].Add(cluster.Resources{MilliCPU: 5000})
	g := encode.New(layout).Encode(s, &cluster.Pod{Requests: cluster.Resources{MilliCPU: 1000, Pods: 1}}, []int32{0, 1, 2})
	fatal.If(t, g.Validate())
	behind := feature.Default().Widths // names of base recur
	candidate := feature.List(layout.Candidate)
	mean := math.Log2(50 / (300. / 3)) // of a core's watts, against the mean
	for name, want := range map[string][3]float64{
		"rise": {4. / 100, (14 - 1) / 100., 16. / 100}, "watts": {mean, mean, mean + 2}, "wakes": {0, 1, 0},
	} {
		for c := range 3 {
			if got := float64(g.CandidateRow(c)[featureBehind(t, candidate, behind.Candidate, name)]); math.Abs(got-want[c]) > 1e-6 {
				t.Errorf("%s of candidate %d is %v, want %v", name, c, got, want[c])
			}
		}
	}
	total := feature.List(layout.Cluster)
	if got := float64(g.ClusterX[featureBehind(t, total, behind.Cluster, "unused")]); math.Abs(got-2./3) > 1e-6 {
		t.Errorf("unused is %v", got)
	}
}
