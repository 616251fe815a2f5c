package compare

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"gnnsched/cmd/internal/report"
	"gnnsched/scheduler/eval"
)

// onto puts the result onto the page of --html.
func (r result) onto(p *report.Run) {
	present := r.Rows[r.baseline()]
	s := report.Scenario{
		Name: "record", About: r.about(), Objective: r.Objective, Baseline: present.Name,
		Rule: fmt.Sprintf(rule, "Better and worse mark", present.Name, "unclear marks"), Tables: []report.Table{r.counts(), r.lacking()},
	}
	if r.Observed != nil {
		s.Observed = *r.Observed
	}
	for i := range r.shown() { // the objective first
		f := r.shown()[(i+len(r.shown())-1)%len(r.shown())]
		s.Metrics = append(s.Metrics, report.Metric{Name: f.name, Title: f.title, Digits: f.digits})
	}
	for _, v := range r.Verdicts {
		p.Verdicts = append(p.Verdicts, report.Verdict{Scenario: s.Name, State: v.State, Text: v.Text})
	}
	p.Verdicts = append(p.Verdicts, report.Verdict{Scenario: s.Name, State: report.Note, Text: strings.TrimSuffix(r.accuracy(), ".")})
	for i, x := range r.Rows {
		s.Episodes = append(s.Episodes, report.Episode{Contender: x.Name, Values: r.values(x)})
		for _, f := range r.shown() {
			d, has := x.Differences[f.name]
			switch {
			case i < r.baseline():
				d = present.Differences[f.name].reversed()
			case i == r.baseline() || !has:
				continue
			}
			change := report.Difference{Contender: x.Name, Metric: f.name, Mean: d.Mean, Low: d.Low, High: d.High}
			if m := r.mark(d, f); i > r.baseline() && m != eval.Unmarked {
				change.Mark = report.StateOf(m)
			}
			s.Differences = append(s.Differences, change)
		}
	}
	p.Scenarios = append(p.Scenarios, s)
}

// values returns the figures of a row that are shown.
func (r result) values(x row) map[string]float64 {
	out := map[string]float64{}
	for _, f := range r.shown() {
		out[f.name] = x.Figures[f.name]
	}
	return out
}

func (r result) about() string {
	return fmt.Sprintf("a record of %s to %s", r.From.Format(time.RFC3339), r.To.Format(time.RFC3339))
}

// reversed turns the difference b - a into a - b.
func (d difference) reversed() difference {
	out := difference{Mean: -d.Mean}
	if d.Low != nil {
		out.Low, out.High = new(-*d.High), new(-*d.Low)
	}
	return out
}

func (r result) counts() report.Table {
	t := report.Table{
		Title: "Pods", Columns: []string{"", "pods", "p95 of waits in s", "unscheduled", "never ran", "preempted"},
	}
	for _, x := range r.Rows {
		t.Rows = append(t.Rows, []string{
			x.Name, strconv.Itoa(x.Pods), fmt.Sprintf("%.2f", x.P95), count(x.Unscheduled), count(x.NeverRan), count(x.Preempted),
		})
	}
	return t
}

func (r result) lacking() report.Table {
	t := report.Table{Title: "What the replay lacks", Columns: []string{"", "pods"}}
	for _, l := range r.Lacks {
		t.Rows = append(t.Rows, []string{l.What, strconv.Itoa(l.Pods)})
	}
	for _, n := range r.notes() {
		t.Rows = append(t.Rows, []string{"note: " + n, ""})
	}
	return t
}
