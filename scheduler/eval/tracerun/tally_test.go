package tracerun

import (
	"fmt"
	"testing"

	"gnnsched/workload/trace/openb"
)

// Each pod that requests GPUs counts in one of the three ways. A machine counts if pods of all of them run there.
func TestTally(t *testing.T) {
	var arrivals []openb.Pod
	at := map[string]place{}
	for i := range 60 {
		p := openb.Pod{Name: fmt.Sprint("pod-", i), MilliCPU: 1000, MemoryMiB: 1, GPUs: 1, GPUMilli: 1000}
		if i >= 50 {
			p.GPUs, p.GPUMilli = 0, 0
		}
		arrivals = append(arrivals, p)
		switch {
		case i == 0:
			at[p.Name] = place{node: "few"}
		case i%2 == 0:
			at[p.Name] = place{node: "many"}
		}
	}
	got := tallyOf(arrivals, at)
	pods, bound := 0, 0
	for _, k := range []kind{got.Claims, got.Extended, got.Annotations} {
		if k.Pods == 0 || k.Bound == 0 || k.Bound >= k.Pods {
			t.Errorf("%+v", *got)
		}
		pods += k.Pods
		bound += k.Bound
	}
	if pods != 50 || bound != 25 || got.Shared != 1 {
		t.Errorf("%d pods, %d bound: %+v", pods, bound, *got)
	}
}
