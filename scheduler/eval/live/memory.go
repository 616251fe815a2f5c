package live

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gnnsched/internal/exit"
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

// sample is the heap of one scheduler at one time, in bytes.
type sample struct {
	at   time.Time
	heap float64
}

// sampleMemory samples the schedulers' memory while they are not killed.
func (s *soak) sampleMemory(ctx context.Context) {
	for ; ctx.Err() == nil; pause(ctx, 2*time.Second) {
		if s.part.Load() != noKills {
			continue
		}
		for _, p := range s.schedulers {
			pid, heap := p.pid(), 0.0
			text, err := p.read(ctx, "/debug/pprof/heap", "gc", "debug")
			_, figure, _ := strings.Cut(text, "# HeapAlloc = ")
			if _, none := fmt.Sscan(figure, &heap); err == nil && none == nil && pid == p.pid() {
				process := fmt.Sprintf("%s (process %d)", p.name, pid)
				s.heaps[process] = append(s.heaps[process], sample{time.Now(), heap})
			}
		}
	}
}

// thirds returns the lower quartiles of the first and the last third of the time; false if the process did not live through all of it.
func thirds(all []sample, from, to time.Time) (first, last float64, ok bool) {
	third := to.Sub(from) / 3
	var early, late []float64
	for _, x := range all {
		switch {
		case x.at.Before(from) || x.at.After(to):
		case x.at.Before(from.Add(third)):
			early = append(early, x.heap)
		case x.at.After(to.Add(-third)):
			late = append(late, x.heap)
		}
	}
	if len(early) == 0 || len(late) == 0 {
		return 0, 0, false
	}
	slices.Sort(early)
	slices.Sort(late)
	return early[len(early)/4], late[len(late)/4], true
}

// judgeMemory prints how the schedulers' memory developed and, if the run was long enough, reports growth.
func (s *soak) judgeMemory() {
	if s.calm.IsZero() || s.stopped.IsZero() {
		s.print("memory: not judged, because the run ended before")
		return
	}
	judged, lived := s.config.For >= judgedFrom, false
	from := s.calm.Add(memoryWarmup)
	if !judged { // print what there is
		from = s.calm.Add(s.stopped.Sub(s.calm) / 3)
	}
	for _, process := range slices.Sorted(maps.Keys(s.heaps)) {
		first, last, ok := thirds(s.heaps[process], from, s.stopped)
		if !ok {
			continue
		}
		lived = true
		line := fmt.Sprintf("%s: heap %.1f to %.1f MB (%+.1f %%), over %v",
			process, first/1e6, last/1e6, 100*(last/first-1), s.stopped.Sub(from).Round(time.Second))
		s.print("memory: %s", line)
		if judged && last/first-1 > memoryTolerance {
			s.book.add(about(memoryGrew, "by more than %.0f %%: %s", 100*memoryTolerance, line))
		}
	}
	switch {
	case !judged:
		s.print("memory: not judged in a run of less than %v", judgedFrom)
	case !lived:
		s.print("memory: not judged, because no scheduler lived through the part without kills")
	}
}

func (s *soak) print(format string, a ...any) { fmt.Fprintf(s.config.Out, format+"\n", a...) }
func (s *soak) say(format string, a ...any)   { s.print("soak: "+format, a...) }

func clock(d time.Duration) string {
	seconds := int(d.Seconds())
	return fmt.Sprintf("%d:%02d", seconds/60, seconds%60)
}

// showProgress prints a line now and then, and the violations since the line before.
func (s *soak) showProgress(ctx context.Context) {
	every := min(max(s.config.For/30, 5*time.Second), time.Minute)
	shown := 0
	for {
		if pause(ctx, every); ctx.Err() != nil {
			return
		}
		c := s.book.census()
		s.say("%s  %-16s %7d created  %7d bound  %5d exist  %4d wait  %4d kills  %d violations",
			clock(time.Since(s.started)), s.part.Load(), c.created, c.bound, c.live, c.waiting, s.kills(), len(c.violations))
		for _, v := range c.violations[shown:] {
			s.say("%v", v)
		}
		shown = len(c.violations)
	}
}

// writeCount prints the count: the pods, the faults, the memory, the number of violations of each kind, and each violation with its pods.
func (s *soak) writeCount() {
	t := s.book.census()
	line := fmt.Sprintf("\n%d pods created, %d bound, %d deleted by the soak", t.created, t.bound, t.deleted)
	for _, reason := range slices.Sorted(maps.Keys(t.evicted)) {
		line += fmt.Sprintf(", %d evicted (%s)", t.evicted[reason], reason)
	}
	s.print("%s; %d were unschedulable at some time", line, t.unschedulable)
	s.print("%d claims allocated", t.allocated)
	if t.forgotten > 0 {
		s.print("%d pods whose status lacks one of their claims: the controller manager's fault, kubernetes#138407", t.forgotten)
	}
	if len(t.collisions) > 0 {
		line = "two schedulers placed pods at the same time, which the API server does not prevent:"
		for _, kind := range slices.Sorted(maps.Keys(t.collisions)) {
			line += fmt.Sprintf(" %s %d times", kind, t.collisions[kind])
		}
		s.print("%s", line)
	}
	s.print("%d states of pods read from etcd in %s", t.states, clock(time.Since(s.started)))
	for _, f := range s.faults {
		if f.count.Load() == 0 {
			continue
		}
		line = fmt.Sprintf("%-22s %5d times", f.name, f.count.Load())
		if slices.Sort(f.after); len(f.after) > 0 {
			line += fmt.Sprintf(", pods are bound again after %.1f s (median), %.1f s at most",
				f.after[len(f.after)/2].Seconds(), f.after[len(f.after)-1].Seconds())
		}
		s.print("%s", line)
	}
	for _, line := range s.lines {
		s.print("%s", line)
	}
	s.judgeMemory()
	all := s.book.census().violations
	count := map[string]int{}
	for _, v := range all {
		count[v.kind]++
	}
	for _, kind := range violationKinds {
		s.print("%-18s %d", kind, count[kind])
	}
	for _, v := range all {
		s.print("%v", v)
	}
}

// verdict returns an error if there are violations.
func (s *soak) verdict() error {
	all := s.book.census().violations
	if len(all) == 0 {
		return nil
	}
	return exit.New(exit.Gate, fmt.Errorf("%d violations with seed %d", len(all), s.config.Seed),
		"the pods are listed above; the logs are in the folder that is named last")
}
