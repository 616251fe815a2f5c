package compare

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/report"
	"gnnsched/internal/choice"
	"gnnsched/internal/cli"
	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/each"
	"gnnsched/internal/table"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
)

var formats = map[string]func(io.Writer, result) error{
	"table": writeTable, "csv": writeCSV, "json": func(w io.Writer, r result) error { return cli.JSON(w, r) },
}

func writeCSV(w io.Writer, r result) error {
	head := append([]string{"name", "pods", "wait_p95_s"}, each.Map(r.counts(), func(n number) string { return n.name })...)
	for _, f := range r.view.figures() {
		head = append(head, f.name, f.name+"_difference", f.name+"_low", f.name+"_high")
	}
	lines := [][]string{head}
	for _, x := range r.Rows {
		line := append([]string{x.Name, strconv.Itoa(x.Pods), eval.Exact(x.P95)}, r.counted(x)...)
		for _, f := range r.view.figures() {
			line = append(line, eval.Exact(x.Figures[f.name]), "", "", "")
			if d, has := x.Differences[f.name]; has {
				of := line[len(line)-3:]
				if of[0] = eval.Exact(d.Mean); d.Low != nil {
					of[1], of[2] = eval.Exact(*d.Low), eval.Exact(*d.High)
				}
			}
		}
		lines = append(lines, line)
	}
	if r.Scenario != "" {
		for i := range lines {
			lines[i] = slices.Insert(lines[i], 0, []string{"scenario", r.Scenario}[min(i, 1)])
		}
	}
	return eval.WriteRows(w, lines)
}

// shown returns the figures that the table has.
func (r result) shown() []figure {
	return slices.DeleteFunc(r.view.figures(), func(f figure) bool { return f.name == priceFigure && !r.priced })
}

// accuracy describes the difference of the simulated present profile from the real placements.
func (r result) accuracy() string {
	present := r.Rows[r.baseline()]
	if r.Unrecorded != "" {
		return fmt.Sprintf("How far the simulated %s is from what really happened is not known: %s.", present.Name, r.Unrecorded)
	}
	return fmt.Sprintf("How far the simulated %s is from what really happened: %s", present.Name, r.list(present.Differences))
}

// writeTable writes the verdicts, then the figures, in lines that fit w.
func writeTable(w io.Writer, r result) error {
	p := printer{width: cli.Columns(w, 140)} // 140: of a file or a pipe
	if r.Scenario != "" {
		p.say("", r.Scenario+": "+r.About+".")
	}
	if r.Answer != "" {
		for line := range strings.SplitSeq(r.Answer+".", "\n") {
			p.say("", line)
		}
	}
	for _, v := range r.Verdicts {
		if r.Answer == "" {
			p.say("", v.Text+".")
		}
	}
	if (len(r.Verdicts) == 0 || r.Unrecorded != "") && !r.scaled {
		p.say("", r.accuracy())
	}
	p.b.WriteByte('\n')
	seeds := fmt.Sprintf("the seeds %d to %d", r.Seeds[0], r.Seeds[len(r.Seeds)-1])
	judges := "cost is " + r.Objective
	if r.scaled {
		judges = "price/day is of all nodes, from their start on"
	}
	p.say("", fmt.Sprintf("%s to %s, %v; %s. Simulated are all but %s, as means over %s.", r.From.Format(time.RFC3339),
		r.To.Format(time.RFC3339), r.To.Sub(r.From).Round(time.Second), judges, reality, seeds))
	if err := r.writeFigures(&p); err != nil {
		return err
	}
	p.b.WriteString("\nThe replay lacks\n")
	for _, l := range r.Lacks {
		p.say("  ", fmt.Sprintf("%s (%d pods)", l.What, l.Pods))
	}
	for _, note := range r.notes() {
		p.say("", fmt.Sprintf("note: %q", note))
	}
	_, err := w.Write(p.b.Bytes())
	return err
}

// writeFigures writes the figures and their differences, of a search as one table of the settings.
func (r result) writeFigures(p *printer) error {
	if r.Answer != "" {
		p.say("", r.rules("A * marks", ""))
		return r.searched().Framed(&p.b, p.width)
	}
	if err := r.figures().Framed(&p.b, p.width); err != nil {
		return err
	}
	return r.writeDifferences(p)
}

// writeDifferences writes the differences of the simulated present profile from the real placements, and of the others from the present
// profile.
func (r result) writeDifferences(p *printer) error {
	present, rows := r.Rows[r.baseline()].Name, r.Rows[1:]
	if len(rows) == 0 {
		return nil
	}
	text := fmt.Sprintf("Differences from the simulated %s, with 95 %% intervals where there are enough independent stretches of time.",
		present)
	if r.Unrecorded == "" && !r.scaled {
		text = fmt.Sprintf("%s The column %s has its distance from what really happened.", text, present)
	}
	p.b.WriteByte('\n')
	p.say("", text)
	p.say("", r.rules("A * marks", "a ? marks"))
	lines := table.Table{append([]string{""}, choice.Names(rows, func(x row) string { return x.Name })...)}
	for _, f := range r.shown() {
		line := []string{f.title}
		for _, x := range rows {
			d := x.Differences[f.name]
			cell := d.text(f)
			if x.Name != present {
				cell += r.mark(d, f).Sign()
			}
			line = append(line, cell)
		}
		lines = append(lines, line)
	}
	return lines.Framed(&p.b, p.width)
}

// notes returns the notes and those about single rows.
func (r result) notes() []string {
	out := r.Notes
	for _, x := range r.Rows {
		if x.Fallbacks > 0 {
			out = append(out, fmt.Sprintf("%s: upstream's scores decided %d times, because the profile failed", x.Name, x.Fallbacks))
		}
		if x.Refused > 0 {
			out = append(out, fmt.Sprintf("%s: %d pods are left out, because a plugin failed on them", x.Name, x.Refused))
		}
		out = append(out, x.Owners.notes(x.Name)...)
	}
	return out
}

// figures returns a table with a row for each figure and a column for each row of the result.
func (r result) figures() table.Table {
	line := func(title string, of func(row) string) []string {
		return append([]string{title}, each.Map(r.Rows, of)...)
	}
	lines := table.Table{line("", func(x row) string { return x.Name })}
	for k, f := range r.shown() {
		lines = append(lines, line(f.title, func(x row) string { return fmt.Sprintf("%.*f", f.digits, x.Figures[f.name]) }))
		if k == 0 && r.scaled {
			lines = append(lines, line("median", func(x row) string { return fmt.Sprintf("%.*f", f.digits, x.Scaled.P50) }))
		}
		if k == 0 {
			lines = append(lines, line("p95", func(x row) string { return fmt.Sprintf("%.*f", f.digits, x.P95) }))
		}
	}
	for _, n := range r.counts() {
		lines = append(lines, line(n.title, n.of))
	}
	return lines
}

// number is a count that rows have.
type number struct {
	name, title string
	of          func(row) string
}

// counts returns the counts that rows have.
func (r result) counts() []number {
	out := []number{
		{"unscheduled", "unscheduled", func(x row) string { return count(x.Unscheduled) }},
		{"never_ran", "never ran", func(x row) string { return count(x.NeverRan) }},
		{"preempted", "preempted", func(x row) string { return count(x.Preempted) }},
	}
	if !r.scaled {
		return out
	}
	out = append(out,
		number{"evicted", "evicted", func(x row) string { return count(x.Scaled.Evicted) }},
		number{"lost_core_hours", "core hours lost", func(x row) string { return count(x.Scaled.LostCoreHours) }},
		number{"started", "nodes started", func(x row) string { return count(x.Scaled.Started) }},
		number{"failed", "nodes that never came", func(x row) string { return count(x.Scaled.Failed) }},
		number{"interrupted", "spot nodes taken back", func(x row) string { return count(x.Scaled.Interrupted) }})
	for _, name := range r.types() {
		out = append(out, number{"hours_" + name, "hours of " + name, func(x row) string { return count(x.Scaled.Hours[name]) }})
	}
	return out
}

// types returns the types of which there were most node hours, in all rows together.
func (r result) types() []string {
	const most = 5
	all := map[string]float64{}
	for _, x := range r.Rows {
		for name, hours := range x.Scaled.Hours {
			all[name] += hours
		}
	}
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a, b)) })
	return names[:min(len(names), most)]
}

// list renders the differences of a row.
func (r result) list(d map[string]difference) string {
	return strings.Join(each.Map(r.shown(), func(f figure) string { return f.title + " " + d[f.name].text(f) }), ", ")
}

// count writes a mean of counts, which is mostly whole.
func count(n float64) string { return strconv.FormatFloat(math.Round(10*n)/10, 'f', -1, 64) }

// text renders a difference with its interval, if there is one.
func (d difference) text(f figure) string {
	if d.Low == nil {
		return fmt.Sprintf("%+.*f", f.digits, d.Mean)
	}
	return d.interval().Text(f.digits)
}

// interval returns a difference that has an interval.
func (d difference) interval() eval.Interval {
	return eval.Interval{Mean: d.Mean, Low: *d.Low, High: *d.High}
}

// printer collects text whose lines have at most width columns, as far as words and single columns of tables allow.
type printer struct {
	b     bytes.Buffer
	width int
}

// say writes a paragraph behind an indent. Its spaces at the beginning add to the indent.
func (p *printer) say(indent, text string) {
	const hyphen, whole = "-", "\u2011" // Wordwrap would tear a number from its sign
	words := strings.TrimLeft(text, " ")
	indent += text[:len(text)-len(words)]
	wrapped := ansi.Wordwrap(strings.ReplaceAll(words, hyphen, whole), max(p.width-len(indent)-2, 20), "")
	for i, line := range strings.Split(strings.ReplaceAll(wrapped, whole, hyphen), "\n") {
		if i > 0 {
			line = "  " + strings.TrimLeft(line, " ")
		}
		p.b.WriteString(indent + line + "\n")
	}
}

// onto puts the result onto the page of --html.
func (r result) onto(p *report.Run) {
	present := r.Rows[r.baseline()]
	s := report.Scenario{
		Name: cmp.Or(r.Scenario, "record"), About: cmp.Or(r.About, r.about()), Objective: r.Objective, Baseline: present.Name,
		Rule: r.rules("Better and worse mark", "unclear marks"), Tables: []report.Table{r.pods(), r.lacking()},
	}
	if r.Observed != nil {
		s.Observed = *r.Observed
	}
	for i := range r.shown() { // the objective first
		f := r.shown()[(i+len(r.shown())-1)%len(r.shown())]
		s.Metrics = append(s.Metrics, report.Metric{Name: f.name, Title: f.title, Digits: f.digits})
	}
	if r.Answer != "" {
		p.Verdicts = append(p.Verdicts, report.Verdict{Scenario: s.Name, State: report.Note, Text: r.Answer})
	}
	if r.scaled {
		s.Front = [2]string{"waiting_pods", billFigure}
	}
	for _, v := range r.Verdicts {
		p.Verdicts = append(p.Verdicts, report.Verdict{Scenario: s.Name, State: v.State, Text: v.Text})
	}
	if !r.scaled {
		p.Verdicts = append(p.Verdicts, report.Verdict{Scenario: s.Name, State: report.Note, Text: strings.TrimSuffix(r.accuracy(), ".")})
	}
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

// pods returns the table of counts.
func (r result) pods() report.Table {
	titles := each.Map(r.counts(), func(n number) string { return n.title })
	return report.Table{Title: "Pods", Columns: append([]string{"", "pods", "p95 of waits in s"}, titles...),
		Rows: each.Map(r.Rows, func(x row) []string {
			return append([]string{x.Name, strconv.Itoa(x.Pods), fmt.Sprintf("%.2f", x.P95)}, r.counted(x)...)
		})}
}

// counted returns the counts of a row.
func (r result) counted(x row) []string {
	return each.Map(r.counts(), func(n number) string { return n.of(x) })
}

func (r result) lacking() report.Table {
	lacks := each.Map(r.Lacks, func(l replay.Lack) []string { return []string{l.What, strconv.Itoa(l.Pods)} })
	notes := each.Map(r.notes(), func(n string) []string { return []string{"note: " + n, ""} })
	return report.Table{Title: "What the replay lacks", Columns: []string{"", "pods"}, Rows: append(lacks, notes...)}
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
