package encode

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/feature/featuretest"
	"gnnsched/gnn/graph"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
)

// With one more set, its features follow the features of base, which do not change by a bit.
func TestMoreSets(t *testing.T) {
	layout, err := feature.NewLayout(featuretest.Names)
	fatal.If(t, err)
	rapid.Check(t, func(t *rapid.T) {
		s, serial := drawSnapshot(t), 0
		more, base := New(layout), New(feature.Default())
		for range 3 {
			pod := &cluster.Pod{Requests: drawRequests(t), GPUModels: []string{"T4"}}
			candidates := drawCandidates(t, len(s.Nodes))
			got, want := more.Encode(s, pod, candidates), base.Encode(s, pod, candidates)
			fatal.If(t, got.Validate())
			for i, n := range s.Nodes {
				slots := float32(n.Free().Pods) / 110
				behind(t, "node", got.NodeRow(i), want.NodeRow(i), slots)
				x, y := got.Groups[i].X, want.Groups[i].X
				for j, group := range n.Groups {
					behind(t, "group", x[j*layout.Widths.Group:(j+1)*layout.Widths.Group], y[j*len(y)/len(n.Groups):(j+1)*len(y)/len(n.Groups)],
						float32(group.Count)/10)
				}
			}
			behind(t, "pod", got.PodX, want.PodX, 0.1)
			behind(t, "cluster", got.ClusterX, want.ClusterX, float32(len(candidates))/100)
			for c, v := range candidates {
				behind(t, "candidate", got.CandidateRow(c), want.CandidateRow(c),
					float32(s.Nodes[v].Free().Pods)/110, want.CandidateRow(c)[5]+want.CandidateRow(c)[6])
			}
			change(t, s, &serial)
		}
	})
}

// behind checks that got consists of base, then more.
func behind(t interface{ Fatalf(string, ...any) }, what string, got, base []float32, more ...float32) {
	if d := cmp.Diff(append(append([]float32{}, base...), more...), got); d != "" {
		t.Fatalf("%s (-want +got)\n%s", what, d)
	}
}

// On the GPU graph, too, another set's features follow the features of base.
func TestMoreGPUSets(t *testing.T) {
	layout, err := feature.NewGPULayout(featuretest.Names)
	fatal.If(t, err)
	more, base := NewStars(layout, typical()), NewStars(feature.DefaultGPU(), typical())
	n := gpuNode("T4", 0, 600)
	for _, r := range []cluster.Resources{{}, {MilliCPU: 100, GPUMilli: 300, Pods: 1}} {
		var got, want graph.GPUNode
		more.Node(&got, n, r, cluster.Device(1))
		base.Node(&want, n, r, cluster.Device(1))
		behind(t, "node", got.X, want.X, float32(n.Free().Pods)/110)
	}
	nodes := []*cluster.Node{n}
	behind(t, "cluster", more.Features(nodes), base.Features(nodes), 0.002)
}
