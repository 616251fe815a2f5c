package encode

import (
	"testing"

	"gnnsched/gnn/feature"
	"gnnsched/internal/cluster"
)

// The features of the set topology for a node with two NUMA nodes of three devices and a root for two, before and after placements.
func TestTopology(t *testing.T) {
	layout, err := feature.NewGPULayout([]string{"base", "topology"})
	if err != nil {
		t.Fatal(err)
	}
	e := NewStars(layout, typical())
	where := &cluster.Topology{
		NUMA: []string{"0", "0", "0", "1", "1", "1"}, Roots: []string{"a", "a", "b", "c", "c", "d"},
		Linked: map[int][]string{2: {"x", "y", "x", "z", "z", "y"}},
	}
	two := cluster.Resources{MilliCPU: 1000, GPU: 2, Pods: 1}
	for name, c := range map[string]struct {
		where *cluster.Topology
		used  []int64
		on    cluster.DeviceSet
		want  map[string]float64
	}{
		"idle": {where, []int64{0, 0, 0, 0, 0, 0}, 0, map[string]float64{
			"numa_known": 1, "numa_most": 3.0 / 8, "numa_fits_2": 4.0 / 8, "numa_fits_4": 0, "numa_spans": 0,
			"root_most": 2.0 / 8, "root_fits_2": 4.0 / 8, "linked_2": 6.0 / 8, "linked_4": 0,
		}},
		"two of one NUMA node": {where, []int64{0, 0, 0, 0, 0, 0}, 0b000011, map[string]float64{
			"numa_most": 3.0 / 8, "numa_fits_2": 2.0 / 8, "numa_spans": 0, "root_fits_2": 2.0 / 8, "root_spans": 0, "linked_2": 2.0 / 8,
		}},
		"two of two NUMA nodes": {where, []int64{0, 0, 0, 0, 0, 0}, 0b100100, map[string]float64{
			"numa_most": 2.0 / 8, "numa_fits_2": 4.0 / 8, "numa_spans": 1.0 / 8, "root_fits_2": 4.0 / 8, "root_spans": 1.0 / 8, "linked_2": 2.0 / 8,
		}},
		"a share": {where, []int64{500, 0, 0, 0, 0, 0}, 0,
			map[string]float64{"numa_most": 3.0 / 8, "numa_fits_2": 4.0 / 8, "root_fits_2": 2.0 / 8}},
		"not known": {nil, []int64{0, 0}, 0b11,
			map[string]float64{"numa_known": 0, "numa_most": 0, "numa_spans": 0, "root_known": 0, "linked_2": 0}},
		"more than listed": {&cluster.Topology{NUMA: []string{"0", "0"}}, []int64{0, 0, 0}, 0,
			map[string]float64{"numa_most": 2.0 / 8, "root_known": 0}},
	} {
		n := gpuNode("H100", c.used...)
		n.Topology = c.where
		r := cluster.Resources{}
		if c.on != 0 {
			r = two
		}
		x := e.Vertex(n, r, c.on).X
		for feat, want := range c.want {
			if got := named(t, feature.List(layout.Node), x, feat); got < want-1e-6 || got > want+1e-6 {
				t.Errorf("%s: %s is %v, want %v", name, feat, got, want)
			}
		}
	}
}
