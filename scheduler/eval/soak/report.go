package soak

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"gnnsched/internal/exit"
)

func (s *soak) say(format string, a ...any) { fmt.Fprintf(s.config.Out, "soak: "+format+"\n", a...) }

// sampleMemory samples the schedulers' memory while they are not killed.
func (s *soak) sampleMemory(ctx context.Context) {
	for ctx.Err() == nil {
		if part(s.part.Load()) == noKills {
			for i := range s.fleet.schedulers {
				if x, ok := s.fleet.sample(ctx, i); ok {
					s.memory.add(x)
				}
			}
		}
		pause(ctx, 2*time.Second)
	}
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
			clock(time.Since(s.started)), part(s.part.Load()),
			c.totals.created, c.totals.bound, c.live, c.waiting, s.recoveries.kills(), c.violations)
		all := s.book.all()
		for _, v := range all[shown:] {
			s.say("%v", v)
		}
		shown = len(all)
	}
}

// writeCount prints the count.
func (s *soak) writeCount() {
	c := s.book.census()
	t := c.totals
	out := s.config.Out
	fmt.Fprintf(out, "\n%d pods created, %d bound, %d deleted by the soak", t.created, t.bound, t.deleted)
	for _, reason := range slices.Sorted(maps.Keys(t.evicted)) {
		fmt.Fprintf(out, ", %d evicted (%s)", t.evicted[reason], reason)
	}
	fmt.Fprintf(out, "; %d were unschedulable at some time\n", t.unschedulable)
	fmt.Fprintf(out, "%d claims allocated\n", t.allocated)
	if t.forgotten > 0 {
		fmt.Fprintf(out, "%d pods whose status lacks one of their claims: the controller manager's fault, kubernetes#138407\n", t.forgotten)
	}
	if len(t.collisions) > 0 {
		fmt.Fprintf(out, "two schedulers placed pods at the same time, which the API server does not prevent:")
		for _, kind := range slices.Sorted(maps.Keys(t.collisions)) {
			fmt.Fprintf(out, " %s %d times", kind, t.collisions[kind])
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "%d states of pods read from etcd in %s\n", t.states, clock(time.Since(s.started)))
	for _, line := range s.recoveries.lines() {
		fmt.Fprintln(out, line)
	}
	for _, line := range append(s.sharePods, s.shadowed) {
		if line != "" {
			fmt.Fprintln(out, line)
		}
	}
	s.judgeMemory()
	s.writeViolations()
}

// judgeMemory prints how the schedulers' memory developed and, if the run was long enough, reports growth.
func (s *soak) judgeMemory() {
	out := s.config.Out
	if s.calm.IsZero() || s.stopped.IsZero() {
		fmt.Fprintln(out, "memory: not judged, because the run ended before")
		return
	}
	judged := s.config.For >= judgedFrom
	from := s.calm.Add(memoryWarmup)
	if !judged { // print what there is
		from = s.calm.Add(s.stopped.Sub(s.calm) / 3)
	}
	verdicts := s.memory.verdicts(from, s.stopped)
	for _, v := range verdicts {
		fmt.Fprintf(out, "memory: %v\n", v)
		if judged && v.growth() > memoryTolerance {
			s.book.add(violation{kind: memoryGrew, detail: fmt.Sprintf("by %.1f %%, more than %.0f %%: %v", 100*v.growth(), 100*memoryTolerance, v)})
		}
	}
	switch {
	case !judged:
		fmt.Fprintf(out, "memory: not judged in a run of less than %v\n", judgedFrom)
	case len(verdicts) == 0:
		fmt.Fprintln(out, "memory: not judged, because no scheduler lived through the part without kills and kept its role")
	}
}

// writeViolations prints the number of violations of each kind, and each violation with its pods.
func (s *soak) writeViolations() {
	out := s.config.Out
	all := s.book.all()
	count := map[string]int{}
	for _, v := range all {
		count[v.kind]++
	}
	for _, kind := range violationKinds {
		fmt.Fprintf(out, "%-18s %d\n", kind, count[kind])
	}
	for _, v := range all {
		fmt.Fprintln(out, v)
	}
}

// verdict returns an error if there are violations.
func (s *soak) verdict() error {
	n := len(s.book.all())
	if n == 0 {
		return nil
	}
	return exit.New(exit.Gate, fmt.Errorf("%d violations with seed %d", n, s.config.Seed),
		"the pods are listed above; the logs are in the folder that is named last")
}
