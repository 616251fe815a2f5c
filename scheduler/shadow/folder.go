package shadow

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gnnsched/internal/runfolder"
)

// folderScenario names the watched cluster in a run folder.
const folderScenario = "shadow"

// theirName and ourName are the names of the real cluster and of the one with the profile's choices in a run folder.
func theirName(of []string) string  { return plain(strings.Join(of, ", ")) }
func ourName(profile string) string { return plain(profile) + " (in the shadow)" }

// Points returns the present points of a run folder's curves over time. The gain has three curves as soon as it has an interval.
func (r Report) Points() []runfolder.Row {
	c, at := r.Counts, r.To.Sub(r.From).Seconds()
	values := map[string]float64{
		"cost, real": r.Whole.Theirs, "cost, with the profile": r.Whole.Ours, "pods waiting, real": r.Whole.TheirsWaiting,
		"pods waiting, with the profile": r.Whole.OursWaiting,
		"compared":                       float64(c.Compared), "agreement": c.agreement(), "failures": float64(c.failures()),
		"99 % of decisions, ms": 1000 * r.Time.P99,
	}
	if r.Gain != nil {
		values["gain"], values["gain, low"], values["gain, high"] = r.Gain.Mean, r.Gain.Low, r.Gain.High
	}
	if m := r.Moves; m != nil {
		values["gain by moves"] = m.Before - m.After
	}
	var out []runfolder.Row
	for _, tag := range slices.Sorted(maps.Keys(values)) {
		out = append(out, runfolder.Point{Tag: tag, At: at, Value: values[tag]})
	}
	return out
}

// failures counts pods that would have found no node, a node that does not fit, or a decision of upstream's scores instead.
func (c Counts) failures() int {
	return c.Results[unschedulableForUs] + c.Results[infeasible] + c.Fallbacks
}

// Rows returns the rows of a run folder about the whole time: the verdict, both costs and their difference, agreement, refusals
// and latency.
func (r Report) Rows() []runfolder.Row {
	theirs, ours := theirName(r.Of), ourName(r.Profile)
	out := []runfolder.Row{
		runfolder.Scenario{
			Name: folderScenario, About: fmt.Sprintf("%s in the shadow of %s, by %s; costs are means over %s to %s", plain(r.Profile), theirs,
				plain(r.Objective), r.From.UTC().Format(time.RFC3339), r.To.UTC().Format(time.RFC3339)),
			Objective: plain(r.Objective), Baseline: theirs, Samples: len(r.Batches), TimeUnit: "seconds",
			Metrics: []runfolder.Metric{{Name: "cost", Title: "cost", Digits: 5}, {Name: "waiting", Title: "pods waiting", Digits: 2}},
		},
		runfolder.Verdict{
			Scenario: folderScenario, Contender: ours, State: r.Verdict.state(),
			Text: strings.Join(append([]string{string(r.Verdict.Answer)}, r.Verdict.Why...), "; "),
		},
		runfolder.Episode{
			Scenario: folderScenario, Contender: theirs, Values: map[string]float64{"cost": r.Whole.Theirs, "waiting": r.Whole.TheirsWaiting},
		},
		runfolder.Episode{
			Scenario: folderScenario, Contender: ours, Values: map[string]float64{"cost": r.Whole.Ours, "waiting": r.Whole.OursWaiting},
		},
	}
	for _, note := range r.Verdict.Notes {
		out = append(out, runfolder.Verdict{Scenario: folderScenario, Contender: ours, State: runfolder.Note, Text: note})
	}
	if r.Gain != nil {
		low, high := -r.Gain.High, -r.Gain.Low
		out = append(out, runfolder.Difference{Scenario: folderScenario, Contender: ours, Metric: "cost", Mean: -r.Gain.Mean, Low: &low,
			High: &high},
			runfolder.Difference{Scenario: folderScenario, Contender: ours, Metric: "waiting", Mean: r.MoreWaiting.Mean, Low: &r.MoreWaiting.Low,
				High: &r.MoreWaiting.High})
	}
	out = append(out, r.agreement(), r.refusals(), r.latency())
	if len(r.Failures) > 0 {
		out = append(out, r.lastFailures())
	}
	return out
}

// state is the verdict in the words of a run folder.
func (v Verdict) state() runfolder.State {
	switch v.Answer {
	case Safe:
		return runfolder.Pass
	case notWorth:
		return runfolder.Fail
	}
	return runfolder.Note
}

// counted is a row of a table: pods, and their share of all.
func counted(what string, n, of int) []string {
	return []string{what, fmt.Sprint(n), fmt.Sprintf("%.1f %%", 100*share(n, of))}
}

func (r Report) agreement() runfolder.Table {
	c := r.Counts
	t := runfolder.Table{Scenario: folderScenario, Title: "Agreement", Columns: []string{"", "pods", "share"}}
	t.Rows = append(t.Rows, counted("bound", c.Bound, c.Bound), counted("compared", c.Compared, c.Bound))
	for _, o := range []outcome{same, equal, different} {
		t.Rows = append(t.Rows, counted(says[o], c.Results[o], c.chosen()))
	}
	t.Rows = append(t.Rows, counted(says[only], c.Results[only], c.Compared))
	s := r.OneStep
	steps := s.Better + s.Equal + s.Worse
	t.Rows = append(t.Rows, counted("one step: lower cost with the profile", s.Better, steps), counted("one step: equal cost", s.Equal, steps),
		counted("one step: higher cost with the profile", s.Worse, steps))
	return t
}

func (r Report) refusals() runfolder.Table {
	c := r.Counts
	t := runfolder.Table{Scenario: folderScenario, Title: "Refusals", Columns: []string{"", "pods", "share"}, Rows: [][]string{
		counted(says[unschedulableForUs], c.Results[unschedulableForUs], c.Compared),
		counted(says[infeasible], c.Results[infeasible], c.Compared),
		counted("decided by upstream's scores after a failure", c.Fallbacks, c.Compared),
		counted("their node is refused by our filters", c.Skewed, c.Compared),
	}}
	for _, why := range slices.Sorted(maps.Keys(c.NotCompared)) {
		t.Rows = append(t.Rows, counted("not compared: "+plain(why), c.NotCompared[why], c.Bound))
	}
	if c.Errors > 0 {
		t.Rows = append(t.Rows, counted("errors of this program", c.Errors, c.Bound))
	}
	return t
}

func (r Report) latency() runfolder.Table {
	row := func(what string, seconds float64) []string { return []string{what, fmt.Sprintf("%.2f", 1000*seconds)} }
	return runfolder.Table{Scenario: folderScenario, Title: "Time of a decision, with filters", Columns: []string{"", "ms"}, Rows: [][]string{
		row("median", r.Time.Median), row("99 %", r.Time.P99), row("most", r.Time.Max), row("limit of 99 %", r.Limits.P99),
	}}
}

// lastFailures is the table of the last pods that would have failed.
func (r Report) lastFailures() runfolder.Table {
	t := runfolder.Table{
		Scenario: folderScenario, Title: "Would have failed, the last ones", Columns: []string{"pod", "what", "really on", "why"},
	}
	for _, f := range r.Failures {
		t.Rows = append(t.Rows, []string{plain(f.Pod), plain(strings.TrimSpace(string(f.What) + " " + f.Node)), plain(f.Theirs), plain(f.Why)})
	}
	return t
}
