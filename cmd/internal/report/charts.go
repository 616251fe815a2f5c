package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gnnsched/internal/each"
	"gnnsched/scheduler/eval"
)

// Sizes of charts with rows.
const (
	chartWidth  = 520.0
	labelWidth  = 128.0
	rowHeight   = 26.0
	axisHeight  = 40.0
	rightMargin = 16.0
)

// effects draws the differences of a metric from the baseline: a mark for the mean and a bar for its interval.
func effects(m Metric, baseline string, rows []Difference) chart {
	d := newDrawing(chartWidth, axisHeight+rowHeight*float64(len(rows)))
	values := []float64{0}
	for _, r := range rows {
		values = append(values, r.Mean)
		if r.Low != nil && r.High != nil {
			values = append(values, *r.Low, *r.High)
		}
	}
	x := span(values, labelWidth, chartWidth-rightMargin)
	bottom := d.height - axisHeight + 6
	d.scale(x, bottom, short, m.Title+" minus "+baseline+"'s")
	d.line("zero", x.at(0), 0, x.at(0), bottom)
	var said []string
	for i, r := range rows {
		y := rowHeight * (float64(i) + 0.5)
		d.text("end", labelWidth-10, y+4, clip(r.Contender, 18))
		class := "effect " + tone(r)
		text := fmt.Sprintf("%s %s", r.Contender, signed(r.Mean, m.Digits))
		if r.Low != nil && r.High != nil {
			d.line(class, x.at(*r.Low), y, x.at(*r.High), y)
			d.line(class, x.at(*r.Low), y-4, x.at(*r.Low), y+4)
			d.line(class, x.at(*r.High), y-4, x.at(*r.High), y+4)
			text += fmt.Sprintf(" (%s to %s)", signed(*r.Low, m.Digits), signed(*r.High, m.Digits))
		}
		d.box(class, [4]float64{x.at(r.Mean) - 4.5, y - 4.5, 9, 9}, text)
		said = append(said, text)
	}
	caption := fmt.Sprintf("Difference from %s in %s: mean with its 95 %% interval. Left of the line is better. "+
		"Coloured where it is marked better or worse.", baseline, m.Title)
	return chart{d.html(caption + " " + strings.Join(said, "; ")), caption}
}

// tone is the class of a difference: good, bad or unclear.
func tone(d Difference) string {
	switch d.Mark {
	case Better:
		return "good"
	case Worse:
		return "bad"
	}
	return "unclear"
}

// scale draws the horizontal axis with its labelled ticks and title.
func (d *drawing) scale(x axis, y float64, label func(float64) string, title string) {
	for _, v := range ticks(x.low, x.high, 5) {
		d.line("grid", x.at(v), 0, x.at(v), y)
		d.text("tick middle", x.at(v), y+13, label(v))
	}
	d.text("axis middle", (x.from+x.to)/2, y+29, title)
}

// mostDots is the number of dots in a strip; more episodes than that are drawn as quantiles only.
const mostDots = 120

// strips draws the distribution of a metric over episodes: a dot for each, a box for the middle half, and a line
// for the median.
func strips(m Metric, names []string, values map[string][]float64) chart {
	d := newDrawing(chartWidth, axisHeight+rowHeight*float64(len(names)))
	var all []float64
	for _, n := range names {
		all = append(all, values[n]...)
	}
	x := span(all, labelWidth, chartWidth-rightMargin)
	bottom := d.height - axisHeight + 6
	d.scale(x, bottom, short, m.Title)
	var said []string
	for i, n := range names {
		v := slices.Sorted(slices.Values(values[n]))
		if len(v) == 0 {
			continue
		}
		y := rowHeight * (float64(i) + 0.5)
		d.text("end", labelWidth-10, y+4, clip(n, 18))
		low, mid, high := quantile(v, 0.25), quantile(v, 0.5), quantile(v, 0.75)
		tip := fmt.Sprintf("%s: median %s, middle half %s to %s, range %s to %s", n, number(mid, m.Digits), number(low, m.Digits),
			number(high, m.Digits), number(v[0], m.Digits), number(v[len(v)-1], m.Digits))
		d.line("whisker", x.at(v[0]), y, x.at(v[len(v)-1]), y)
		d.box("box "+series(i), [4]float64{x.at(low), y - 8, math.Max(x.at(high)-x.at(low), 1), 16}, tip)
		for k, value := range v {
			if len(v) <= mostDots {
				fmt.Fprintf(&d.body, `<circle class="%s" cx="%s" cy="%s" r="%s"/>`,
					"seed "+series(i), pixel(x.at(value)), pixel(y+float64(k%5-2)*2.4), pixel(2))
			}
		}
		d.line("median", x.at(mid), y-9, x.at(mid), y+9)
		said = append(said, tip)
	}
	caption := fmt.Sprintf("%s by episode: the line is the median, the box the middle half.", upper(m.Title))
	return chart{d.html(caption + " " + strings.Join(said, "; ")), caption}
}

// quantile returns a quantile of sorted values, by linear interpolation.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// scatter draws a mark for each contender: its mean of one metric against that of another.
func scatter(across, up Metric, names []string, values map[string]map[string][]float64) chart {
	const height, left = 300.0, 64.0
	d := newDrawing(chartWidth, height)
	mean := func(m Metric, name string) float64 {
		v := values[m.Name][name]
		return each.Sum(v, func(x float64) float64 { return x }) / float64(len(v))
	}
	var xs, ys []float64
	for _, n := range names {
		xs, ys = append(xs, mean(across, n)), append(ys, mean(up, n))
	}
	x, y := span(xs, left, chartWidth-rightMargin), span(ys, height-axisHeight, 12)
	d.scale(x, height-axisHeight+6, short, across.Title)
	for _, v := range ticks(y.low, y.high, 5) {
		d.line("grid", left, y.at(v), chartWidth-rightMargin, y.at(v))
		d.text("tick end", left-6, y.at(v)+4, short(v))
	}
	var said []string
	for i, n := range names {
		tip := fmt.Sprintf("%s: %s %s, %s %s", n, across.Title, number(xs[i], across.Digits), up.Title, number(ys[i], up.Digits))
		d.box("box "+series(i), [4]float64{x.at(xs[i]) - 4.5, y.at(ys[i]) - 4.5, 9, 9}, tip)
		anchor, at := "tick", x.at(xs[i])+8
		if at > (left+chartWidth)/2 {
			anchor, at = "tick end", at-16
		}
		d.text(anchor, at, y.at(ys[i])+4, clip(n, 40))
		said = append(said, tip)
	}
	caption := fmt.Sprintf("%s (upwards) against %s: less of both is better.", upper(up.Title), across.Title)
	return chart{d.html(caption + " " + strings.Join(said, "; ")), caption}
}

// curve is a line of a lines chart.
type curve struct {
	name string
	x, y []float64
}

// plot is a chart of several lines over a common axis.
type plot struct {
	title, across string
	curves        []curve
	percent       bool // values are fractions
}

// chart draws the lines. Each has its own colour and dashes, and the legend stands above.
func (p plot) chart() chart {
	const width, height, left, top = 480.0, 220.0, 52.0, 8.0
	legend := 18.0
	if len(p.curves) < 2 {
		legend = 0
	}
	perRow := 3
	legend *= math.Ceil(float64(len(p.curves)) / float64(perRow))
	d := newDrawing(width, height+legend)
	var xs, ys []float64
	for _, c := range p.curves {
		xs, ys = append(xs, c.x...), append(ys, c.y...)
	}
	x, y := span(xs, left, width-10), span(ys, height-38+legend, top+legend)
	if low := slices.Min(append(ys, 0)); low >= 0 && y.low < 0 {
		y.low = 0
	}
	label := short
	if p.percent {
		label = percent
	}
	for _, v := range ticks(y.low, y.high, 5) {
		d.line("grid", left, y.at(v), width-10, y.at(v))
		d.text("tick end", left-6, y.at(v)+4, label(v))
	}
	for _, v := range ticks(x.low, x.high, 5) {
		d.text("tick middle", x.at(v), height-24+legend, short(v))
	}
	d.text("axis middle", (left+width)/2, height-6+legend, p.across)
	var said []string
	for i, c := range p.curves {
		points := make([][2]float64, len(c.x))
		for k := range c.x {
			points[k] = [2]float64{x.at(c.x[k]), y.at(c.y[k])}
		}
		d.path("curve "+series(i), points)
		if n := len(c.y); n > 0 {
			said = append(said, fmt.Sprintf("%s from %s to %s", c.name, label(c.y[0]), label(c.y[n-1])))
		}
		if legend > 0 {
			at := left + float64(i%perRow)*140
			row := 11 + 18*float64(i/perRow)
			d.path("curve "+series(i), [][2]float64{{at, row - 4}, {at + 20, row - 4}})
			d.text("tick", at+25, row, clip(c.name, 17))
		}
	}
	return chart{d.html(p.title + ": " + strings.Join(said, "; ")), upper(p.title) + "."}
}

// waitBars draws, for each class and contender, the share of the pods that waited and the share that got no node. who labels the axis.
func waitBars(who string, classes, names []string, of map[[2]string]eval.Waits) chart {
	const gap = 12.0
	const bar = 13.0
	d := newDrawing(chartWidth, axisHeight+float64(len(classes))*(float64(len(names))*bar+gap))
	most := 0.01
	for _, w := range of {
		most = math.Max(most, part(w.Waited, w.Pods))
	}
	x := axis{0, most * 1.05, labelWidth + 104, chartWidth - rightMargin - 40}
	bottom := d.height - axisHeight + 6
	d.scale(x, bottom, func(v float64) string { return short(100*v) + " %" }, who)
	y := gap / 2
	for _, c := range classes {
		d.text("class", 0, y+bar*float64(len(names))/2+4, clip(c, 19))
		for i, n := range names {
			w, known := of[[2]string{c, n}]
			if !known {
				continue
			}
			late, never := part(w.Waited, w.Pods), part(w.Never, w.Pods)
			tip := fmt.Sprintf("%s, %s: %d of %d pods waited, %d of them got no node", c, n, w.Waited, w.Pods, w.Never)
			d.text("tiny end", x.from-6, y+10, clip(n, 16))
			d.box("bar "+series(i), [4]float64{x.from, y + 1, math.Max(x.at(late)-x.from, 0.5), bar - 2}, tip)
			d.box("never", [4]float64{x.from, y + 1, x.at(never) - x.from, bar - 2}, tip)
			d.text("tiny", x.at(late)+4, y+10, short(math.Round(1000*late)/10)+" %")
			y += bar
		}
		y += gap
	}
	caption := upper(who) + ", by class. The dark part got none until the end."
	return chart{d.html(caption + " The table below has the figures."), caption}
}

func part(n, of int) float64 {
	if of <= 0 {
		return 0
	}
	return float64(n) / float64(of)
}

func upper(s string) string {
	if s == "" {
		return s
	}
	r := []rune(s)
	return strings.ToUpper(string(r[0])) + string(r[1:])
}

// judged are the metrics whose differences from the baseline are shown.
var judged = []eval.Metric{eval.Objective, overTime, eval.Unscheduled, waited}

// Add adds a comparison: the scenario with each episode's metrics and the differences from the baseline, and a verdict on each result and
// threshold.
func (r *Run) Add(c *eval.Comparison) {
	s := Scenario{
		Name: c.Scenario.Name, About: c.Scenario.About, Objective: c.Scenario.Objective.Name(), Baseline: c.Results[0].Name,
	}
	if c.Observed != nil {
		s.Observed = *c.Observed
	}
	var shown []eval.Metric
	for _, m := range eval.Metrics {
		if !c.Shows(m) {
			continue
		}
		if m.Name == overTime.Name {
			m = overTime
		}
		shown = append(shown, m)
		s.Metrics = append(s.Metrics, Metric{Name: m.Name, Title: m.Title, Digits: m.Digits})
	}
	for _, x := range c.Results {
		for _, o := range x.Outcomes {
			e := Episode{Contender: x.Name, Values: map[string]float64{}}
			for _, m := range shown {
				e.Values[m.Name] = m.Of(o)
			}
			s.Episodes = append(s.Episodes, e)
		}
	}
	columns := c.Columns(judged...)
	all, n := eval.Judge(columns...), len(judged)*(len(c.Results)-1)
	if n > 0 && c.Samples() > 1 {
		s.Rule = eval.Words.Rule(c.Samples(), n)
	}
	for k := range columns {
		for i, d := range all[k] {
			if d != nil {
				s.Differences = append(s.Differences, differenceOf(*d, c.Results[i].Name, judged[k]))
			}
		}
	}
	for i, x := range c.Results[1:] {
		v := verdictOn(row{Baseline: c.Results[0], Policy: x, Difference: *all[1][i+1], Left: *all[2][i+1]}, n) // as in judged
		v.Scenario = s.Name
		r.Verdicts = append(r.Verdicts, v)
	}
	for _, v := range c.Verdicts {
		state := Fail
		if v.Pass {
			state = Pass
		}
		r.Verdicts = append(r.Verdicts, Verdict{s.Name, state, fmt.Sprintf("%s (%.4g and %.4g)", v.Threshold, v.Left, v.Right)})
	}
	r.Scenarios = append(r.Scenarios, s)
}

// differenceOf returns the difference of a contender in a metric.
func differenceOf(d eval.Difference, contender string, m eval.Metric) Difference {
	out := Difference{Contender: contender, Metric: m.Name, Mean: d.Mean, Relative: d.Relative}
	if d.Samples > 1 {
		out.Low, out.High = &d.Low, &d.High
	}
	if d.Mark != eval.Unmarked {
		out.P, out.Mark = &d.Adjusted, StateOf(d.Mark)
	}
	return out
}

// row compares a policy with a baseline on one scenario.
type row struct {
	Baseline, Policy eval.Result
	// Difference is the policy's objective over time minus the baseline's, and Left the same for the unscheduled pods.
	Difference, Left eval.Difference
}

// outcome says in a word how the policy of a row does beside the baseline.
type outcome string

// The outcomes. Ahead is better in the objective or in the unscheduled pods and not worse in the other, and behind the contrary.
const (
	ahead     outcome = "ahead"
	behind    outcome = "behind"
	mixed     outcome = "mixed" // better in one, worse in the other
	even      outcome = "level"
	unclear   outcome = "unclear" // eval.Unclear in one, and neither better nor worse in the other
	fewSeeds  outcome = "too few seeds"
	oneSample outcome = "one sample"
)

// outcome returns the row in a word.
func (r row) outcome() outcome {
	has := func(m eval.Mark) bool { return r.Difference.Mark == m || r.Left.Mark == m }
	switch {
	case r.Difference.Samples < 2:
		return oneSample
	case has(eval.Unmarked):
		return fewSeeds
	case has(eval.Lower) && has(eval.Higher):
		return mixed
	case has(eval.Lower):
		return ahead
	case has(eval.Higher):
		return behind
	case has(eval.Unclear):
		return unclear
	}
	return even
}

// says are the states and phrases of outcomes.
var says = map[outcome]struct {
	state  State
	phrase string
}{
	ahead: {Better, "is ahead of"}, behind: {Worse, "is behind"},
	even:      {Level, "is level with"},
	mixed:     {Note, "is better in one and worse in the other than"},
	unclear:   {Unclear, "is not clearly apart from"},
	fewSeeds:  {Note, "was compared on too few seeds with"},
	oneSample: {Note, "was compared on one sample with"},
}

// verdictOn returns the verdict of a row, which was judged together with the given number of comparisons.
func verdictOn(r row, comparisons int) Verdict {
	word := r.outcome()
	text := fmt.Sprintf("%s %s %s: objective over time %.4f against %.4f%s, unscheduled %.1f against %.1f", r.Policy.Name, says[word].phrase,
		r.Baseline.Name,
		r.Policy.Mean(overTime), r.Baseline.Mean(overTime), change(r.Difference), r.Policy.Mean(eval.Unscheduled),
		r.Baseline.Mean(eval.Unscheduled))
	if word == fewSeeds {
		text += fmt.Sprintf("; a verdict takes at least %d seeds, and there are %d", eval.MinSeeds(comparisons), r.Difference.Samples)
	}
	return Verdict{State: says[word].state, Text: text}
}

var (
	overTime  = eval.OverTime()
	waited, _ = eval.FindMetric("waited")
)

// change describes a difference in parentheses.
func change(d eval.Difference) string {
	var parts []string
	if d.Relative != nil {
		parts = append(parts, fmt.Sprintf("%+.1f %%", 100**d.Relative))
	}
	if d.Samples > 1 {
		parts = append(parts, fmt.Sprintf("difference %+.4f to %+.4f", d.Low, d.High))
	}
	if chance := d.Chance(); chance != "" {
		parts = append(parts, "p "+chance)
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}
