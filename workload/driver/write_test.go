package driver

import (
	"strings"
	"testing"
	"time"

	"gnnsched/workload"
)

func TestProgressString(t *testing.T) {
	p := Progress{
		Phase: Settling, Fill: 1, Fills: 2, Pods: 210, Bound: 120, Load: workload.Load{CPU: 0.124, Memory: 0.08, Pods: 0.11},
		Left: 8200 * time.Millisecond,
	}
	if got, want := p.String(), "fill 1/2: 120/210 bound, cpu 12% mem 8% pods 11%, waiting for 90 pods to be bound, 8s to go"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.Left = -1
	if got := p.String(); strings.Contains(got, "to go") {
		t.Errorf("got %q with no estimate", got)
	}
	p.Phase, p.deleting = Resetting, 17
	if got, want := p.String(), "fill 1/2: deleting, 17 objects left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestGPULine(t *testing.T) {
	got := gpuLine(GPUSummary{
		Capacity: 10_000, Asked: 13_000, Allocated: 9_500, AllocatedAtFull: 9_000, UnscheduledCPU: 1, UnscheduledShare: 2, UnscheduledWhole: 3,
	})
	want := "95.00% of 10 allocated, 130.0% asked for (90.00% of what came until 100% were); without a node: 1 pods without GPU, " +
		"2 with a share of one, 3 with whole ones"
	if got != want {
		t.Errorf("got %q", got)
	}
}

func TestFrequentReasons(t *testing.T) {
	var all []Reason
	for i := range 13 {
		all = append(all, Reason{Pods: 20 - i, Message: string(rune('a' + i))})
	}
	if shown, more := frequent(all); len(shown) != 10 || more.Pods != 10+9+8 || more.Message != "3 other reasons; -o json has them" {
		t.Errorf("%d shown, more %+v", len(shown), more)
	}
	if shown, more := frequent(all[:10]); len(shown) != 10 || more.Pods != 0 {
		t.Errorf("%d shown, more %+v", len(shown), more)
	}
}
