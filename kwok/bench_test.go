package kwok

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"gnnsched/internal/fatal"
	"gnnsched/kwok/nodepool"
)

// BenchmarkStart measures the first start of a cluster: time and CPU time until every node is
// ready, and the memory then. It also measures the time of a stop. The figures in docs/how-to/simulate.md
// come from this command, with kwokcluster's own GOGC:
//
//	GOGC=300 go test ./kwok -run '^$' -bench Start -benchtime 1x
func BenchmarkStart(b *testing.B) {
	for _, nodes := range []int{10, 1000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			var ready, stopped, cpu time.Duration
			for range b.N {
				begin, used := time.Now(), cpuTime(b)
				cl, err := Start(context.Background(), Config{Dir: b.TempDir(), Pools: nodepool.Default(nodes)})
				fatal.If(b, err)
				ready, cpu = ready+time.Since(begin), cpu+cpuTime(b)-used
				b.ReportMetric(residentMiB(b), "MiB")
				begin = time.Now()
				fatal.If(b, cl.Stop(context.Background()))
				stopped += time.Since(begin)
			}
			n := float64(b.N)
			b.ReportMetric(ready.Seconds()/n, "s-to-ready")
			b.ReportMetric(cpu.Seconds()/n, "cpu-s-to-ready")
			b.ReportMetric(stopped.Seconds()/n, "s-to-stop")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// cpuTime returns the CPU time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	fatal.If(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// residentMiB returns the resident memory of this process.
func residentMiB(b *testing.B) float64 {
	text, err := os.ReadFile("/proc/self/status")
	fatal.If(b, err)
	_, rest, found := strings.Cut(string(text), "VmRSS:")
	var kib float64
	if _, err := fmt.Sscan(rest, &kib); !found || err != nil {
		b.Fatalf("no VmRSS in /proc/self/status: %v", err)
	}
	return kib / 1024
}
