package cluster

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestUsedAndCapacity(t *testing.T) {
	n := &Node{Allocatable: Resources{MilliCPU: 4000, Memory: 8 << 30}, Requested: Resources{MilliCPU: 1500, Memory: 1 << 30}}
	requested := Statistics{Mean: 1500, HourMax: 1500, DayMax: 1500}
	if got := n.Used(UsedCPU); got != requested {
		t.Errorf("without a measurement the CPU is %+v, want %+v", got, requested)
	}
	if got := n.Capacity(NetworkIn); got != 0 {
		t.Errorf("the network's capacity is %v, want 0 while it is not known", got)
	}
	n.Usage = &NodeUsage{}
	n.Usage.Known[UsedMemory] = true
	n.Usage.Measured[UsedMemory] = Statistics{Mean: 100, Deviation: 10, Trend: -4, HourMax: 200, DayMax: 300}
	n.Usage.Missing = [Dimensions]float64{UsedCPU: 7, UsedMemory: 50}
	n.Usage.Capacity = [Dimensions]float64{UsedCPU: 1, DiskRead: 9}
	for _, c := range []struct {
		d        Dimension
		used     Statistics
		capacity float64
	}{
		{UsedCPU, requested, 4000}, // not measured: the pod bound since counts among the requests
		{UsedMemory, Statistics{Mean: 150, Deviation: 10, Trend: -4, HourMax: 250, DayMax: 350}, 8 << 30},
		{DiskRead, Statistics{}, 9},
	} {
		if got := n.Used(c.d); got != c.used {
			t.Errorf("%v: used %+v, want %+v", c.d, got, c.used)
		}
		if got := n.Capacity(c.d); got != c.capacity {
			t.Errorf("%v: capacity %v, want %v", c.d, got, c.capacity)
		}
	}
}

func TestExpected(t *testing.T) {
	p := &Pod{Requests: Resources{MilliCPU: 250, Memory: 64}, Usage: &PodUsage{}}
	p.Usage.Known[UsedCPU], p.Usage.Known[DiskWrite] = true, true
	p.Usage.Measured[UsedCPU].Mean, p.Usage.Measured[DiskWrite].Mean = 30, 5
	want := [Dimensions]float64{UsedCPU: 30, UsedMemory: 64, DiskWrite: 5}
	for d := range Dimension(Dimensions) {
		if got := p.Expected(d); got != want[d] {
			t.Errorf("%v: %v, want %v", d, got, want[d])
		}
	}
	p.Usage = nil
	if got := p.Expected(UsedCPU); got != 250 {
		t.Errorf("without a history %v, want the request", got)
	}
}

func TestMissingShare(t *testing.T) {
	for bound, want := range map[float64]float64{1000: 1, 1001: 1, 850: 0.5, 700: 0, 10: 0} {
		if got := MissingShare(1000, bound); got != want {
			t.Errorf("bound at %v: %v, want %v", bound, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		at, bound := rapid.Float64Range(-1e9, 1e9).Draw(t, "measured"), rapid.Float64Range(-1e9, 1e9).Draw(t, "bound")
		if got := MissingShare(at, bound); !(got >= 0 && got <= 1) {
			t.Fatalf("the share is %v", got)
		}
	})
}

func TestPowerModelAt(t *testing.T) {
	straight, curved := PowerModel{Idle: 100, Full: 300}, PowerModel{Idle: 100, Full: 300, Curve: []float64{200, 220, 260}}
	for _, c := range []struct {
		model      PowerModel
		used, want float64
	}{
		{straight, 0, 100}, {straight, 0.25, 150}, {straight, 1, 300}, {straight, 1.5, 300}, {straight, -1, 100},
		{curved, 0, 100}, {curved, 0.125, 150}, {curved, 0.25, 200}, {curved, 0.5, 220}, {curved, 0.75, 260}, {curved, 0.875, 280},
		{curved, 1, 300},
	} {
		if got := c.model.At(c.used); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%+v draws %v W at %v, want %v", c.model, got, c.used, c.want)
		}
	}
}

func TestPowerModelValidate(t *testing.T) {
	sleep := func(w float64) *float64 { return &w }
	good := PowerModel{Idle: 100, Full: 300, Curve: []float64{150}, Sleep: sleep(5)}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, m := range map[string]PowerModel{
		"idle: -1 is not 0 to 100000 watts":   {Idle: -1, Full: 1},
		"full: 50 is not 100 to 100000 watts": {Idle: 100, Full: 50},
		"full: NaN":                           {Idle: 100, Full: math.NaN()},
		"full: 0 is not 0.001 to":             {},
		"curve[0]: 7 is not 0 to 2 watts":     {Idle: 1, Full: 2, Curve: []float64{7}},
		"curve[0]: -3":                        {Idle: 1, Full: 2, Curve: []float64{-3}},
		"curve: 100 values are more than 99":  {Idle: 0, Full: 2, Curve: make([]float64, 100)},
		"sleep: 101 is not 0 to 100 watts":    {Idle: 100, Full: 200, Sleep: sleep(101)},
	} {
		if err := m.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", m, err, want)
		}
	}
}

func poweredNode(model string, milliCPU, requested int64, used ...int64) *Node {
	return &Node{
		GPUModel: model, GPUs: used,
		Allocatable: Resources{MilliCPU: milliCPU, GPU: int64(len(used))}, Requested: Resources{MilliCPU: requested},
	}
}

// The draws are computed by hand.
func TestWatts(t *testing.T) {
	counted := poweredNode("V100M32", 64_000, 0)
	counted.Allocatable.GPU, counted.Requested.GPU, counted.GPUs = 8, 3, nil
	for name, x := range map[string]struct {
		node *Node
		r    Resources
		on   DeviceSet
		want float64
	}{
		"an empty machine with two T4": {poweredNode("T4", 96_000, 0, 0, 0), Resources{}, 0, 2*20 + 2*10},
		"a pod on one core and one device": {poweredNode("T4", 96_000, 0, 0, 0), Resources{MilliCPU: 1, GPU: 1}, Device(1),
			165 + 20 + 70 + 10},
		"48 threads are a package": {poweredNode("T4", 96_000, 47_000, 0, 300), Resources{MilliCPU: 1000}, 0, 165 + 20 + 70 + 10},
		"the 49th starts the next": {poweredNode("T4", 96_000, 48_000, 0, 300), Resources{MilliCPU: 1, GPUMilli: 500},
			Device(1), 2*165 + 70 + 10},
		"P100":                                {poweredNode("P100", 64_000, 1000, 1000, 0), Resources{}, 0, 120 + 15 + 250 + 25},
		"G2 is an A10 beside a usual package": {poweredNode("G2", 96_000, 0, 0), Resources{}, 0, 3*15 + 30},
		"A10":                                 {poweredNode("A10", 32_000, 0, 1), Resources{}, 0, 15 + 150},
		"V100M16":                             {poweredNode("V100M16", 64_000, 33_000, 1000), Resources{}, 0, 2*185 + 300},
		"G3 is an A100":                       {poweredNode("G3", 128_000, 64_000, 1, 0), Resources{}, 0, 270 + 20 + 400 + 50},
		"A100":                                {poweredNode("A100", 64_000, 0, 0), Resources{}, 0, 20 + 50},
		"another model":                       {poweredNode("H100", 32_000, 1, 1, 0), Resources{}, 0, 120 + 250 + 25},
		"no GPUs":                             {poweredNode("", 32_000, 1), Resources{}, 0, 120},
		"a part of a package":                 {poweredNode("", 33_000, 0), Resources{}, 0, 2 * 15},
		"overcommitted":                       {poweredNode("", 32_000, 90_000), Resources{}, 0, 120},
		"devices that are only counted":       {counted, Resources{GPU: 1}, 0, 2*20 + 4*300 + 4*30},
	} {
		if got := WattsAfter(x.node, x.r, x.on); got != x.want {
			t.Errorf("%s: %v W, want %v", name, got, x.want)
		}
	}
	if n := poweredNode("T4", 96_000, 1, 1); Watts(n) != 165+20+70 {
		t.Errorf("%v W", Watts(n))
	}
}

// Without a model, a machine's power follows from its hardware threads, and a device's from whether a pod has it.
func TestDraw(t *testing.T) {
	n := &Node{Allocatable: Resources{MilliCPU: 10_000, GPU: 2, Pods: 10}, GPUModel: "T4", GPUs: []int64{0, 0}}
	for _, c := range []struct {
		name       string
		used, want float64
	}{{"idle", 0, 6.6 + 20}, {"half", 0.5, 19.8 + 20}} {
		if got := CPUDraw(n, c.used); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s draws %v W, want %v", c.name, got, c.want)
		}
	}
	n.Add(Resources{GPUMilli: 500})
	if got := CPUDraw(n, 0); math.Abs(got-(6.6+80)) > 1e-9 {
		t.Errorf("with a share of a device it draws %v W", got)
	}
	if got := FullPower(n); math.Abs(got-(33+140)) > 1e-9 {
		t.Errorf("it draws at most %v W", got)
	}
	n.Usage = &NodeUsage{Power: &PowerModel{Idle: 500, Full: 900}} // measured with the device
	if got := FullPower(n); math.Abs(got-(33+140)) > 1e-9 {
		t.Errorf("with measured watts it draws at most %v W, want the device counted once", got)
	}
	watts := 2.0
	n = &Node{Allocatable: n.Allocatable, Power: &PowerModel{Idle: 50, Full: 100, Sleep: &watts}}
	if got := CPUDraw(n, 0); got != 2 {
		t.Errorf("asleep it draws %v W", got)
	}
}
