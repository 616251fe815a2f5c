package objective

import (
	"math"
	"testing"

	"gnnsched/internal/cluster"
)

// The cost of three machines is computed by hand: one is half used, one is empty and sleeps, one may not sleep.
func TestEnergy(t *testing.T) {
	watts := 10.0
	sleeper := &cluster.PowerModel{Idle: 100, Full: 300, Sleep: &watts}
	node := func(m *cluster.PowerModel) *cluster.Node {
		return &cluster.Node{Allocatable: cluster.Resources{MilliCPU: 10_000, Memory: 8 << 30, Pods: 10}, Power: m}
	}
	busy, asleep, awake := node(sleeper), node(sleeper), node(nil)
	busy.Add(cluster.Resources{MilliCPU: 5000})
	const fullAwake = 33.0 // 3.3 W for each of 10 threads
	check := func(want float64) {
		t.Helper()
		nodes := []*cluster.Node{busy, asleep, awake, {Unschedulable: true, Allocatable: awake.Allocatable}}
		if got := (energy{}).Cost(nodes) * (600 + fullAwake); math.Abs(got-want) > 1e-9 {
			t.Errorf("draws %v W, want %v", got, want)
		}
	}
	check(200 + 10 + 0.2*fullAwake)
	asleep.Add(cluster.Resources{MilliCPU: 1000})
	check(200 + 120 + 0.2*fullAwake)
	busy.Usage = &cluster.NodeUsage{}
	busy.Usage.Known[cluster.UsedCPU], busy.Usage.Measured[cluster.UsedCPU].Mean, busy.Usage.Missing[cluster.UsedCPU] = true, 1500, 1000
	check(150 + 120 + 0.2*fullAwake)
	if c := (energy{}).Cost(nil); c != 0 {
		t.Errorf("no nodes cost %v", c)
	}
}
