package soak

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Memory is judged by the heap after a garbage collection that the soak asks for. After memoryWarmup without kills, the lower quartile of
// the last third may exceed the first third's by memoryTolerance.
//
// Upstream's event recorder keeps every event for six to twelve minutes, most of the heap, in proportion to the pods of these minutes, and
// its histograms still grow a little. So the warm-up is as long as the recorder keeps an event, the thirds are as long as its heap rises
// and falls, and the tolerance is wide: a leak of a kilobyte a pod exceeds it.
const (
	memoryTolerance = 0.5
	eventsKept      = 6 * time.Minute // finishTime of client-go's events.eventBroadcasterImpl
	memoryWarmup    = 2 * eventsKept
	memoryWindow    = 3 * eventsKept // the shortest after warm-up that is judged
)

// judgedFrom is the shortest run whose memory is judged.
const judgedFrom = memoryWarmup + memoryWindow + 2*time.Minute

// sample is the memory of one scheduler at one time.
type sample struct {
	pid  int
	name string // of the member
	at   time.Time
	role string  // the metrics of its leases
	heap float64 // bytes after a garbage collection
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
	pid      int
	name     string  // of the member
	from, to float64 // lower quartiles of the heap in bytes
	window   time.Duration
}

// growth is the relative growth of the heap.
func (v verdict) growth() float64 { return v.to/v.from - 1 }

func (v verdict) String() string {
	return fmt.Sprintf("%s (process %d): heap %.1f to %.1f MB (%+.1f %%), over %v",
		v.name, v.pid, v.from/1e6, v.to/1e6, 100*v.growth(), v.window.Round(time.Second))
}

// verdicts compares the processes that lived from one time to another and kept their roles: a standby
// that takes over needs more memory, which is no growth.
func (m *memory) verdicts(from, to time.Time) (out []verdict) {
	m.mu.Lock()
	defer m.mu.Unlock()
	third := to.Sub(from) / 3
	for pid, all := range m.samples {
		var early, late []float64
		roles := map[string]bool{}
		for _, s := range all {
			if s.at.Before(from) || s.at.After(to) {
				continue
			}
			roles[s.role] = true
			switch {
			case s.at.Before(from.Add(third)):
				early = append(early, s.heap)
			case s.at.After(to.Add(-third)):
				late = append(late, s.heap)
			}
		}
		if len(early) == 0 || len(late) == 0 || len(roles) > 1 {
			continue
		}
		out = append(out, verdict{pid: pid, name: all[0].name, window: to.Sub(from), from: quartile(early), to: quartile(late)})
	}
	slices.SortFunc(out, func(a, b verdict) int { return a.pid - b.pid })
	return out
}

// quartile returns the lower quartile. It sorts the values.
func quartile(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/4]
}

// heapMetric is the beginning of the metric with the bytes of the heap.
const heapMetric = "go_memstats_heap_alloc_bytes "

// heapOf returns the bytes of the heap by the metrics of a process; 0 if they lack it.
func heapOf(text string) (bytes float64) {
	for line := range strings.Lines(text) {
		if value, is := strings.CutPrefix(line, heapMetric); is {
			bytes, _ = strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return bytes
}

// leaseMetric is the prefix of the metrics with the leases that a process holds.
const leaseMetric = "leader_election_master_status{"

// roleOf returns the metrics of the leases of a process.
func roleOf(text string) (role string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, leaseMetric) {
			role += line
		}
	}
	return role
}
