package cluster

import (
	"testing"

	"pgregory.net/rapid"
)

// Nearest finds as few groups as there are, for every set of devices.
func TestNearestIsLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "cards")
		values := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), n, n).Draw(t, "values")
		from := DeviceSet(rapid.Uint64Range(1, 1<<n-1).Draw(t, "from"))
		k := rapid.IntRange(1, from.Len()).Draw(t, "count")
		on, spans := Nearest([][]string{values}, from, k, 0)
		if on.Len() != k || on&^from != 0 {
			t.Fatalf("%b of %b", on, from)
		}
		least := n
		for set := DeviceSet(1); set < 1<<n; set++ {
			if set.Len() == k && set&^from == 0 {
				least = min(least, len(groups(values, set)))
			}
		}
		if got := len(groups(values, on)); got != least || spans[0] != least {
			t.Fatalf("%d groups (%v), but %d do", got, spans, least)
		}
	})
}

// For several whole devices, the nearest idle ones are chosen; for a share, one device, or a node without a topology, the choice is as
// without topology.
func TestNearDevices(t *testing.T) {
	numa := &Topology{NUMA: []string{"0", "0", "0", "1", "1"}}
	for _, c := range []struct {
		topology *Topology
		used     []int64
		ask      Resources
		want     DeviceSet
	}{
		{nil, []int64{0, 0, 0, 0, 0}, Resources{GPU: 2}, 0b11},
		{numa, []int64{0, 0, 0, 0, 0}, Resources{GPU: 2}, 0b11000}, // the larger group stays whole
		{numa, []int64{0, 0, 500, 0, 100}, Resources{GPU: 2}, 0b11},
		{numa, []int64{0, 0, 500, 0, 0}, Resources{GPU: 3}, 0b1011},
		{numa, []int64{0, 0, 0, 0, 0}, Resources{GPU: 1}, 0b1},
		{numa, []int64{0, 0, 0, 300, 0}, Resources{GPUMilli: 500}, 0b1000},
		{numa, []int64{0, 300, 300, 300, 300}, Resources{GPU: 2}, 0b11}, // not enough of them are idle
		{&Topology{NUMA: numa.NUMA, Linked: map[int][]string{2: {"a", "b", "c", "d", "a"}}}, []int64{0, 0, 0, 0, 0}, Resources{GPU: 2}, 0b10001},
	} {
		n := &Node{GPUs: c.used, Topology: c.topology}
		if got := n.NearDevices(c.ask); got != c.want {
			t.Errorf("%v, %+v: %b, want %b", c.used, c.ask, got, c.want)
		}
	}
}
