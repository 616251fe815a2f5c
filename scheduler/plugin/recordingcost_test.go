package plugin

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/decision/record"
	"gnnsched/scheduler/plugin/refusals"
)

// BenchmarkRecording compares the CPU time of scheduling attempts, from the filters to the end of binding without the
// API server, with and without recording, in turns in one run. It reports the median ratio. A real attempt also talks
// to the API server, so recording's share of it is smaller.
func BenchmarkRecording(b *testing.B) {
	for _, nodes := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(nodes, " nodes"), func(b *testing.B) {
			attempt := map[bool]func(int){}
			for _, recorded := range []bool{false, true} {
				profile := fmt.Sprint("cost-", nodes, recorded)
				book := record.NewBook(record.DefaultSize, nil)
				var listeners []decision.Listener
				if recorded {
					listeners = append(listeners, book)
				}
				bed := newBedWith(b, fake.NewClientset(), profile, Args{Checkpoint: untrained(b, 1, nil), Deadline: duration(time.Hour)}, listeners...)
				if recorded {
					bed.recorder.asks.share = 0.01
					refusals.Watch(bed.sched, book.Decided)
				}
				bed.alike(b, profile, nodes)
				attempt[recorded] = func(i int) {
					bound, state, err := bed.attempt(b, profile, benchPod(i, i, ""))
					if err != nil {
						b.Fatal(err)
					}
					bed.sched.Profiles[profile].RunPostBindPlugins(bed.ctx, state, bound, bound.Spec.NodeName)
					if err := bed.sched.Cache.ForgetPod(bed.log, bound); err != nil {
						b.Fatal(err)
					}
				}
			}
			const block = 50
			var ratios []float64
			for n := 0; n < max(b.N, 20*block); n += block {
				var spent [2]time.Duration
				for k := range 2 {
					recorded := (n/block+k)%2 == 1
					before := cpuTime()
					for i := range block {
						attempt[recorded](n + i)
					}
					if recorded {
						spent[1] = cpuTime() - before
					} else {
						spent[0] = cpuTime() - before
					}
				}
				ratios = append(ratios, float64(spent[1])/float64(spent[0]))
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "cpu-ratio")
		})
	}
}

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
