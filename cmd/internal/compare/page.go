package compare

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"gnnsched/cmd/internal/report"
	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
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

// soon is the number of seconds up to which a wait counts as none in the counts by class: real schedulers take some time for
// every pod, and a record may have whole seconds only.
const soon = 1

// journal keeps what is seen of the courses: the cluster over time, a sample of the placements, and the waits by class.
// A nil one keeps nothing.
type journal struct {
	seen       eval.Observed
	waits      eval.Tally
	contenders []string
}

// follow makes the journal the watcher of a contender's course on a source. courses is the number of all courses.
func (j *journal) follow(c *replay.Config, contender string, s *replay.Source, courses int) {
	if j == nil {
		return
	}
	j.contenders = append(j.contenders, contender)
	names := map[string]bool{}
	for i := range s.Nodes {
		names[s.Nodes[i].Name] = true
	}
	arrivals := 0
	for i := range s.Pods {
		if p := &s.Pods[i]; !p.Daemon && p.Arrived < s.To && (p.Bound == 0 || p.Bound > s.From) && (p.Ended == 0 || p.Ended > s.From) {
			arrivals++
		}
	}
	sample := eval.Decisions(courses)
	c.Watch, c.Frames = &watch{journal: j, contender: contender, every: max((arrivals+sample-1)/sample, 1)},
		eval.Frames(len(names), courses)
}

// observed returns what was seen.
func (j *journal) observed() *eval.Observed {
	if j == nil {
		return nil
	}
	j.seen.Unit, j.seen.Soon, j.seen.Waits = "seconds", soon, j.waits.Rows(j.contenders...)
	return &j.seen
}

// watch keeps one course.
type watch struct {
	*journal
	contender string
	every     int // every how many placements one is kept
	placed    int
}

// Frame implements replay.Watcher.
func (w *watch) Frame(at float64, nodes []*cluster.Node, waiting int) {
	w.seen.Frames = append(w.seen.Frames, eval.Frame{
		Contender: w.contender, At: eval.Round(at), Waiting: waiting, Nodes: eval.Workers(nodes),
	})
}

// Placed implements replay.Watcher. Real placements have no scores.
func (w *watch) Placed(p replay.Placement) {
	if w.placed++; (w.placed-1)%w.every != 0 {
		return
	}
	d := eval.Decision{
		Contender: w.contender, At: eval.Round(p.At), Pod: p.Pod.Namespace + "/" + p.Pod.Name,
		Class: classOf(p.Pod).String(), Waited: eval.Round(p.Waited), Node: p.Node,
	}
	if c := p.By; c != nil {
		d.Feasible, d.Score, d.RunnerUp, d.RunnerUpScore = c.Feasible, float64(c.Score), c.RunnerUp, float64(c.RunnerUpScore)
		switch {
		case c.Feasible == 0:
			d.Note = "others were preempted"
		case c.Fallback:
			d.Note = "upstream's scores decided"
		}
	}
	w.seen.Decisions = append(w.seen.Decisions, d)
}

// Waited implements replay.Watcher.
func (w *watch) Waited(pod *record.Pod, seconds float64, placed bool) {
	w.waits.Add(w.contender, classOf(pod), seconds, placed)
}

func classOf(p *record.Pod) eval.Class {
	pod, _ := kube.Pod(replay.Pod(p)) // a fault is of its GPUs, which the record has
	return eval.Class{
		Requests: cluster.Resources{MilliCPU: p.MilliCPU, Memory: p.Memory, GPU: p.GPU, GPUMilli: p.GPUMilli, Pods: 1}, Where: pod.Where(),
	}
}
