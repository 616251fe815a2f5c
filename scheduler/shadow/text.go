package shadow

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"gnnsched/scheduler/advise"
)

// WriteText writes the report for people, the verdict first. Names that come from a file are shortened and lose their control
// characters.
func (r Report) WriteText(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n\n", r.Title())
	fmt.Fprintf(&b, "%s\n", strings.ToUpper(plain(string(r.Verdict.Answer))))
	for _, why := range r.Verdict.Why {
		fmt.Fprintf(&b, "  %s\n", plain(why))
	}
	for _, note := range r.Verdict.Notes {
		fmt.Fprintf(&b, "  note: %s\n", plain(note))
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	r.writeCosts(t)
	r.writePods(t)
	if err := t.Flush(); err != nil {
		return err
	}
	for i, f := range r.Failures {
		if i == 0 {
			fmt.Fprintln(&b, "\nwould have failed, the last ones")
		}
		fmt.Fprintf(&b, "  %s: %s (really on %s): %s\n", plain(f.Pod), plain(strings.TrimSpace(string(f.What)+" "+f.Node)),
			plain(f.Theirs), plain(f.Why))
	}
	_, err := w.Write(b.Bytes())
	return err
}

func plain(text string) string { return advise.Shorten(text, 2*maxText) }

// Title names, in a line, the compared schedulers, the duration and the objective.
func (r Report) Title() string {
	length := r.To.Sub(r.From).Round(time.Second)
	return fmt.Sprintf("%s (%s) in the shadow of %s for %v, by %s", plain(r.Profile), plain(r.decider()), plain(strings.Join(r.Of, ", ")),
		length, plain(r.Objective))
}

// decider names what decides.
func (r Report) decider() string {
	if r.Fingerprint == "0" || r.Fingerprint == "" {
		return r.Policy
	}
	return "network " + r.Fingerprint
}

func (r Report) writeCosts(w io.Writer) {
	fmt.Fprintf(w, "\nmean over the time\treal\twith %s\tdifference\n", plain(r.Profile))
	for _, m := range r.Means() {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", m.Of, m.Real, m.Ours, m.Difference)
	}
	if n := len(r.Batches); n > 0 {
		each := time.Duration(r.Batches[0].Seconds * float64(time.Second)).Round(time.Second)
		fmt.Fprintf(w, "  95 %% intervals from %d stretches of %v, correlation of neighbours %.2f\n", n, each, r.Correlation)
	}
	fmt.Fprintf(w, "  %.0f %% of the pods that run with %s were placed by it\n", 100*r.Placed, plain(r.Profile))
	if m := r.Moves; m != nil {
		fmt.Fprintf(w, "  moves of %d pods would lower the real cost by %.5f, from %.5f\n", m.Pods, m.Before-m.After, m.Before)
	}
}

// Mean compares a figure's mean over the time in the two clusters, in texts.
type Mean struct {
	Of         string // the figure: cost or pods waiting
	Real, Ours string
	Difference string // ours minus real, with the 95 % interval once there is one
}

// Means compares the objective's cost and the number of pods that wait.
func (r Report) Means() []Mean {
	b := r.Whole
	return []Mean{
		{"cost", fmt.Sprintf("%.5f", b.Theirs), fmt.Sprintf("%.5f", b.Ours), difference(-gained(b), r.Gain, -1)},
		{"pods waiting", fmt.Sprintf("%.2f", b.TheirsWaiting), fmt.Sprintf("%.2f", b.OursWaiting), difference(waitedLonger(b), r.MoreWaiting, 1)},
	}
}

// difference renders a mean with the interval of an estimate, if there is one, times sign.
func difference(mean float64, e *Estimate, sign float64) string {
	if e == nil {
		return fmt.Sprintf("%+.5f", mean)
	}
	low, high := sign*e.Low, sign*e.High
	return fmt.Sprintf("%+.5f (%+.5f to %+.5f)", sign*e.Mean, min(low, high), max(low, high))
}

// says are the outcomes for people.
var says = map[outcome]string{
	same: "the same node", equal: "an equally good node", different: "another node", only: "only one node fits",
	unschedulableForUs: "no node fits", infeasible: "a node that upstream's filters refuse",
}

// Result counts the comparisons with one outcome.
type Result struct {
	What  outcome `json:"what"`
	Text  string  `json:"text"`            // What for people
	Fails bool    `json:"fails,omitempty"` // the pod would have failed
	Pods  int     `json:"pods"`
	Share float64 `json:"share"` // of the pods with a choice for the same, an equal and another node; else of all compared pods
}

// results counts the comparisons by outcome, in the order in which they are shown.
func (r Report) results() []Result {
	out := make([]Result, len(outcomes))
	for i, o := range outcomes {
		of := r.Counts.Compared
		if o == same || o == equal || o == different {
			of = r.Counts.chosen()
		}
		n := r.Counts.Results[o]
		out[i] = Result{What: o, Text: says[o], Fails: o == unschedulableForUs || o == infeasible, Pods: n, Share: share(n, of)}
	}
	return out
}

func (r Report) writePods(w io.Writer) {
	c := r.Counts
	fmt.Fprintf(w, "\npods\n  bound by %s\t%d\n  compared\t%d\t%.1f %%\n", plain(strings.Join(r.Of, ", ")),
		c.Bound, c.Compared, 100*share(c.Compared, c.Bound))
	for _, x := range r.results() {
		fmt.Fprintf(w, "    %s\t%d\t%.1f %%\n", x.Text, x.Pods, 100*x.Share)
	}
	fmt.Fprintf(w, "    decided by upstream's scores after a failure\t%d\t%.1f %%\n", c.Fallbacks, 100*share(c.Fallbacks, c.Compared))
	fmt.Fprintf(w, "    their node is refused by our filters\t%d\t%.1f %%\n", c.Skewed, 100*share(c.Skewed, c.Compared))
	for _, why := range slices.Sorted(maps.Keys(c.NotCompared)) {
		fmt.Fprintf(w, "  not compared: %s\t%d\t%.1f %%\n", plain(why), c.NotCompared[why], 100*share(c.NotCompared[why], c.Bound))
	}
	fmt.Fprintf(w, "  no node at first, for %s\t%d\n", plain(strings.Join(r.Of, ", ")), c.Waited)
	fmt.Fprintf(w, "  wait now with %s\t%d\n", plain(r.Profile), c.WaitingOurs)
	if c.Errors > 0 {
		fmt.Fprintf(w, "  errors of this program\t%d\n", c.Errors)
	}
	s := r.OneStep
	fmt.Fprintf(w, "\none step from the real state\tbetter %d\tequal %d\tworse %d\tcost %+.6f on average\n",
		s.Better, s.Equal, s.Worse, -s.Mean)
	fmt.Fprintf(w, "time of a decision with filters\tmedian %.2f ms\t99 %% %.2f ms\tmost %.2f ms\n",
		1000*r.Time.Median, 1000*r.Time.P99, 1000*r.Time.Max)
}
