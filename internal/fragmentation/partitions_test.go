package fragmentation

import (
	"math"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
)

// The shares of profiles are read from the thousandths of a workload's pods.
func TestPartitions(t *testing.T) {
	demand := func(r cluster.Resources, n float64) Demand { return Demand{Requests: r, Count: n} }
	uniform := [mig.Count]float64{}
	for _, p := range mig.Profiles() {
		uniform[p] = 1.0 / 6
	}
	for name, c := range map[string]struct {
		workload []Demand
		want     [mig.Count]float64
	}{
		"partitions among others": {[]Demand{
			demand(cluster.Resources{GPUMilli: mig.Two.Milli()}, 3), demand(cluster.Resources{GPU: 1}, 1),
			demand(cluster.Resources{GPUMilli: 460}, 50), demand(cluster.Resources{GPU: 2}, 50), demand(cluster.Resources{MilliCPU: 1}, 50),
		}, [mig.Count]float64{mig.Two: 0.75, mig.Seven: 0.25}},
		"none":    {[]Demand{demand(cluster.Resources{GPUMilli: 460}, 1)}, uniform},
		"unknown": {nil, uniform},
	} {
		got := NewTypical(c.workload).Partitions()
		for p, want := range c.want {
			if math.Abs(got[p]-want) > 1e-9 {
				t.Errorf("%s: profile %d has the share %v, want %v", name, p, got[p], want)
			}
		}
	}
}
