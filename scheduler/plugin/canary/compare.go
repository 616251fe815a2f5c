package canary

import (
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"gnnsched/internal/table"

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
	// chance limits the expected number of false stops for each pod of a canary that is as good as it must be: a look
	// stops it with at most this probability. A look makes a comparison for each span, and they share it.
	chance        = 1e-6
	leastFailures = 5    // fewer never stop the canary, without those of the owner that has the most
	alone         = 50   // pods after which the only owner of the canary counts as the canary
	leastTimes    = 200  // a span with fewer attempts of the canary never stops it
	looksOf       = 100  // the failures are compared again when one in so many is new
	timesEach     = 20   // the times are compared after so many attempts of the canary
	slower        = 2    // an attempt is slow if it takes so many times the rest's 99th percentile,
	slowShare     = 0.01 // and so many attempts may be slow
)

// The levels of marks in comparison.settling.
const (
	levelFailed = iota
	levelFallback
)

// comparison holds what is compared. The caller holds a lock.
type comparison struct {
	args     Args
	settling history // pods; their marks are failures
	trying   history // attempts; their marks are the buckets of times of at least half of args.Latency
	looked   int     // attempts of the canary since the times were compared
	failures int     // of the canary in the longest span, when the failures were compared
	unseen   int     // failures of the canary since then
}

func index(g Group) int {
	if g == Learned {
		return 0
	}
	return 1
}

// settled counts a result. It returns why the canary must stop; empty if it may go on.
func (c *comparison) settled(g Group, owner uint64, r Result) (why string) {
	if r != lost { // the pod was counted when it was bound
		c.settling.pod(index(g), owner)
	}
	if r == Bound {
		return ""
	}
	m := mark{owner: owner, level: levelFailed}
	if r == Fallback {
		m.level = levelFallback
	}
	c.settling.newest()[index(g)].mark(m, 1)
	if g == Rest {
		return ""
	}
	if c.unseen++; c.unseen*looksOf < c.failures { // a look at many failures takes long, and one more changes little
		return ""
	}
	c.unseen = 0
	c.settling.spans(func(s *span) bool {
		c.failures = int(s.sample(0, failed).hits)
		if why = c.tooManyFallbacks(s); why == "" {
			why = c.tooMany(s)
		}
		return why == ""
	})
	return why
}

func failed(int) bool         { return true }
func fellBack(level int) bool { return level == levelFallback }

// rare reports whether a probability is too small to be chance, in one of the comparisons of a look: two for each span.
func rare(probability float64) bool { return probability <= chance/(2*mostSpans) }

// rareAgainst reports whether so many hits of the canary are rare, as exceeds says.
func rareAgainst(canary, rest sample, allowed func(p float64) float64) bool {
	// The confidence distribution has at least half of its mass above the rest's own share, so this is a lower limit of
	// what exceeds returns after much more work.
	if rest.n > 0 && !rare(tail(canary.n, canary.hits, allowed(rest.hits/rest.n))/2) {
		return false
	}
	return rare(exceeds(canary, rest, allowed))
}

// tooManyFallbacks compares the pods for which the decider failed with what the arguments allow. The rest has no decider
// that could fail, so it says nothing about them.
func (c *comparison) tooManyFallbacks(s *span) string {
	canary := s.withoutWorst(0, fellBack)
	if canary.hits < leastFailures || !rare(tail(canary.n, canary.hits, c.args.Failures)) {
		return ""
	}
	all := s.sample(0, fellBack)
	return fmt.Sprintf("%.0f of the last %.0f pods of the canary failed because it gave no scores; up to %.2f %% are tolerated",
		all.hits, all.n, 100*c.args.Failures)
}

// tooMany compares the failures. The owner with the most failures is left out of each group, so that no owner stops the
// canary, or excuses it, by itself.
func (c *comparison) tooMany(s *span) string {
	canary := s.withoutWorst(0, failed)
	if canary.hits < leastFailures || !rare(tail(canary.n, canary.hits, c.args.Failures)) {
		return "" // not even a rest without failures could stop it
	}
	rest, all := sample{}, s.sample(0, failed)
	if c.args.Of < 1 {
		rest = s.withoutWorst(1, failed)
		if !rareAgainst(canary, rest, func(p float64) float64 { return min(p+c.args.Failures, 1) }) {
			return ""
		}
	}
	of := s.sample(1, failed)
	return fmt.Sprintf("%.0f of the last %.0f pods of the canary failed, and %.0f of %.0f of the rest; up to %.2f %% more than of the rest "+
		"are tolerated",
		all.hits, all.n, of.hits, of.n, 100*c.args.Failures)
}

// attempted counts the time of an attempt. It returns why the canary must stop; empty if it may go on.
func (c *comparison) attempted(g Group, owner uint64, took time.Duration) (why string) {
	c.trying.pod(index(g), owner)
	if b := bucketOf(took); b >= bucketOf(c.args.Latency.Duration/slower) {
		c.trying.newest()[index(g)].mark(mark{owner: owner, level: b}, 1)
	}
	if g == Rest {
		return ""
	}
	if c.looked++; c.looked < timesEach {
		return ""
	}
	c.looked = 0
	c.trying.spans(func(s *span) bool {
		if s.pods[0] >= leastTimes {
			why = c.tooSlow(s)
		}
		return why == ""
	})
	return why
}

// tooSlow compares the share of slow attempts with the rest's share of attempts that take more than half as long, or
// slowShare if that is more.
func (c *comparison) tooSlow(s *span) string {
	common := s.quantile(1, 1-slowShare)
	limit := max(bucketOf(c.args.Latency.Duration), common+slowerBuckets)
	slow := func(level int) bool { return level > limit }
	canary := s.withoutWorst(0, slow)
	if !rare(tail(canary.n, canary.hits, slowShare)) {
		return ""
	}
	if c.args.Of < 1 {
		rest := s.sample(1, func(level int) bool { return level > limit-slowerBuckets })
		if !rareAgainst(canary, rest, func(p float64) float64 { return max(p, slowShare) }) {
			return ""
		}
	}
	all := s.sample(0, slow)
	return fmt.Sprintf("%.0f of the last %.0f attempts of the canary took more than %v; 99 of 100 of the rest took up to %v, and the limit "+
		"is %v",
		all.hits, all.n, timeOf(limit), timeOf(limit-slowerBuckets), c.args.Latency.Duration)
}

// bucketGrowth is the ratio of the bounds of a bucket of times. Bucket i has the times from bucketGrowth^i to
// bucketGrowth^(i+1) nanoseconds.
const bucketGrowth = 1.02

// slowerBuckets is how many buckets a time of slower times as long is further up.
var slowerBuckets = int(math.Log(slower) / math.Log(bucketGrowth))

func bucketOf(d time.Duration) int {
	return int(math.Log(float64(max(d, 1))) / math.Log(bucketGrowth))
}

// timeOf returns the upper bound of a bucket.
func timeOf(bucket int) time.Duration {
	return time.Duration(math.Pow(bucketGrowth, float64(bucket+1))).Round(time.Microsecond)
}

// quantile returns the lowest bucket of times within which a share of a group's attempts ended; 0 if that has no
// mark, and without attempts.
func (s *span) quantile(group int, share float64) (bucket int) {
	beyond := s.pods[group] - int(math.Ceil(share*float64(s.pods[group]))) // so many may take longer
	by, highest := map[int]int{}, 0
	for m, n := range s.marks[group] {
		by[m.level] += n
		highest = max(highest, m.level)
	}
	for level := highest; level > 0; level-- {
		if beyond -= by[level]; beyond < 0 {
			return level
		}
	}
	return 0
}

const (
	// A rest without any pod says nothing, as in an outage that it would show too if it had pods. Beside lonely pods of the
	// canary there is no rest to wait for: it is presumed to fail in presumed of its pods.
	presumed = 0.5
	lonely   = 1000
)

// tail returns the probability that at least k of n independent events happen, each with probability p.
func tail(n, k, p float64) float64 {
	if k <= 0 || p >= 1 {
		return 1
	}
	return mathext.RegIncBeta(k, n-k+1, p)
}

// exceeds returns how likely it is by chance alone that the canary has so many hits or more, if each of its pods is one
// with the probability allowed(p), where p is the rest's. What the rest's sample says about p is its confidence
// distribution Beta(hits+1, n-hits), the one of Clopper's and Pearson's upper limits. If allowed(p) is p, the result is
// the one-sided p-value of Fisher's exact test. allowed must not fall.
func exceeds(canary, rest sample, allowed func(p float64) float64) float64 {
	chanceAt := func(p float64) float64 { return tail(canary.n, canary.hits, allowed(p)) }
	if rest.n == 0 && canary.n >= lonely {
		return chanceAt(presumed)
	}
	a, b := rest.hits+1, rest.n-rest.hits
	if b == 0 { // nothing is known, or all pods of the rest are hits
		return chanceAt(1)
	}
	const ignored, steps = 1e-12, 400
	low, high := mathext.InvRegIncBeta(a, b, ignored), mathext.InvRegIncBeta(a, b, 1-ignored)
	norm := mathext.Lbeta(a, b)
	sum, width := 0.0, (high-low)/steps
	for i := range steps + 1 { // Simpson's rule
		p := low + float64(i)*width
		weight := float64(2 + 2*(i%2))
		if i == 0 || i == steps {
			weight = 1
		}
		sum += weight * math.Exp((a-1)*math.Log(p)+(b-1)*math.Log1p(-p)-norm) * chanceAt(p)
	}
	return min(sum*width/3, 1)
}

// Reports collects the canaries of a process, to say at its end how their pods fared beside the rest. A nil one collects nothing.
// It is safe for concurrent use.
type Reports struct {
	mu     sync.Mutex
	splits []*Split
}

// Add adds a canary.
func (r *Reports) Add(c *Split) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.splits = append(r.splits, c)
}

// WriteText writes a report of each canary, its end first. It writes nothing without any.
func (r *Reports) WriteText(w io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.splits {
		if err := c.writeText(w); err != nil {
			return err
		}
	}
	return nil
}

// totals counts what happened while the canary ran. Its groups are as in block. Counts of a Split are guarded by mu.
type totals struct {
	results [2]map[Result]int
	times   [2]map[int]int // attempts by bucket
	ended   string         // why the canary stopped; empty if nothing stopped it
	begun   bool
}

func (t *totals) settled(g Group, r Result) {
	i := index(g)
	if t.results[i] == nil {
		t.results[i] = map[Result]int{}
	}
	t.results[i][r]++
}

func (t *totals) attempted(g Group, took time.Duration) {
	i := index(g)
	if t.times[i] == nil {
		t.times[i] = map[int]int{}
	}
	t.times[i][bucketOf(took)]++
}

// pods returns how many pods of a group were counted, and how many of their placements failed. A pod that is lost after it was bound is
// counted once.
func (t *totals) pods(group int) (all, bad int) {
	for r, n := range t.results[group] {
		if r != lost {
			all += n
		}
		if r != Bound {
			bad += n
		}
	}
	return all, bad
}

// within returns the time within which a share of a group's attempts ended; 0 without attempts.
func (t *totals) within(group int, share float64) time.Duration {
	all, highest := 0, 0
	for b, n := range t.times[group] {
		all, highest = all+n, max(highest, b)
	}
	if all == 0 {
		return 0
	}
	left := share * float64(all)
	for b := range highest {
		if left -= float64(t.times[group][b]); left <= 0 {
			return timeOf(b)
		}
	}
	return timeOf(highest)
}

// few is the number of the canary's pods below which a report says that they are too few to tell.
const few = 100

// verdict says how the canary ended. The caller holds the lock.
func (c *Split) verdict() string {
	pods, _ := c.totals.pods(0)
	switch {
	case c.totals.ended != "":
		return "STOPPED: " + c.totals.ended
	case !c.totals.begun:
		return "NOT BEGUN"
	case pods < few:
		return fmt.Sprintf("TOO FEW PODS TO TELL: %d of the share, want %d", pods, few)
	}
	return "NOT STOPPED: its pods fared no worse than is tolerated"
}

// writeText writes how the canary's pods fared beside the rest.
func (c *Split) writeText(w io.Writer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := fmt.Fprintf(w, "%s with a share of %.4g %% of the pods, by %s\n\n%s\n\n",
		c.profile, 100*c.args.Of, c.args.By, c.verdict()); err != nil {
		return err
	}
	t := table.Of("pods while the share ran", "share", "rest")
	of := func(title string, cell func(group int) string) { t.Add(title, cell(0), cell(1)) }
	of("  placed or failed", func(g int) string { all, _ := c.totals.pods(g); return fmt.Sprint(all) })
	of("  failed", func(g int) string {
		all, bad := c.totals.pods(g)
		return fmt.Sprintf("%d (%.2f %%)", bad, 100*float64(bad)/float64(max(all, 1)))
	})
	for _, x := range []struct {
		title string
		of    Result
	}{
		{"    decided by upstream's scores after a failure", Fallback}, {"    not reserved or not bound", NotBound},
		{"    refused or evicted by the kubelet", lost},
	} {
		of(x.title, func(g int) string { return fmt.Sprint(c.totals.results[g][x.of]) })
	}
	for _, x := range []struct {
		title string
		share float64
	}{{"time of an attempt, median", 0.5}, {"  99 %", 0.99}} {
		of(x.title, func(g int) string {
			if d := c.totals.within(g, x.share); d > 0 {
				return fmt.Sprintf("%.2f ms", 1000*d.Seconds())
			}
			return "-"
		})
	}
	return t.Columns(w)
}
