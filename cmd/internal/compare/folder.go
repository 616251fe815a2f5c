package compare

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/runlog"
)

// scenarioName names the record in a run folder.
const scenarioName = "record"

// folder returns the rows of a run folder.
func (r result) folder() []runfolder.Row {
	present := r.Rows[r.baseline()]
	s := runfolder.Scenario{
		Name: scenarioName, About: r.about(), Objective: r.Objective, Baseline: present.Name, Samples: 1, TimeUnit: "seconds", Soon: soon,
		Rule: fmt.Sprintf(rule, "Better and worse mark", present.Name, "unclear marks"),
	}
	for i := range r.shown() { // the objective first
		f := r.shown()[(i+len(r.shown())-1)%len(r.shown())]
		s.Metrics = append(s.Metrics, runfolder.Metric{Name: f.name, Title: f.title, Digits: f.digits})
	}
	rows := []runfolder.Row{s}
	for _, v := range r.Verdicts {
		rows = append(rows, runfolder.Verdict{Scenario: scenarioName, Contender: v.Profile, State: v.State, Text: v.Text})
	}
	rows = append(rows, runfolder.Verdict{
		Scenario: scenarioName, Contender: present.Name, State: runfolder.Note, Text: strings.TrimSuffix(r.accuracy(), "."),
	})
	var differences []runfolder.Row
	for i, x := range r.Rows {
		rows = append(rows, runfolder.Episode{Scenario: scenarioName, Contender: x.Name, Values: r.values(x)})
		for _, f := range r.shown() {
			d, has := x.Differences[f.name]
			switch {
			case i < r.baseline():
				d = present.Differences[f.name].reversed()
			case i == r.baseline() || !has:
				continue
			}
			change := runfolder.Difference{Scenario: scenarioName, Contender: x.Name, Metric: f.name, Mean: d.Mean, Low: d.Low, High: d.High}
			if m := r.mark(d, f); i > r.baseline() && m != eval.Unmarked {
				change.Mark = runlog.StateOf(m, false)
			}
			differences = append(differences, change)
		}
	}
	return append(append(rows, differences...), r.counts(), r.lacking())
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

func (r result) counts() runfolder.Table {
	t := runfolder.Table{
		Scenario: scenarioName, Title: "Pods", Columns: []string{"", "pods", "p95 of waits in s", "unscheduled", "never ran", "preempted"},
	}
	for _, x := range r.Rows {
		t.Rows = append(t.Rows, []string{
			x.Name, strconv.Itoa(x.Pods), fmt.Sprintf("%.2f", x.P95), count(x.Unscheduled), count(x.NeverRan), count(x.Preempted),
		})
	}
	return t
}

func (r result) lacking() runfolder.Table {
	t := runfolder.Table{Scenario: scenarioName, Title: "What the replay lacks", Columns: []string{"", "pods"}}
	for _, l := range r.Lacks {
		t.Rows = append(t.Rows, []string{l.What, strconv.Itoa(l.Pods)})
	}
	for _, n := range r.notes() {
		t.Rows = append(t.Rows, []string{"note: " + n, ""})
	}
	return t
}
