package cluster

import (
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
