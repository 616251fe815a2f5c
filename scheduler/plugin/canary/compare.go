package canary

import (
	"fmt"
	"time"

	"gonum.org/v1/gonum/mathext"
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
	// The windows have two halves, which are of the same time for both groups. A new half begins when the canary has
	// halfWindow pods, or attempts, in the current one.
	halfWindow = 500
	// chance limits the probability that a canary that is as good as it must be stops at one look. Each failure is a
	// look, and a canary runs for weeks, so it is small.
	chance        = 1e-6
	leastFailures = 5    // fewer never stop the canary
	leastRest     = 10   // the rest's failures are divided by so many pods at least
	leastTimes    = 200  // fewer attempts of the canary never stop it
	timesEach     = 20   // the times are compared after so many attempts of the canary
	slower        = 2    // an attempt is slow if it takes so many times the rest's 99th percentile,
	slowShare     = 0.01 // and so many attempts may be slow
)

// tally counts pods, and those whose placement failed. Scaled ones are no whole numbers.
type tally struct{ pods, failures float64 }

func (t tally) plus(o tally) tally { return tally{t.pods + o.pods, t.failures + o.failures} }

// atMost scales a tally down to a number of pods, unless it has fewer.
func (t tally) atMost(pods float64) tally {
	if t.pods <= pods {
		return t
	}
	return tally{pods, t.failures * pods / t.pods}
}

// comparison holds what is compared. In its arrays the canary has index 0, and the rest 1. The caller holds a lock.
type comparison struct {
	args               Args
	pods, podsBefore   [2]tally     // in this half of the window, and in the half before it
	times, timesBefore [2]durations // likewise
	looked             int          // attempts of the canary since the times were compared
}

func index(g Group) int {
	if g == Learned {
		return 0
	}
	return 1
}

// settled counts a result. It returns why the canary must stop; empty if it may go on.
func (c *comparison) settled(g Group, r Result) string {
	if c.pods[0].pods >= halfWindow {
		if lacks := halfWindow - c.pods[1].pods; lacks > 0 { // a few pods say little about the rest: its earlier ones fill in
			c.pods[1] = c.pods[1].plus(c.podsBefore[1].atMost(lacks))
		}
		c.podsBefore, c.pods = c.pods, [2]tally{}
	}
	t := &c.pods[index(g)]
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
	return c.tooMany(c.podsBefore[0].plus(c.pods[0]), c.podsBefore[1].plus(c.pods[1]))
}

// tooMany compares the failures. The canary must stop if so many failures would have at most the probability chance,
// were each of its pods to fail with the tolerated probability.
func (c *comparison) tooMany(canary, rest tally) string {
	if canary.failures < leastFailures {
		return ""
	}
	canary.pods = max(canary.pods, canary.failures) // lost pods may have been bound before this window
	limit := c.tolerated(rest)
	if tail(canary.pods, canary.failures, limit) > chance {
		return ""
	}
	return fmt.Sprintf("%.0f of the last %.0f pods of the canary failed, and %.0f of %.0f of the rest; up to %.2f %% are tolerated",
		canary.failures, canary.pods, rest.failures, rest.pods, 100*limit)
}

// tolerated returns the probability with which a pod of the canary may fail: the rest's share of failures, and beyond
// that what the arguments allow. The rest counts half a failure more, because a few pods without a failure do not show
// that none fails, and at least leastRest pods, so that a rest of one or two pods excuses nothing.
func (c *comparison) tolerated(rest tally) float64 {
	if c.args.Of == 1 { // there is no rest
		return c.args.Failures
	}
	return min((rest.failures+0.5)/(max(rest.pods, leastRest)+1)+c.args.Failures, 1)
}

// tail returns the probability that at least k of n independent events happen, each with probability p.
func tail(n, k, p float64) float64 {
	if k <= 0 || p >= 1 {
		return 1
	}
	return mathext.RegIncBeta(k, n-k+1, p)
}

// attempted counts the time of an attempt. It returns why the canary must stop; empty if it may go on.
func (c *comparison) attempted(g Group, took time.Duration) string {
	if c.times[0].n >= halfWindow {
		c.timesBefore, c.times = c.times, [2]durations{}
	}
	c.times[index(g)].add(took)
	if g == Rest {
		return ""
	}
	if c.looked++; c.looked < timesEach || c.timesBefore[0].n+c.times[0].n < leastTimes {
		return ""
	}
	c.looked = 0
	return c.tooSlow(c.timesBefore[0].plus(c.times[0]), c.timesBefore[1].plus(c.times[1]))
}

// tooSlow compares the times. The canary must stop if so many slow attempts would have at most the probability chance,
// were each of its attempts slow with the probability slowShare.
func (c *comparison) tooSlow(canary, rest durations) string {
	common := rest.quantile(1 - slowShare)
	limit := max(c.args.Latency.Duration, slower*common)
	slow := canary.above(limit)
	if tail(float64(canary.n), float64(slow), slowShare) > chance {
		return ""
	}
	return fmt.Sprintf("%d of the last %d attempts of the canary took more than %v; 99 of 100 of the rest took up to %v, and the limit is %v",
		slow, canary.n, limit.Round(time.Microsecond), common.Round(time.Microsecond), c.args.Latency.Duration)
}
