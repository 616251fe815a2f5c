package soak

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Memory is judged by live heap, the bytes in use after a garbage collection that the soak asks for. The
// resident memory (RSS) also depends on when the collector ran by itself and when it gave pages back, which
// moves it by far more than the tolerance. After memoryWarmup without kills, the lower quartile of the last
// third may exceed that of the first third by memoryTolerance. It is not the median, because what is allocated
// during a collection counts as live, and on a busy machine a collection takes long.
//
// Upstream's event recorder keeps every event for six to twelve minutes and drops the old ones every six
// minutes. With steadily many pods, memory therefore grows for twelve minutes and then rises and
// falls, so that warm-up is that long and each of the compared thirds as long as one rise.
const (
	memoryTolerance = 0.05
	eventsKept      = 6 * time.Minute // finishTime of client-go's events.eventBroadcasterImpl
	memoryWarmup    = 2 * eventsKept
	memoryWindow    = 3 * eventsKept // the shortest after warm-up that is judged
)

// judgedFrom is the shortest run whose memory is judged.
const judgedFrom = time.Duration(float64(memoryWarmup+memoryWindow) / (1 - failingShare))

// sample is the memory of one scheduler at one time.
type sample struct {
	pid  int
	at   time.Time
	heap float64 // bytes that a garbage collection found in use
	rss  float64 // bytes
}

// memory collects samples of all schedulers.
type memory struct {
	mu      sync.Mutex
	samples map[int][]sample // by process
}

func (m *memory) add(s sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.samples == nil {
		m.samples = map[int][]sample{}
	}
	m.samples[s.pid] = append(m.samples[s.pid], s)
}

// verdict is the comparison for one process.
type verdict struct {
	pid         int
	from, to    float64 // lower quartiles of live heap in bytes
	rss, rssEnd float64 // lower quartiles of resident memory in bytes
	window      time.Duration
}

// growth is the share by which the live heap grew.
func (v verdict) growth() float64 { return v.to/v.from - 1 }

func (v verdict) String() string {
	return fmt.Sprintf("process %d: live heap %.1f to %.1f MB (%+.1f %%), resident %.0f to %.0f MB, over %v",
		v.pid, v.from/1e6, v.to/1e6, 100*v.growth(), v.rss/1e6, v.rssEnd/1e6, v.window.Round(time.Second))
}

// verdicts compares the processes that lived from one time to another.
func (m *memory) verdicts(from, to time.Time) (out []verdict) {
	m.mu.Lock()
	defer m.mu.Unlock()
	third := to.Sub(from) / 3
	for pid, all := range m.samples {
		var early, late []sample
		for _, s := range all {
			switch {
			case s.at.Before(from) || s.at.After(to):
			case s.at.Before(from.Add(third)):
				early = append(early, s)
			case s.at.After(to.Add(-third)):
				late = append(late, s)
			}
		}
		if len(early) == 0 || len(late) == 0 {
			continue // it did not live all the time
		}
		out = append(out, verdict{
			pid: pid, window: to.Sub(from),
			from: quartile(early, heapOf), to: quartile(late, heapOf), rss: quartile(early, rssOf), rssEnd: quartile(late, rssOf),
		})
	}
	slices.SortFunc(out, func(a, b verdict) int { return a.pid - b.pid })
	return out
}

func heapOf(s sample) float64 { return s.heap }
func rssOf(s sample) float64  { return s.rss }

// quartile returns the lower quartile.
func quartile(samples []sample, of func(sample) float64) float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/4]
}

// residentBytes returns the resident memory of a process, or 0 if it cannot be read.
func residentBytes(pid int) float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, is := strings.CutPrefix(line, "VmRSS:"); is {
			kb, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return 1024 * kb
		}
	}
	return 0
}

// liveHeapMetric is the metric of Go's runtime that /metrics has.
const liveHeapMetric = "go_gc_heap_live_bytes"

// metric returns the value of a metric without labels in Prometheus' text format.
func metric(text, name string) (float64, bool) {
	for line := range strings.Lines(text) {
		if rest, is := strings.CutPrefix(line, name+" "); is {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			return v, err == nil
		}
	}
	return 0, false
}
