package encode

import (
	"math"
	"testing"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
)

// worth returns what node i is worth in a cluster, for a workload.
func worth(demand []fragmentation.Demand, nodes []*cluster.Node, i int) float64 {
	e := NewStars(feature.DefaultGPU(), fragmentation.NewTypical(demand))
	e.Features(nodes)
	var g graph.GPUNode
	e.Node(&g, nodes[i], cluster.Resources{}, 0)
	held := e.Held()
	return e.Reserve().Worth(&held)
}

func TestReserve(t *testing.T) {
	one := cluster.Resources{MilliCPU: 1000, GPU: 1, Pods: 1}
	four := cluster.Resources{MilliCPU: 16_000, GPU: 4, Pods: 1}
	free, used := gpuNode("T4", 0, 0, 0, 0), gpuNode("T4", 1000, 0, 0, 0)
	little := gpuNode("T4", 0, 0, 0, 0)
	little.Requested.MilliCPU = 20_000
	other := gpuNode("G2", 0, 0, 0, 0)
	away := gpuNode("T4", 0, 0, 0, 0)
	away.Unschedulable = true
	named := []fragmentation.Demand{{Requests: one, Count: 1}, {Requests: one, Models: []string{"T4"}, Count: 1}}
	for name, x := range map[string]struct {
		demand []fragmentation.Demand
		nodes  []*cluster.Node // the test examines the first
		want   float64
	}{
		// A quarter of the GPUs go to pods of 4 of them. 4 of 13 idle devices are in slots: they last 16 devices' time, 1.23
		// of the idle devices', and the price falls from 1.1 to 2.2.
		"a scarce slot": {[]fragmentation.Demand{{Requests: one, Count: 12}, {Requests: four, Count: 1}},
			[]*cluster.Node{free, used, used, used}, 4 * scarcity(16.0/13)},
		"no slot": {[]fragmentation.Demand{{Requests: one, Count: 12}, {Requests: four, Count: 1}},
			[]*cluster.Node{used, free, used, used}, 0},
		"no CPU for the slot": {[]fragmentation.Demand{{Requests: one, Count: 1}, {Requests: four, Count: 1}},
			[]*cluster.Node{little, free, used, used}, 0},
		"the last slot": {[]fragmentation.Demand{{Requests: one, Count: 1}, {Requests: four, Count: 1}},
			[]*cluster.Node{free, used, used, used}, 4},
		"slots for all": {[]fragmentation.Demand{{Requests: one, Count: 12}, {Requests: four, Count: 1}},
			[]*cluster.Node{free, free, free}, 0},
		"no pods of several": {[]fragmentation.Demand{{Requests: one, Count: 1}}, []*cluster.Node{free, used, used}, 0},
		"a node that is away": {[]fragmentation.Demand{{Requests: one, Count: 12}, {Requests: four, Count: 1}},
			[]*cluster.Node{free, away, used, used, used}, 4 * scarcity(16.0/13)},
		"an unknown workload":  {nil, []*cluster.Node{free, used}, 0},
		"a model that is rare": {named, []*cluster.Node{used, other, other}, 3}, // 3 of 11 devices for half of the GPUs
		"another model":        {named, []*cluster.Node{other, used, other}, 0},
		"a model for all":      {append(named, named[0], named[0]), []*cluster.Node{free, free, free, other}, 0},
		// The demand is 9 devices: 4 for the T4, 4 in the slot. Either would last 9 devices' time; 7 are idle.
		"model and slot": {[]fragmentation.Demand{{Requests: one, Count: 1}, {Requests: one, Models: []string{"T4"}, Count: 4},
			{Requests: four, Count: 1}}, []*cluster.Node{free, gpuNode("G2", 1000, 0, 0, 0)}, 4*scarcity(9.0/7) + 4*scarcity(9.0/7)},
		"without devices":        {named, []*cluster.Node{gpuNode("T4", 1000), other}, 0},
		"a cluster that is full": {named, []*cluster.Node{gpuNode("T4", 1000)}, 0},
	} {
		if got := worth(x.demand, x.nodes, 0); math.Abs(got-x.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
	}
}

// A device in a pool that few pods may use has no worth beside a device that all may use, as long as the pods that may use no other will
// need it.
func TestReserveForPodsWithoutTolerations(t *testing.T) {
	one := cluster.Resources{MilliCPU: 1000, GPU: 1, Pods: 1}
	tolerate := []cluster.Toleration{{Key: "gpu", Exists: true}}
	tainted, free := gpuNode("T4", 0, 0), gpuNode("T4", 0, 0)
	tainted.Taints = []cluster.Taint{{Key: "gpu", Effect: cluster.NoSchedule}}
	other := []cluster.Toleration{{Key: "another", Exists: true}}
	for name, x := range map[string]struct {
		demand []fragmentation.Demand
		nodes  []*cluster.Node // the test examines the first
		want   float64
	}{
		// 2 of 4 devices for 3 of 4 pods.
		"a device for all": {[]fragmentation.Demand{{Requests: one, Count: 3}, {Requests: one, Tolerations: tolerate, Count: 1}},
			[]*cluster.Node{free, tainted}, 2},
		"a device for few": {[]fragmentation.Demand{{Requests: one, Count: 3}, {Requests: one, Tolerations: tolerate, Count: 1}},
			[]*cluster.Node{tainted, free}, 0},
		"three in ten need it": {[]fragmentation.Demand{{Requests: one, Count: 3}, {Requests: one, Tolerations: tolerate, Count: 7}},
			[]*cluster.Node{free, tainted}, 2 * scarcity(2/0.3/4)},
		"one in ten needs it": {[]fragmentation.Demand{{Requests: one, Count: 1}, {Requests: one, Tolerations: tolerate, Count: 9}},
			[]*cluster.Node{free, tainted}, 0},
		"all tolerate it":   {[]fragmentation.Demand{{Requests: one, Tolerations: tolerate, Count: 1}}, []*cluster.Node{free, tainted}, 0},
		"none tolerates it": {[]fragmentation.Demand{{Requests: one, Count: 1}}, []*cluster.Node{free, tainted}, 0},
		"two kinds that need it": {[]fragmentation.Demand{{Requests: one, Count: 1}, {Requests: one, Tolerations: other, Count: 2},
			{Requests: one, Tolerations: tolerate, Count: 7}}, []*cluster.Node{free, tainted}, 2 * scarcity(2/0.3/4)},
		"pods without GPUs, aside": {[]fragmentation.Demand{{Requests: cluster.Resources{MilliCPU: 1000, Pods: 1}, Count: 9},
			{Requests: one, Tolerations: tolerate, Count: 1}}, []*cluster.Node{free, tainted}, 0},
	} {
		if got := worth(x.demand, x.nodes, 0); math.Abs(got-x.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
	}
}

// Where CPU is gone before the idle devices, a node is worth the pods with one device that it can host.
func TestReserveWhereCPURunsOut(t *testing.T) {
	one := cluster.Resources{MilliCPU: 4000, GPU: 1, Pods: 1}
	big := cluster.Resources{MilliCPU: 12_000, GPU: 1, Pods: 1}
	single := []fragmentation.Demand{{Requests: one, Count: 3}, {Requests: big, Count: 1}} // 6 cores a device, on average
	with := func(cores int64) []fragmentation.Demand {                                     // cores a device for pods without GPUs
		return append(single, fragmentation.Demand{Requests: cluster.Resources{MilliCPU: 4000 * cores, Pods: 1}, Count: 1})
	}
	free, used, half := gpuNode("T4", 0, 0, 0, 0), gpuNode("T4", 1000, 1000, 1000, 1000), gpuNode("T4", 500, 500, 500, 500)
	few := gpuNode("T4", 0, 0, 0, 0)
	few.Requested.MilliCPU = 19_000
	shares := []fragmentation.Demand{{Requests: cluster.Resources{MilliCPU: 16_000, GPUMilli: 500, Pods: 1}, Count: 1}}
	for name, x := range map[string]struct {
		demand []fragmentation.Demand
		nodes  []*cluster.Node
		want   float64
	}{
		"CPU for all": {single, []*cluster.Node{free, free}, 0}, // 64 cores for 8 devices
		// it lasts as long as 4 devices; a node hosts 4 of one kind, 2 of the other
		"CPU is gone first":  {with(10), []*cluster.Node{free, free}, 0.5 * (3*4 + 2) / 4},
		"CPU lasts longer":   {with(1), []*cluster.Node{free, free}, 0.5 * 2 / 7 * (3*4 + 2) / 4}, // 8/7 of the devices' time
		"devices in use":     {with(10), []*cluster.Node{used, free}, 0},
		"shares of devices":  {with(10), []*cluster.Node{half, free}, 0},
		"no pods with one":   {shares, []*cluster.Node{half, free}, 0},
		"little CPU":         {with(10), []*cluster.Node{few, free}, 0.5 * (3*3 + 1) / 4},
		"no devices at all":  {with(10), []*cluster.Node{gpuNode("T4", 1000), gpuNode("T4", 1000)}, 0},
		"no pods with a GPU": {with(10)[2:], []*cluster.Node{free, free}, 0},
	} {
		if got := worth(x.demand, x.nodes, 0); math.Abs(got-x.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
	}
}

// Pods that are too rare to be typical count: one in two hundred requests eight devices.
func TestReserveForRarePods(t *testing.T) {
	demand := []fragmentation.Demand{
		{Requests: cluster.Resources{MilliCPU: 1000, GPU: 1, Pods: 1}, Count: 199},
		{Requests: cluster.Resources{MilliCPU: 8000, GPU: 8, Pods: 1}, Count: 1},
	}
	for _, p := range fragmentation.NewTypical(demand).Pods() {
		if p.Devices > 1 {
			t.Fatal("the rare pod is typical")
		}
	}
	used := gpuNode("T4", 1000, 0, 0, 0, 0, 0, 0, 0)
	nodes := []*cluster.Node{gpuNode("T4", 0, 0, 0, 0, 0, 0, 0, 0)}
	for range 40 {
		nodes = append(nodes, used)
	}
	// The slot lasts 8 / (8/207) = 207 devices' time, less than the 288 idle ones.
	if got := worth(demand, nodes, 0); got != 8 {
		t.Errorf("%v, want 8", got)
	}
}

// What lasts a tenth longer than the idle devices has its full price, and what lasts more than twice as long has none.
func TestScarcity(t *testing.T) {
	for lasts, want := range map[float64]float64{0: 1, 1.1: 1, 1.65: 0.5, 2.2: 0, 9: 0} {
		if got := scarcity(lasts); math.Abs(got-want) > 1e-9 {
			t.Errorf("what lasts %v times as long costs %v, want %v", lasts, got, want)
		}
	}
}
