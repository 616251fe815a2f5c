package plugin

import (
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"k8s.io/client-go/kubernetes/fake"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/decision"
)

// costModes are ways to record; the first one is not to.
var costModes = []string{"off", "ring", "lines"}

// journalOf opens the file of a mode; nil if it has none.
func journalOf(b *testing.B, mode string) *decision.Journal {
	if mode != "lines" {
		return nil
	}
	j, err := decision.OpenJournal(filepath.Join(b.TempDir(), "d.jsonl"), func(err error, _ uint64) { b.Error(err) })
	fatal.If(b, err)
	b.Cleanup(func() {
		if err := j.Close(); err != nil {
			b.Error(err)
		}
	})
	return j
}

// attempts returns a function that makes the attempt of a number: the filters, the choice, and the end of binding.
func attempts(b *testing.B, nodes int, mode string) func(i int) {
	profile := fmt.Sprint("cost-", nodes, mode)
	book := decision.NewBook(decision.DefaultBookSize, journalOf(b, mode))
	var listeners []decision.Listener
	if mode != costModes[0] {
		listeners = append(listeners, book)
	}
	bed := newBedWith(b, fake.NewClientset(), profile, Args{Checkpoint: untrained(b, 1, nil), Deadline: duration(time.Hour)}, listeners...)
	if mode != costModes[0] {
		bed.recorder.asks.share = 0.01
		WatchFailures(bed.sched, book.Decided)
	}
	bed.alike(b, profile, nodes)
	return func(i int) {
		bound, state, err := bed.attempt(b, profile, benchPod(i, i, ""))
		fatal.If(b, err)
		bed.sched.Profiles[profile].RunPostBindPlugins(bed.ctx, state, bound, bound.Spec.NodeName)
		fatal.If(b, bed.sched.Cache.ForgetPod(bed.log, bound))
	}
}

// BenchmarkRecording compares the CPU time of scheduling attempts, from the filters to the end of binding without the API
// server, with and without recording, in turns in one run. It reports how much more an attempt takes with each way to record, garbage
// collection and writing to the file included, with its standard error, and the time of an attempt without. A real attempt also talks to
// the API server, so recording's share of it is smaller.
func BenchmarkRecording(b *testing.B) {
	for _, nodes := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(nodes, " nodes"), func(b *testing.B) {
			var attempt []func(int)
			for _, mode := range costModes {
				attempt = append(attempt, attempts(b, nodes, mode))
			}
			const block = 64
			micros := make([][]float64, len(costModes)) // of an attempt, by mode and round
			for n := 0; n < max(b.N, 32*block); n += block {
				for k := range costModes {
					mode := (n/block + k) % len(costModes)
					before := cpuTime()
					for i := range block {
						attempt[mode](n + i)
					}
					micros[mode] = append(micros[mode], 1e6*(cpuTime()-before).Seconds()/block)
				}
			}
			for mode, name := range costModes[1:] {
				more := slices.Clone(micros[mode+1])
				floats.Sub(more, micros[0])
				mean, deviation := stat.MeanStdDev(more, nil)
				b.ReportMetric(mean, name+"-µs-more")
				b.ReportMetric(stat.StdErr(deviation, float64(len(more))), name+"-µs-error")
			}
			b.ReportMetric(stat.Mean(micros[0], nil), "µs/attempt")
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
