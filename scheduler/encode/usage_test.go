package encode_test

import (
	"math"
	"slices"
	"testing"

	"gnnsched/gnn/feature"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/encode"
)

// usageCluster is two measured nodes and one without a measurement.
func usageCluster() *cluster.Snapshot {
	s := &cluster.Snapshot{Now: 1060}
	for range 3 {
		s.Nodes = append(s.Nodes, &cluster.Node{
			Version: cluster.NextVersion(), Allocatable: cluster.Resources{MilliCPU: 4000, Memory: 1 << 30, Pods: 10},
			Requested: cluster.Resources{MilliCPU: 2000, Pods: 1},
			Groups:    []cluster.Group{{Each: cluster.Resources{MilliCPU: 2000, Pods: 1}, Count: 1}},
		})
	}
	for i, mean := range []float64{400, 800} {
		u := &cluster.NodeUsage{Version: cluster.NextVersion(), At: 1000}
		u.Known[cluster.UsedCPU], u.Known[cluster.NetworkIn], u.Known[cluster.DiskRead] = true, true, true
		u.Measured[cluster.UsedCPU] = cluster.Statistics{Mean: mean, Deviation: 40, Trend: -80, HourMax: 1200, DayMax: 4000}
		u.Measured[cluster.NetworkIn] = cluster.Statistics{Mean: math.NaN(), HourMax: 1e30}
		u.Measured[cluster.DiskRead] = cluster.Statistics{Mean: 5} // without a known capacity
		u.Missing[cluster.UsedCPU] = 200
		u.Capacity[cluster.NetworkIn] = 100
		s.Nodes[i].Usage = u
	}
	return s
}

func usageLayout(t *testing.T) *feature.Layout {
	t.Helper()
	l, err := feature.NewLayout([]string{"base", "usage"})
	fatal.If(t, err)
	return l
}

// featureBehind returns the index of a feature behind the first ones of a list, whose names may recur.
func featureBehind(t *testing.T, list []feature.Feature, first int, name string) int {
	t.Helper()
	i := slices.IndexFunc(list[first:], func(f feature.Feature) bool { return f.Name == name })
	if i < 0 {
		t.Fatalf("no feature %s", name)
	}
	return first + i
}

// The features are computed by hand from their docs.
func TestUsageFeatures(t *testing.T) {
	layout := usageLayout(t)
	candidate, total := feature.List(layout.Candidate), feature.List(layout.Cluster)
	pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 1000, Pods: 1}, Usage: &cluster.PodUsage{}}
	pod.Usage.Known[cluster.UsedCPU], pod.Usage.Measured[cluster.UsedCPU].Mean = true, 100
	g := encode.New(layout).Encode(usageCluster(), pod, []int32{0, 1, 2})
	fatal.If(t, g.Validate())
	base := feature.Default().Widths // names of base recur
	// Used CPU: (400+200)/4000, (800+200)/4000, and 2000/4000 by requests. The pod adds 100/4000.
	mean, std := (0.15+0.25+0.5)/3, math.Sqrt((0.15*0.15+0.25*0.25+0.5*0.5)/3-0.3*0.3)
	rise := func(after float64) float64 { return 4 * (after - mean) * 0.025 / (std + 0.025 + 0.01) }
	for name, want := range map[string][3]float64{
		"used_cpu": {0.175, 0.275, 0.525}, "used_rise": {rise(0.175), rise(0.275), rise(0.525)}, "used_cpu_std": {0.01, 0.01, 0},
		"used_cpu_max": {1500. / 4000, 1500. / 4000, 2100. / 4000}, "used_cpu_trend": {-0.02, -0.02, 0},
		"used_network_in": {0, 0, 0}, "used_network_in_max": {4, 4, 0}, "used_disk_read": {0, 0, 0},
		"used_age": {0.2, 0.2, 1}, "used_known": {0.5, 0.5, 0},
	} {
		for c := range 3 {
			if got := float64(g.CandidateRow(c)[featureBehind(t, candidate, base.Candidate, name)]); math.Abs(got-want[c]) > 1e-6 {
				t.Errorf("%s of candidate %d is %v, want %v", name, c, got, want[c])
			}
		}
	}
	for name, want := range map[string]float64{"used_cpu": mean, "used_cpu_std": std, "add_cpu": 0.025, "add_memory": 0, "pod_known": 1. / 6} {
		if got := float64(g.ClusterX[featureBehind(t, total, base.Cluster, name)]); math.Abs(got-want) > 1e-6 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// A measurement changes the features of candidates, but dirties no node's embedding.
func TestUsageDirtiesNoNode(t *testing.T) {
	s, encoder, pod := usageCluster(), encode.New(usageLayout(t)), &cluster.Pod{Requests: cluster.Resources{MilliCPU: 1000, Pods: 1}}
	g := encoder.Encode(s, pod, []int32{0, 1, 2})
	stamps, nodes, candidates := slices.Clone(g.Stamp), slices.Clone(g.NodeX), slices.Clone(g.CandidateX)
	for _, n := range s.Nodes {
		u := &cluster.NodeUsage{Version: cluster.NextVersion(), At: 1050}
		u.Known[cluster.UsedCPU], u.Measured[cluster.UsedCPU].Mean = true, 3000
		n.Usage = u
	}
	g = encoder.Encode(s, pod, []int32{0, 1, 2})
	if !slices.Equal(stamps, g.Stamp) || !slices.Equal(nodes, g.NodeX) {
		t.Error("the measurement dirtied nodes")
	}
	if slices.Equal(candidates, g.CandidateX) {
		t.Error("the measurement did not change the candidates")
	}
	if fresh := encode.New(usageLayout(t)).Encode(s, pod, []int32{0, 1, 2}); !slices.Equal(fresh.CandidateX, g.CandidateX) {
		t.Error("what is kept differs from what is computed anew")
	}
}
