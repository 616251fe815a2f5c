package canary

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Result says how the placement of a pod ended.
type Result string

// The results. All but Bound are failures.
const (
	Bound    Result = "bound"
	Fallback Result = "fallback"  // the decider failed, and the default scoring decided
	NotBound Result = "not_bound" // reserving or binding failed
	lost     Result = "lost"      // the kubelet refused or evicted the pod
)

const (
	windowPods    = 500 // the canary's failures are counted over its last windowPods to 2·windowPods pods
	leastFailures = 5   // fewer never stop the canary
	chance        = 1e-3
	windowTimes   = 1000 // p99 is that of a group's last windowTimes attempts
	leastTimes    = 200
	timesEach     = 20 // p99 is looked at after so many attempts
	slower        = 2  // the canary's p99 must be so many times the rest's
)

// tally counts pods, and those whose placement failed.
type tally struct{ pods, failures int }

func (t tally) plus(o tally) tally { return tally{t.pods + o.pods, t.failures + o.failures} }

// comparison holds what is compared. The caller holds a lock.
type comparison struct {
	args        Args
	now, before [2]tally // of the canary and of the rest, in this half of the window and in the one before it
	times       [2][]time.Duration
	next        [2]int // where the next time goes
	looked      int    // attempts of the canary since p99 was looked at
}

func index(g Group) int {
	if g == Learned {
		return 0
	}
	return 1
}

// settled counts a result. It returns why the canary must stop; empty if it may go on.
func (c *comparison) settled(g Group, r Result) string {
	if c.now[0].pods >= windowPods {
		c.before, c.now = c.now, [2]tally{}
	}
	t := &c.now[index(g)]
	if r != lost { // the pod was counted when it was bound
		t.pods++
	}
	if r == Bound {
		return ""
	}
	t.failures++
	if g == Rest {
		return ""
	}
	canary, rest := c.before[0].plus(c.now[0]), c.before[1].plus(c.now[1])
	return c.tooMany(canary, rest)
}

// tooMany compares the failures. The canary must stop if so many failures would have at most the probability chance,
// were its pods to fail as often as the rest's and, beyond that, as often as the limit allows.
func (c *comparison) tooMany(canary, rest tally) string {
	if canary.failures < leastFailures {
		return ""
	}
	canary.pods = max(canary.pods, canary.failures) // lost pods may have been bound before this window
	expected := 0.0
	if c.args.Of < 1 { // half a failure more, because a few pods tell little about the rest
		expected = (float64(rest.failures) + 0.5) / float64(rest.pods+1)
	}
	limit := min(expected+c.args.Failures, 1)
	if tail(canary.pods, canary.failures, limit) > chance {
		return ""
	}
	return fmt.Sprintf("%d of the canary's last %d pods failed, and %d of the rest's %d; up to %.2f %% are tolerated",
		canary.failures, canary.pods, rest.failures, rest.pods, 100*limit)
}

// tail returns the probability that at least k of n independent events happen, each with probability p.
func tail(n, k int, p float64) float64 {
	if k <= 0 || p >= 1 {
		return 1
	}
	lg := func(x int) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
	sum := 0.0
	for i := k; i <= n; i++ {
		sum += math.Exp(lg(n) - lg(i) - lg(n-i) + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return min(sum, 1)
}

// attempted counts the time of an attempt. It returns why the canary must stop; empty if it may go on.
func (c *comparison) attempted(g Group, took time.Duration) string {
	i := index(g)
	if len(c.times[i]) < windowTimes {
		c.times[i] = append(c.times[i], took)
	} else {
		c.times[i][c.next[i]] = took
		c.next[i] = (c.next[i] + 1) % windowTimes
	}
	if g == Rest {
		return ""
	}
	if c.looked++; c.looked < timesEach || len(c.times[0]) < leastTimes {
		return ""
	}
	c.looked = 0
	canary, rest := p99(c.times[0]), p99(c.times[1])
	if canary <= c.args.Latency.Duration || canary <= slower*rest {
		return ""
	}
	return fmt.Sprintf("99 of 100 attempts for the canary's pods took up to %v, and %v for the rest's; the limit is %v",
		canary.Round(time.Microsecond), rest.Round(time.Microsecond), c.args.Latency.Duration)
}

// p99 returns the time within which 99 of 100 attempts ended; 0 without attempts.
func p99(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[(len(sorted)*99+99)/100-1]
}
