package heuristic

import (
	"slices"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/policytest"
)

// powerNodes are two nodes with 32 cores and two devices: T4 in an idle package, and V100 with a share on a busy
// package.
func powerNodes() *cluster.Snapshot {
	idle, busy := policytest.GPUNode(32_000, 2), policytest.GPUNode(32_000, 2, cluster.Resources{MilliCPU: 1000, GPUMilli: 600, Pods: 1})
	idle.GPUModel, busy.GPUModel = "T4", "V100M32"
	third := policytest.GPUNode(32_000, 2)
	third.GPUModel = "P100"
	return &cluster.Snapshot{Nodes: []*cluster.Node{idle, busy, third}}
}

// The increases are computed by hand. A device of an idle T4 node costs 60 W and its package 145 W, an idle V100
// 270 W and a busy package nothing, P100 225 W and 105 W.
func TestPWR(t *testing.T) {
	s := powerNodes()
	for _, x := range []struct {
		pod  cluster.Resources
		want []float32
	}{
		{policytest.Whole(1), []float32{100, 48, 0}},                        // 205, 270 and 330 W: (330 - 270) / (330 - 205)
		{policytest.Share(400), []float32{37, 100, 0}},                      // 205, 0 and 330 W: the share in use has room
		{policytest.Share(500), []float32{100, 48, 0}},                      // 205, 270 and 330 W: it has none
		{cluster.Resources{MilliCPU: 1000, Pods: 1}, []float32{0, 100, 27}}, // 145, 0 and 105 W
	} {
		p := gpu("pwr")
		got := policytest.Scores(t, p, s, &cluster.Pod{Requests: x.pod}, []int32{0, 1, 2})
		if !slices.Equal(got, x.want) {
			t.Errorf("%+v: %v, want %v", x.pod, got, x.want)
		}
		if equal := policytest.Scores(t, p, s, &cluster.Pod{Requests: x.pod}, []int32{0}); equal[0] != 100 {
			t.Errorf("%+v: the only candidate has %v", x.pod, equal)
		}
	}
	if on := policy.Devices(gpu("pwr"), s.Nodes[1], &cluster.Pod{Requests: policytest.Share(400)}); on != cluster.Device(0) {
		t.Errorf("devices %b", on)
	}
}

// The mix is the weighted mean of both scores, and FGD chooses the devices.
func TestPWRMixedWithFGD(t *testing.T) {
	s := powerNodes()
	setting := policy.Setting{Typical: fragmentation.NewTypical([]fragmentation.Demand{{Requests: policytest.Share(400), Count: 1},
		{Requests: policytest.Whole(1), Count: 1}})}
	pod := &cluster.Pod{Requests: policytest.Share(400)}
	scores := func(name string) []float32 {
		h, err := Find(name)
		fatal.If(t, err)
		if h.New(setting).Name() != name || !h.TypicalPods && name != "pwr" {
			t.Errorf("%+v", h)
		}
		return slices.Clone(policytest.Scores(t, h.New(setting), s, pod, []int32{0, 1, 2}))
	}
	power, fgd, mixed := scores("pwr"), scores("fgd"), scores("pwr+fgd:0.25")
	for i := range mixed {
		if want := 0.25*power[i] + 0.75*fgd[i]; mixed[i] != want {
			t.Errorf("node %d: %v, want %v", i, mixed[i], want)
		}
	}
	h, err := Find("pwr+fgd:0.25")
	fatal.If(t, err)
	if got, want := policy.Devices(h.New(setting), s.Nodes[1], pod), NewFGD(setting.Typical).Devices(s.Nodes[1], pod); got != want {
		t.Errorf("devices %b, FGD's are %b", got, want)
	}
	for _, name := range []string{"pwr+fgd:", "pwr+fgd:1.1", "pwr+fgd:x", "power+gpu-gnn", "power+gpu-gnn:-1", "power+gpu-gnn:NaN",
		"power+none:1", "power+gnn:1"} {
		if _, err := Find(name); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A price on power moves pods to nodes that draw less. Without one the network decides as ever.
func TestNetworkWithPower(t *testing.T) {
	s := powerNodes()
	setting := policy.Setting{Typical: fragmentation.NewTypical([]fragmentation.Demand{{Requests: policytest.Share(400), Count: 1},
		{Requests: policytest.Whole(1), Count: 1}})}
	pod := &cluster.Pod{Requests: policytest.Whole(1)}
	var scores [][]float32
	for _, name := range []string{"power+gpu-gnn:0", "power+gpu-gnn:1000"} {
		h, err := Find(name)
		fatal.If(t, err)
		if h.Network != "gpu-gnn" || !h.TypicalPods || h.RandomTies {
			t.Errorf("%+v", h)
		}
		scores = append(scores, slices.Clone(policytest.Scores(t, h.New(setting), s, pod, []int32{0, 1, 2})))
	}
	// 5.4 of 6 devices are idle, so that a watt costs 0.9 devices: 205, 270 and 330 of them.
	for i, watts := range []float32{205, 270, 330} {
		if cost := scores[0][i] - scores[1][i]; cost < 0.9*watts-0.01 || cost > 0.9*watts+0.01 {
			t.Errorf("node %d: power costs %v, want %v", i, cost, 0.9*watts)
		}
	}
}

// From a weight of a million on, the node that draws least more wins, and among equals the one that the network prefers. Its differences
// survive beside the price of watts, in units of 0.03 devices times the idle share.
func TestPowerFirst(t *testing.T) {
	using := func(milli int64) *cluster.Node {
		n := policytest.GPUNode(32_000, 2, policytest.Share(milli))
		n.GPUModel = "T4"
		return n
	}
	idle := policytest.GPUNode(32_000, 2)
	idle.GPUModel = "T4"
	s := &cluster.Snapshot{Nodes: []*cluster.Node{idle, using(100), using(300), using(600)}} // 205 W more on the first, else 60
	for range 40 {                                                                           // full, and no candidates
		n := policytest.GPUNode(32_000, 2, policytest.Whole(2))
		n.GPUModel = "T4"
		s.Nodes = append(s.Nodes, n)
	}
	setting := policy.Setting{Typical: fragmentation.NewTypical([]fragmentation.Demand{{Requests: policytest.Share(400), Count: 1},
		{Requests: policytest.Whole(1), Count: 1}})}
	pod := &cluster.Pod{Requests: policytest.Whole(1)}
	scores := func(name string) []float32 {
		h, err := Find(name)
		fatal.If(t, err)
		return slices.Clone(policytest.Scores(t, h.New(setting), s, pod, policytest.Rows(4)))
	}
	network := scores("power+gpu-gnn:0")
	const unit = 0.03 * 7.0 / 88 // 7 of 88 devices are idle
	if spread := slices.Max(network[1:]) - slices.Min(network[1:]); spread < 1.5*unit {
		t.Fatalf("the network's scores %v differ by so little that the test shows nothing", network[1:])
	}
	for _, name := range []string{"power+gpu-gnn:1e6", "power+gpu-gnn:1e9"} {
		first := scores(name)
		if first[0] > -1e8 {
			t.Errorf("%s: the node that draws 145 W more than the others has the score %v", name, first[0])
		}
		for i := 2; i < 4; i++ {
			if got, want := first[i]-first[1], network[i]-network[1]; got < want-unit-1e-3 || got > want+unit+1e-3 {
				t.Errorf("%s: node %d is %v above node 1, by the network %v", name, i, got, want)
			}
		}
		if slices.Max(first) != 0 {
			t.Errorf("%s: the best score is %v, want 0", name, slices.Max(first))
		}
	}
}
