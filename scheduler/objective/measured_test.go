package objective

import (
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
)

// The tracker of a term about measured usage has the term's cost after every measurement, and placements do not
// change it.
func TestMeasuredTrackers(t *testing.T) {
	for _, term := range measured {
		t.Run(term.Name(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				nodes := make([]*cluster.Node, rapid.IntRange(1, 5).Draw(t, "nodes"))
				for i := range nodes {
					nodes[i] = &cluster.Node{Allocatable: cluster.Resources{MilliCPU: 4000, Memory: 8 << 30, Pods: 10}}
				}
				tracker, told := Track(term, nodes), Mix{{Term: term, Weight: 1}}.Track(nodes)
				tell := Told(told)
				for step := range 10 {
					if got, alike, want := tracker.Cost(), told.Cost(), term.Cost(nodes); got != want || alike != want {
						t.Fatalf("step %d: the tracker says %v, the one that is told of measurements %v, the term %v", step, got, alike, want)
					}
					if rapid.Bool().Draw(t, "placement") {
						i := rapid.IntRange(0, len(nodes)-1).Draw(t, "node")
						nodes[i].Add(cluster.Resources{MilliCPU: 100})
						tracker.Update(i)
						continue
					}
					tell()
					for _, n := range nodes {
						if rapid.IntRange(0, 4).Draw(t, "lost") == 0 {
							n.Usage = nil
							continue
						}
						n.Usage = &cluster.NodeUsage{At: float64(60 * step), Wanted: rapid.Float64Range(0, 4000).Draw(t, "wanted")}
						n.Usage.Throttled = n.Usage.Wanted * rapid.Float64Range(0, 1).Draw(t, "throttled")
						for d := range n.Usage.Known {
							n.Usage.Known[d], n.Usage.Capacity[d] = rapid.Bool().Draw(t, "known"), 1e6
							n.Usage.Measured[d].Mean = rapid.Float64Range(0, 1e6).Draw(t, "mean")
						}
					}
				}
			})
		})
	}
}
