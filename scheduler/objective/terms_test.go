package objective

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
)

func in(zone string, n *cluster.Node) *cluster.Node {
	n.Zone = zone
	return n
}

func withGPU(offered, requested int64, n *cluster.Node) *cluster.Node {
	n.Allocatable.GPU, n.Requested.GPU = offered, requested
	return n
}

func TestZones(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []*cluster.Node
		want  float64
	}{
		{"none", nil, 0},
		{"no zones", []*cluster.Node{at(2, 2), at(9, 9)}, 0},
		{"one zone", []*cluster.Node{in("a", at(2, 2)), in("a", at(9, 9))}, 0},
		{"even zones of uneven nodes", []*cluster.Node{in("a", at(0, 0)), in("a", at(8, 8)), in("b", at(4, 4)), in("b", at(4, 4))}, 0},
		{"uneven", []*cluster.Node{in("a", at(2, 5)), in("b", at(6, 5)), at(9, 9), in("c", tainted(at(9, 9)))}, 0.1},
	} {
		if got := (Zones{}).Cost(c.nodes); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Nodes of 10 CPU and 10 GiB take four large pods of 2.5 CPU and 2.5 GiB each.
func TestFragmentation(t *testing.T) {
	for _, c := range []struct {
		name       string
		nodes      []*cluster.Node
		cost, room float64
	}{
		{"none", nil, 0, 0},
		{"empty", []*cluster.Node{at(0, 0), at(0, 0)}, 0, 1},
		{"full", []*cluster.Node{at(10, 10)}, 0, 0},
		{"in large pieces", []*cluster.Node{at(5, 5), at(0, 0)}, 0, 0.75},
		{"in small pieces", []*cluster.Node{at(8, 8), at(8, 8)}, 0.2, 0},
		{"memory decides", []*cluster.Node{at(0, 8), at(0, 8)}, 0.2, 0},
		{"control plane left out", []*cluster.Node{at(5, 5), tainted(at(8, 8))}, 0, 0.5},
	} {
		if got := (Fragmentation{}).Cost(c.nodes); math.Abs(got-c.cost) > 1e-9 {
			t.Errorf("%s: fragmentation %v, want %v", c.name, got, c.cost)
		}
		if got := Room(c.nodes); math.Abs(got-c.room) > 1e-12 {
			t.Errorf("%s: room %v, want %v", c.name, got, c.room)
		}
	}
}

// GPUs count if there are any, over the nodes that have them.
func TestBalanceOfGPUs(t *testing.T) {
	without := []*cluster.Node{at(2, 5), at(6, 5), at(4, 5)}
	want := Balance{}.Cost(without)
	some := []*cluster.Node{withGPU(4, 1, at(2, 5)), withGPU(8, 6, at(6, 5)), at(4, 5)}
	if got := (Balance{}).Cost(some); math.Abs(got-(2*want+0.25)/3) > 1e-12 {
		t.Errorf("%v, want %v", got, (2*want+0.25)/3)
	}
	some[0].Requested.GPU, some[0].Requested.GPUMilli = 0, 1000 // shares of a device count with their size
	if got := (Balance{}).Cost(some); math.Abs(got-(2*want+0.25)/3) > 1e-12 {
		t.Errorf("with shares: %v, want %v", got, (2*want+0.25)/3)
	}
	if got := (Balance{}).Cost([]*cluster.Node{tainted(withGPU(4, 4, at(0, 0))), without[0], without[1], without[2]}); got != want {
		t.Errorf("GPUs of a node that is not available: %v, want %v", got, want)
	}
}

// Every term lies between 0 and 1 while no node is overcommitted.
func TestTermsAreFractions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []*cluster.Node
		for range rapid.IntRange(0, 8).Draw(t, "nodes") {
			n := in(rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone"),
				at(rapid.Int64Range(0, 10).Draw(t, "cpu"), rapid.Int64Range(0, 10).Draw(t, "mem")))
			nodes = append(nodes, n)
		}
		for _, term := range Terms {
			if c := term.Cost(nodes); !(c >= 0 && c <= 1) {
				t.Fatalf("%s: %v", term.Name(), c)
			}
		}
	})
}

// Nodes of 10 CPU and 10 GiB.
func TestOrdinary(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []*cluster.Node
		want  float64
	}{
		{"none", nil, 0},
		{"GPUs everywhere", []*cluster.Node{withGPU(4, 0, at(2, 2)), withGPU(4, 4, at(9, 9))}, 0},
		{"nodes with GPUs left out", []*cluster.Node{at(2, 2), withGPU(4, 4, at(9, 9)), at(6, 6)}, 0.2},
	} {
		if got := (Ordinary{}).Cost(c.nodes); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestGPUIdle(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []*cluster.Node
		want  float64
	}{
		{"none", nil, 0},
		{"no GPUs", []*cluster.Node{at(2, 2)}, 0},
		{"some", []*cluster.Node{at(2, 2), withGPU(4, 4, at(9, 9)), withGPU(4, 1, at(9, 9)), tainted(withGPU(4, 1, at(9, 9)))}, 0.5},
	} {
		if got := (GPUIdle{}).Cost(c.nodes); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

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
