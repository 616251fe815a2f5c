package soak

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/pprof/profile"
)

// Memory is judged by the heap in use after a garbage collection that the soak asks for, by the heap profile and without upstream's events
// and histograms. The resident memory (RSS) and the metric of the live heap move with the load. After memoryWarmup without kills, the
// lower quartile of the last third may exceed the first third's by memoryTolerance.
//
// Upstream's event recorder keeps every event for six to twelve minutes, most of the heap, in proportion to the pods of these minutes. Its
// bytes are left out by the heap profile, except the pods' names and IDs in events, which the informers allocated: about a fifteenth of the
// events. They require a constant rate of pods, a warm-up as long as the recorder keeps an event, and thirds as long as its heap rises and
// falls. Upstream's histograms (native ones since Kubernetes 1.37) keep at most 160 buckets for each set of labels, and begin one at a
// value that none had before. So they grow with the number of pods, ever more slowly, for longer than a soak.
const (
	memoryTolerance = 0.05
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
	heap float64 // bytes in use after a garbage collection, without what upstream bounds
	held float64 // bytes that upstream bounds, about
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
	name        string  // of the member
	from, to    float64 // lower quartiles of live heap without what upstream bounds, in bytes
	held        float64 // lower quartile of what upstream bounds at the end, in bytes
	rss, rssEnd float64 // lower quartiles of resident memory in bytes
	window      time.Duration
}

// growth is the relative growth of the live heap.
func (v verdict) growth() float64 { return v.to/v.from - 1 }

func (v verdict) String() string {
	return fmt.Sprintf("%s (process %d): live heap %.1f to %.1f MB (%+.1f %%) and %.0f MB of events and histograms, "+
		"resident %.0f to %.0f MB, over %v",
		v.name, v.pid, v.from/1e6, v.to/1e6, 100*v.growth(), v.held/1e6, v.rss/1e6, v.rssEnd/1e6, v.window.Round(time.Second))
}

// verdicts compares the processes that lived from one time to another and kept their roles: a standby
// that takes over needs more memory, which is no growth.
func (m *memory) verdicts(from, to time.Time) (out []verdict) {
	m.mu.Lock()
	defer m.mu.Unlock()
	third := to.Sub(from) / 3
	for pid, all := range m.samples {
		var early, late []sample
		roles := map[string]bool{}
		for _, s := range all {
			if s.at.Before(from) || s.at.After(to) {
				continue
			}
			roles[s.role] = true
			switch {
			case s.at.Before(from.Add(third)):
				early = append(early, s)
			case s.at.After(to.Add(-third)):
				late = append(late, s)
			}
		}
		if len(early) == 0 || len(late) == 0 || len(roles) > 1 {
			continue
		}
		out = append(out, verdict{
			pid: pid, name: all[0].name, window: to.Sub(from),
			from: quartile(early, heapOf), to: quartile(late, heapOf), held: quartile(late, heldOf), rss: quartile(early, rssOf),
			rssEnd: quartile(late, rssOf),
		})
	}
	slices.SortFunc(out, func(a, b verdict) int { return a.pid - b.pid })
	return out
}

func heapOf(s sample) float64 { return s.heap }
func heldOf(s sample) float64 { return s.held }
func rssOf(s sample) float64  { return s.rss }

// profileRate is the mean number of bytes between two samples in the schedulers' heap profiles. Go's default,
// 512 KiB, would make what events hold uncertain by a tenth.
const profileRate = 16 << 10

// bounded are the beginnings of the names of functions that allocate what upstream bounds: events and the buckets of histograms.
var bounded = []string{"k8s.io/client-go/tools/events.", "github.com/prometheus/client_golang/prometheus.addToBucket"}

// inUse returns the bytes in use in a heap profile, and the part that upstream bounds.
func inUse(heap []byte) (all, held float64, err error) {
	p, err := profile.ParseData(heap)
	if err != nil {
		return 0, 0, fmt.Errorf("heap profile: %w", err)
	}
	column := slices.IndexFunc(p.SampleType, func(v *profile.ValueType) bool { return v.Type == "inuse_space" })
	if column < 0 {
		return 0, 0, errors.New("heap profile: it has no inuse_space")
	}
	for _, s := range p.Sample {
		bytes := float64(s.Value[column])
		all += bytes
		if slices.ContainsFunc(s.Location, isBounded) {
			held += bytes
		}
	}
	return all, held, nil
}

func isBounded(l *profile.Location) bool {
	return slices.ContainsFunc(l.Line, func(at profile.Line) bool {
		return at.Function != nil && slices.ContainsFunc(bounded, func(name string) bool { return strings.HasPrefix(at.Function.Name, name) })
	})
}

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
