package power

import (
	"math"
	"testing"

	"gnnsched/internal/cluster"
)

func node(model string, milliCPU, requested int64, used ...int64) *cluster.Node {
	return &cluster.Node{
		GPUModel: model, GPUs: used,
		Allocatable: cluster.Resources{MilliCPU: milliCPU, GPU: int64(len(used))}, Requested: cluster.Resources{MilliCPU: requested},
	}
}

// The draws are computed by hand.
func TestWatts(t *testing.T) {
	counted := node("V100M32", 64_000, 0)
	counted.Allocatable.GPU, counted.Requested.GPU, counted.GPUs = 8, 3, nil
	for name, x := range map[string]struct {
		node *cluster.Node
		r    cluster.Resources
		on   cluster.DeviceSet
		want float64
	}{
		"an empty machine with two T4": {node("T4", 96_000, 0, 0, 0), cluster.Resources{}, 0, 2*20 + 2*10},
		"a pod on one core and one device": {node("T4", 96_000, 0, 0, 0), cluster.Resources{MilliCPU: 1, GPU: 1}, cluster.Device(1),
			165 + 20 + 70 + 10},
		"48 threads are a package": {node("T4", 96_000, 47_000, 0, 300), cluster.Resources{MilliCPU: 1000}, 0, 165 + 20 + 70 + 10},
		"the 49th starts the next": {node("T4", 96_000, 48_000, 0, 300), cluster.Resources{MilliCPU: 1, GPUMilli: 500},
			cluster.Device(1), 2*165 + 70 + 10},
		"P100":                                {node("P100", 64_000, 1000, 1000, 0), cluster.Resources{}, 0, 120 + 15 + 250 + 25},
		"G2 is an A10 beside a usual package": {node("G2", 96_000, 0, 0), cluster.Resources{}, 0, 3*15 + 30},
		"A10":                                 {node("A10", 32_000, 0, 1), cluster.Resources{}, 0, 15 + 150},
		"V100M16":                             {node("V100M16", 64_000, 33_000, 1000), cluster.Resources{}, 0, 2*185 + 300},
		"G3 is an A100":                       {node("G3", 128_000, 64_000, 1, 0), cluster.Resources{}, 0, 270 + 20 + 400 + 50},
		"A100":                                {node("A100", 64_000, 0, 0), cluster.Resources{}, 0, 20 + 50},
		"another model":                       {node("H100", 32_000, 1, 1, 0), cluster.Resources{}, 0, 120 + 250 + 25},
		"no GPUs":                             {node("", 32_000, 1), cluster.Resources{}, 0, 120},
		"a part of a package":                 {node("", 33_000, 0), cluster.Resources{}, 0, 2 * 15},
		"overcommitted":                       {node("", 32_000, 90_000), cluster.Resources{}, 0, 120},
		"devices that are only counted":       {counted, cluster.Resources{GPU: 1}, 0, 2*20 + 4*300 + 4*30},
	} {
		if got := After(x.node, x.r, x.on); got != x.want {
			t.Errorf("%s: %v W, want %v", name, got, x.want)
		}
	}
	if n := node("T4", 96_000, 1, 1); Watts(n) != 165+20+70 {
		t.Errorf("%v W", Watts(n))
	}
}

// Without a model, a machine's power follows from its hardware threads, and a device's from whether a pod has it.
func TestDraw(t *testing.T) {
	n := &cluster.Node{Allocatable: cluster.Resources{MilliCPU: 10_000, GPU: 2, Pods: 10}, GPUModel: "T4", GPUs: []int64{0, 0}}
	for _, c := range []struct {
		name       string
		used, want float64
	}{{"idle", 0, 6.6 + 20}, {"half", 0.5, 19.8 + 20}} {
		if got := Draw(n, c.used); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s draws %v W, want %v", c.name, got, c.want)
		}
	}
	n.Add(cluster.Resources{GPUMilli: 500})
	if got := Draw(n, 0); math.Abs(got-(6.6+80)) > 1e-9 {
		t.Errorf("with a share of a device it draws %v W", got)
	}
	if got := Full(n); math.Abs(got-(33+140)) > 1e-9 {
		t.Errorf("it draws at most %v W", got)
	}
	n.Usage = &cluster.NodeUsage{Power: &cluster.PowerModel{Idle: 500, Full: 900}} // measured with the device
	if got := Full(n); math.Abs(got-(33+140)) > 1e-9 {
		t.Errorf("with measured watts it draws at most %v W, want the device counted once", got)
	}
	watts := 2.0
	n = &cluster.Node{Allocatable: n.Allocatable, Power: &cluster.PowerModel{Idle: 50, Full: 100, Sleep: &watts}}
	if got := Draw(n, 0); got != 2 {
		t.Errorf("asleep it draws %v W", got)
	}
}
