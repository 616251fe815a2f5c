package shadow

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
	v1 "k8s.io/api/core/v1"

	"gnnsched/internal/each"
	"gnnsched/scheduler/advise"
	"gnnsched/scheduler/memcluster"
)

// Answer is the advice whether to switch.
type Answer string

const (
	// Safe is the only answer that lets gnnsched shadow --gate pass.
	Safe     Answer = "safe to switch"
	notYet   Answer = "not yet"
	notWorth Answer = "not worth it"
)

// Verdict is an answer with its reasons.
type Verdict struct {
	Answer Answer   `json:"answer"`
	Why    []string `json:"why"`
	Notes  []string `json:"notes,omitempty"` // caveats for any answer
}

// Limits are the thresholds of a verdict.
type Limits struct {
	Pods     int     `json:"pods"`     // that must be compared
	Failures float64 `json:"failures"` // the share of pods that may fail: unschedulable, infeasible, fallbacks; each counts by itself
	P99      float64 `json:"p99"`      // of a decision's time with filters, in seconds
	Matters  float64 `json:"matters"`  // the share of the real cost below which a difference does not matter
}

// DefaultLimits are the limits without flags.
var DefaultLimits = Limits{Pods: 1000, Failures: 0.001, P99: 0.1, Matters: 0.01}

// Validate returns an error for the first invalid value.
func (l Limits) Validate() error {
	switch {
	case l.Pods < 1:
		return fmt.Errorf("at least %d pods: choose 1 or more", l.Pods)
	case !(l.Failures >= 0 && l.Failures < 1):
		return fmt.Errorf("a share of failures of %v: choose 0 or more, and less than 1", l.Failures)
	case !(l.P99 > 0):
		return fmt.Errorf("a limit of %v seconds: choose more than 0", l.P99)
	case !(l.Matters >= 0 && l.Matters < 1):
		return fmt.Errorf("a difference of %v that matters: choose 0 or more, and less than 1", l.Matters)
	}
	return nil
}

// maxUnseen is the share of pods that may be missing because of the program or the watch, and maxSkewed the share of pods
// whose real node the filters refuse, above which the figures are not to be relied on.
const (
	maxUnseen = 0.01
	maxSkewed = 0.05
)

// judgeReport returns the verdict on the figures of r.
func judgeReport(r Report) Verdict {
	v := Verdict{Notes: notes(r)}
	if why := lacking(r); len(why) > 0 {
		v.Answer, v.Why = notYet, why
		return v
	}
	if r.MoreWaiting.Low > rounding {
		v.Answer, v.Why = notWorth,
			[]string{fmt.Sprintf("%.3g pods more would wait on average (%.3g to %.3g)", r.MoreWaiting.Mean, r.MoreWaiting.Low, r.MoreWaiting.High)}
		return v
	}
	real := r.Whole.Theirs
	text := fmt.Sprintf("the cost would change by %s (%s to %s)", percent(-r.Gain.Mean, real), percent(-r.Gain.High, real),
		percent(-r.Gain.Low, real))
	if r.Gain.High < 0 {
		v.Answer, v.Why = notWorth, []string{text}
		return v
	}
	if why := failing(r); len(why) > 0 {
		v.Answer, v.Why = notYet, why
		return v
	}
	switch matters := r.Limits.Matters * real; {
	case r.Gain.Low > matters:
		v.Answer, v.Why = Safe, []string{text, "nothing failed beyond the limits"}
	case r.Gain.High <= matters:
		v.Answer, v.Why = notWorth, []string{text, fmt.Sprintf("less than %.3g %% is no reason to switch", 100*r.Limits.Matters)}
	default:
		v.Answer, v.Why = notYet, []string{text, "the interval is too wide to tell; more time narrows it"}
	}
	return v
}

// percent returns a difference as a share of the whole, with sign.
func percent(d, of float64) string {
	if of == 0 || math.IsNaN(d) {
		return fmt.Sprintf("%+.3g", d)
	}
	return fmt.Sprintf("%+.2f %%", 100*d/of)
}

// lacking names the missing figures.
func lacking(r Report) (why []string) {
	if n := r.Counts.Compared; n < r.Limits.Pods {
		why = append(why, fmt.Sprintf("%d of %d pods were compared", n, r.Limits.Pods))
	}
	if r.Gain == nil {
		why = append(why, fmt.Sprintf("there are fewer than %d blocks of time", Min))
	} else if r.Correlation > MaxLag {
		why = append(why, fmt.Sprintf("the %d stretches of time still depend on each other (correlation %.2f, at most %.2f): more time is needed",
			len(r.Batches), r.Correlation, MaxLag))
	}
	if share(r.Counts.Skewed, r.Counts.Compared) > maxSkewed {
		why = append(why,
			fmt.Sprintf("%d of %d pods are on nodes that the filters refuse: the state that was compared is not the one that the scheduler saw",
				r.Counts.Skewed, r.Counts.Compared))
	}
	if n := r.Counts.NotCompared[lateReason] + r.Counts.NotCompared[backlogReason] + r.Counts.Errors; share(n, r.Counts.Bound) > maxUnseen {
		why = append(why, fmt.Sprintf("%d of %d pods were missed", n, r.Counts.Bound))
	}
	return why
}

// failing names the parts that fail too often.
func failing(r Report) (why []string) {
	for _, x := range []struct {
		n    int
		what string
	}{
		{r.Counts.Results[infeasible], "would go to nodes that upstream's filters refuse"},
		{r.Counts.Results[unschedulableForUs], "would find no node, though they got one"},
		{r.Counts.Fallbacks, "were decided by upstream's scores, because the profile failed or was too slow"},
	} {
		if share(x.n, r.Counts.Compared) > r.Limits.Failures {
			why = append(why, fmt.Sprintf("%d of %d pods %s (limit %.3g %%)", x.n, r.Counts.Compared, x.what, 100*r.Limits.Failures))
		}
	}
	if r.Time.P99 > r.Limits.P99 {
		why = append(why, fmt.Sprintf("one decision in a hundred takes longer than %.3g ms (limit %.3g ms)", 1000*r.Time.P99, 1000*r.Limits.P99))
	}
	return why
}

func share(n, of int) float64 { return float64(n) / float64(max(of, 1)) }

// notes describes the limits of the figures.
func notes(r Report) (out []string) {
	if r.Counts.Compared > 0 && r.Placed < 0.5 {
		out = append(out, fmt.Sprintf("only %.0f %% of the pods that run were placed since the start; the effect is not complete", 100*r.Placed))
	}
	if n := r.Counts.Bound - r.Counts.Compared; share(n, r.Counts.Bound) > 0.2 {
		out = append(out, fmt.Sprintf("%d of %d pods were not compared and stay on their real nodes", n, r.Counts.Bound))
	}
	if r.Counts.Waited > 0 {
		out = append(out, "the other scheduler lets pods wait; disruption budgets do not count where the profile preempts")
	}
	return out
}

// outcome is the result of a comparison, and a label of gnnsched_shadow_decisions_total.
type outcome string

const (
	// same: the profile chooses the same node.
	same outcome = "same"
	// equal: the profile would draw among tied nodes, one of which is theirs, or chooses a node exactly like theirs.
	equal outcome = "equal"
	// different: the profile chooses another node.
	different outcome = "different"
	// only: one node fits, so nothing was to be decided.
	only outcome = "only"
	// unschedulableForUs: no node fits for the profile, though the other scheduler placed the pod.
	unschedulableForUs outcome = "unschedulable"
	// infeasible: the profile chooses a node that upstream's default filters refuse.
	infeasible outcome = "infeasible"
)

var outcomes = []outcome{same, equal, different, only, unschedulableForUs, infeasible}

// judgement compares the profile's choice for a pod with the node that the pod got.
type judgement struct {
	outcome
	memcluster.Choice
	skewed bool    // the profile's filters refuse the pod's node: the other scheduler saw another state
	gained float64 // cost after their choice minus cost after ours; over 0 if ours is better
	why    string  // for unschedulableForUs and infeasible
}

// judge compares in the state before the pod was bound.
func judge(ctx context.Context, c *memcluster.Cluster, pod *v1.Pod) (judgement, error) {
	ch, err := c.Choose(ctx, pod)
	if err != nil {
		return judgement{}, err
	}
	theirs := pod.Spec.NodeName
	j := judgement{Choice: ch, outcome: different}
	j.why, j.skewed = ch.Refused[theirs]
	switch {
	case ch.Feasible == 0:
		j.outcome = unschedulableForUs
		return j, nil
	case ch.Feasible == 1:
		j.outcome = only
	case ch.Node == theirs:
		j.outcome = same
	case slices.Contains(ch.Best, theirs) || !j.skewed && c.Alike(ch.Node, theirs):
		j.outcome = equal
	}
	why, err := c.Admits(ctx, pod, ch.Node)
	if err != nil {
		return judgement{}, err
	}
	if why != "" {
		j.outcome, j.why = infeasible, advise.Shorten(why, maxText)
		return j, nil
	}
	if j.outcome == different {
		after, known := c.After(pod, theirs)
		own, _ := c.After(pod, ch.Node)
		if known {
			j.gained = after - own
		}
	}
	return j, nil
}

// rounding is the difference of two costs that is rounding.
const rounding = 1e-12

// sign returns 1 if the profile's choice is better, -1 if theirs is.
func (j judgement) sign() int {
	if math.Abs(j.gained) < rounding {
		return 0
	}
	return int(math.Copysign(1, j.gained))
}

// Block holds the means of a stretch of time.
type Block struct {
	Seconds       float64 `json:"seconds"`
	Theirs        float64 `json:"theirs"` // cost of the real cluster
	Ours          float64 `json:"ours"`   // cost of the cluster with the profile's choices
	TheirsWaiting float64 `json:"theirsWaiting"`
	OursWaiting   float64 `json:"oursWaiting"`
}

// Plus adds the time of another block.
func (b Block) Plus(o Block) Block {
	t := b.Seconds + o.Seconds
	if t == 0 {
		return b
	}
	mean := func(x, y float64) float64 { return (x*b.Seconds + y*o.Seconds) / t }
	return Block{t, mean(b.Theirs, o.Theirs), mean(b.Ours, o.Ours), mean(b.TheirsWaiting, o.TheirsWaiting), mean(b.OursWaiting, o.OursWaiting)}
}

// maxBlocks is the number of blocks that are kept. Beyond it, blocks become twice as long.
const maxBlocks = 2048

// timeline collects the time of a run in blocks of equal length.
type timeline struct {
	length float64 // of a block, in seconds
	full   []Block
	last   Block // the unfinished block
}

// add adds a stretch of time, in which nothing changed.
func (b *timeline) add(of Block) {
	for of.Seconds > 0 {
		part := of
		part.Seconds = min(of.Seconds, b.length-b.last.Seconds)
		of.Seconds -= part.Seconds
		b.last = b.last.Plus(part)
		if b.last.Seconds < b.length*(1-rounding) {
			return
		}
		b.full, b.last = append(b.full, b.last), Block{}
		if len(b.full) == maxBlocks {
			b.full, b.length = pairBlocks(b.full), 2*b.length
		}
	}
}

// all returns the mean over the whole time.
func (b *timeline) all() Block {
	sum := b.last
	for _, x := range b.full {
		sum = sum.Plus(x)
	}
	return sum
}

// Estimate is a mean over time with a 95 % interval.
type Estimate struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// estimate returns the mean of a value over batches, with the interval of Student's t (the method of batch means:
// Law, Simulation Modeling and Analysis, 5th ed., section 9.5.3). It needs two batches at least.
func estimate(list []Block, value func(Block) float64) Estimate {
	v := each.Map(list, value)
	mean, std := stat.MeanStdDev(v, nil)
	n := float64(len(v))
	half := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975) * std / math.Sqrt(n)
	return Estimate{mean, mean - half, mean + half}
}

// gained is the reduction of the cost by the profile's choices.
func gained(b Block) float64 { return b.Theirs - b.Ours }

// waitedLonger is the number of additional waiting pods with the profile's choices.
func waitedLonger(b Block) float64 { return b.OursWaiting - b.TheirsWaiting }

// Min is the number of blocks below which no interval should be made, and MaxLag the correlation of a block with the next one
// above which blocks are joined.
const (
	Min    = 10
	MaxLag = 0.2
)

// blockRounding is the difference of two values that is rounding.
const blockRounding = 1e-12

// Summable is the content of a stretch of time. Plus returns the content of two stretches together.
type Summable[T any] interface{ Plus(T) T }

// JoinBlocks joins each two blocks that follow each other until the values of a block and the next one hardly depend on each
// other, or until less than twice Min are left. lag is the correlation that remains.
func JoinBlocks[T Summable[T]](list []T, value func(T) float64) (out []T, lag float64) {
	for {
		if lag = lag1(list, value); lag <= MaxLag || len(list) < 2*Min {
			return list, lag
		}
		list = pairBlocks(list)
	}
}

// pairBlocks joins each two blocks that follow each other. A last single one is left out.
func pairBlocks[T Summable[T]](list []T) []T {
	out := make([]T, 0, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		out = append(out, list[i].Plus(list[i+1]))
	}
	return out
}

// lag1 returns the correlation of each value with the next one; 0 if the values are all the same.
func lag1[T any](list []T, value func(T) float64) float64 {
	if len(list) < 3 {
		return 0
	}
	v := each.Map(list, value)
	mean := stat.Mean(v, nil)
	var with, own float64
	for i, x := range v {
		own += (x - mean) * (x - mean)
		if i > 0 {
			with += (x - mean) * (v[i-1] - mean)
		}
	}
	if own < blockRounding*blockRounding {
		return 0
	}
	return with / own
}
