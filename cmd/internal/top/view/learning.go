package view

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/scheduler/plugin/learningcurve"
	"gnnsched/scheduler/shadow"
)

// learningScreen shows how the profiles of a scheduler learn, each figure as a curve over time.
type learningScreen struct{ list[learningCurve] }

// learningCurve is a curve of a profile.
type learningCurve struct {
	profile string // empty if only one profile learns
	learningcurve.Curve
}

func (l *learningCurve) name() string {
	return state.Printable(strings.TrimPrefix(l.profile+" "+l.Name, " "))
}

func newLearningScreen() *learningScreen {
	s := &learningScreen{}
	s.list = list[learningCurve]{
		about: description{
			name: "learning", open: bind("t", "how the scheduler learns", "t"),
			notes: []note{{title: "Learning", lines: []string{
				"  curves of a scheduler with --learn and of its trainer, the newest at the right",
				"  LOW, HIGH   the ends of the curve's scale; of several samples in a cell, their mean",
			}}},
		},
		ask: state.Ask{Learning: true}, sorted: "newest at the right", noun: "figure", bare: true,
		id: (*learningCurve).name, rows: learningCurves,
		texts:   func(l *learningCurve) []string { return []string{l.name()} },
		above:   func(c *canvas) []string { return []string{s.summary(c), s.explained(c)} },
		columns: curveColumns,
		none: func(c *canvas) string {
			if c.details.LearningErr != nil {
				return state.Printable(hintOf(c.details.LearningErr))
			}
			return "no profile of this scheduler learns; rungnn --learn does"
		},
	}
	return s
}

// curveColumns are the columns of the curves: three figures, and the curve in the rest of the window.
func curveColumns(c *canvas) []column[learningCurve] {
	name := max(18, c.width/5)
	room := max(c.width-name-32, c.width*3/8, 1)
	scale := func(pick func(low, high float64) float64) func(*learningCurve) string {
		return func(l *learningCurve) string {
			_, low, high := binned(l.Values, room)
			_, known := l.Values.Last()
			return number(pick(low, high), known)
		}
	}
	return []column[learningCurve]{
		{title: "FIGURE", most: name, cell: (*learningCurve).name},
		{title: "NOW", right: true, cell: func(l *learningCurve) string { return number(l.Values.Last()) }},
		{title: "LOW", right: true, extra: 1, cell: scale(func(low, _ float64) float64 { return low })},
		{title: "HIGH", right: true, extra: 1, cell: scale(func(_, high float64) float64 { return high })},
		{title: span(c.details.Learning.Times), right: true, width: room, draw: func(l *learningCurve) string {
			points, low, high := binned(l.Values, room)
			return c.st.Good.Render(c.st.fitRight(curve(points, low, high), room))
		}},
	}
}

func learningCurves(c *canvas) (all []learningCurve) {
	samples := &c.details.Learning
	names := samples.Names()
	for _, profile := range names {
		for _, curve := range samples.Curves(profile) {
			l := learningCurve{Curve: curve}
			if len(names) > 1 {
				l.profile = profile
			}
			all = append(all, l)
		}
	}
	return all
}

// summary counts the samples that every profile has learned from, or explains why nothing newer is known.
func (s *learningScreen) summary(c *canvas) string {
	parts := c.oneServer()
	if err := c.details.LearningErr; err != nil {
		return c.st.Fit(c.st.Join(append(parts, c.st.Warn.Render(state.Printable(err.Error()))), c.width), c.width)
	}
	samples := &c.details.Learning
	for _, profile := range samples.Names() {
		count := func(name string) string {
			v, _ := samples.Last(profile, name)
			return strconv.FormatFloat(v, 'f', 0, 64)
		}
		parts = append(parts, c.st.Bold.Render(state.Printable(profile))+" "+count(learningcurve.Sent)+" placements")
		if samples.Reported(profile) {
			parts = append(parts, count(learningcurve.Updates)+" updates",
				"guard passed "+count(learningcurve.Passed)+", refused "+count(learningcurve.Refused))
		} else {
			parts = append(parts, "no report of the trainer yet")
		}
		for _, bad := range []struct{ name, says string }{{learningcurve.Dropped, "dropped "}, {learningcurve.Restarts, "trainer restarts "}} {
			if v, _ := samples.Last(profile, bad.name); v > 0 {
				parts = append(parts, c.st.Warn.Render(bad.says+count(bad.name)))
			}
		}
	}
	return c.st.Fit(c.st.Join(parts, c.width), c.width)
}

// oneServer names the scheduler that a screen of one scheduler shows, if there are others.
func (c *canvas) oneServer() []string {
	if len(c.servers) < 2 {
		return nil
	}
	return []string{c.st.Accent.Render(fmt.Sprintf("%s (o: next of %d)", c.servers[c.server], len(c.servers)))}
}

// explained describes the chosen figure.
func (s *learningScreen) explained(c *canvas) string {
	if c.cursor >= len(s.shown) {
		return ""
	}
	l := &s.shown[c.cursor]
	return c.st.Dim.Render(c.st.Fit(l.name()+": "+l.About, c.width))
}

// span returns the time that the curves cover.
func span(times []int64) string {
	if len(times) == 0 {
		return ""
	}
	return "LAST " + short(time.Duration(times[len(times)-1]-times[0])*time.Second)
}

// short writes a duration in seconds without its zeros at the end: 10m instead of 10m0s, 1h instead of 1h0m0s.
func short(d time.Duration) string {
	text := d.Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// number writes a figure in few characters.
func number(v float64, known bool) string {
	switch a := math.Abs(v); {
	case !known:
		return "-"
	case a >= 1e6 || a > 0 && a < 1e-3:
		return strconv.FormatFloat(v, 'e', 1, 64)
	case a >= 100 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return fmt.Sprintf("%.3g", v)
}

// binned puts the values into at most n cells, each with the mean of its values or NaN if none is known, and returns the
// range of these means.
func binned(values []float64, n int) (cells []float64, low, high float64) {
	per := max((len(values)+n-1)/n, 1)
	low, high = math.Inf(1), math.Inf(-1)
	first := len(values) % per // the oldest cell may have fewer, so that the others keep their values when one is added
	for at := first - per; at < len(values); at += per {
		sum, count := 0.0, 0
		for _, v := range values[max(at, 0):max(at+per, 0)] {
			if !math.IsNaN(v) {
				sum, count = sum+v, count+1
			}
		}
		if at < 0 && first == 0 {
			continue
		}
		mean := math.NaN()
		if count > 0 {
			mean = sum / float64(count)
			low, high = min(low, mean), max(high, mean)
		}
		cells = append(cells, mean)
	}
	return cells, low, high
}

// curve draws values from low to high as columns of signs. A value that is not known is a space; low is the lowest sign.
func curve(values []float64, low, high float64) string {
	var line strings.Builder
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			line.WriteByte(' ')
		case high > low:
			line.WriteString(heatSigns[int((v-low)/(high-low)*float64(len(heatSigns)-1)+0.5)])
		default:
			line.WriteString(heatSigns[0])
		}
	}
	return line.String()
}

// shadowScreen shows the findings of a shadow scheduler: the verdict and its figures, and below them the last bindings or the pods that
// would have failed.
type shadowScreen struct {
	list[shadow.Comparison]
	failing bool // only pods that would have failed are listed
	fails   key.Binding
}

func newShadowScreen() *shadowScreen {
	s := &shadowScreen{fails: bind("f", "shadow: failures, or all", "f")}
	s.list = list[shadow.Comparison]{
		about: description{
			name: "shadow", open: bind("s", "what a shadow scheduler finds", "s"),
			keys: []key.Binding{s.fails}, hints: [][2]string{{"f", "failures"}},
			notes: []note{{title: "Shadow", lines: []string{
				"  what a scheduler with --shadow would do in place of the one that it watches",
				"  GAIN        of a pod: cost after their choice minus cost after ours",
				"  agreement   the same or an equally good node, of the pods with a choice",
			}}},
		},
		ask: state.Ask{Shadow: true}, noun: "pod", none: s.noPods, bare: true, rows: s.pods, above: s.figures, columns: s.cells,
		id: func(x *shadow.Comparison) string { return x.Pod + x.Time.String() },
		to: func(x *shadow.Comparison) target { return podTarget(x.Pod) },
	}
	return s
}

func (s *shadowScreen) pods(c *canvas) []shadow.Comparison {
	found := &c.details.Shadow
	all := found.Recent
	if s.failing {
		all = nil
		for _, x := range slices.Backward(found.Failures) { // the newest first
			all = append(all, shadow.Comparison{Pod: x.Pod, What: x.What, Theirs: x.Theirs, Node: x.Node, Why: x.Why})
		}
	}
	s.texts = func(x *shadow.Comparison) []string {
		return []string{x.Pod, x.Theirs, x.Node, resultOf(found, x).Text, x.Why}
	}
	return all
}

// resultOf returns the result that a comparison counts for.
func resultOf(found *shadow.Live, x *shadow.Comparison) shadow.Result {
	for _, r := range found.Results {
		if r.What == x.What {
			return r
		}
	}
	return shadow.Result{Text: string(x.What)}
}

func (s *shadowScreen) press(_ *canvas, k tea.KeyPressMsg) {
	if key.Matches(k, s.fails) {
		s.failing = !s.failing
	}
}

func (s *shadowScreen) order(*canvas) string {
	if s.failing {
		return "failures, newest first"
	}
	return "newest first"
}

func (s *shadowScreen) noPods(c *canvas) string {
	switch {
	case !known(c):
		return state.Printable(hintOf(c.details.ShadowErr))
	case s.failing:
		return "no pod would have failed"
	}
	return "no pod was bound yet"
}

// known reports whether the scheduler has reported its findings.
func known(c *canvas) bool { return c.details.Shadow.Version != "" }

// figures are the lines above the list, without the least important ones in a low window.
func (s *shadowScreen) figures(c *canvas) []string {
	var all []headerLine
	add := func(importance int, style lipgloss.Style, texts ...string) {
		for _, text := range texts {
			all = append(all, headerLine{style.Render(c.st.Fit(state.Printable(text), c.width)), importance})
		}
	}
	for _, name := range c.oneServer() {
		all = append(all, headerLine{c.st.Fit(name, c.width), 9})
	}
	if err := c.details.ShadowErr; err != nil {
		add(9, c.st.Warn, err.Error())
	}
	if !known(c) {
		return c.fitting(all)
	}
	found := &c.details.Shadow
	answer := c.st.Warn
	if found.Verdict.Answer == shadow.Safe {
		answer = c.st.Good
	}
	said := answer.Bold(true).Render(strings.ToUpper(state.Printable(string(found.Verdict.Answer))))
	all = append(all, headerLine{c.st.Fit(said+c.st.Dim.Render(dot)+state.Printable(found.Title()), c.width), 10})
	for _, why := range found.Verdict.Why {
		add(8, c.st.Plain, "  "+why)
	}
	for _, note := range found.Verdict.Notes {
		add(3, c.st.Dim, "  note: "+note)
	}
	for i, line := range s.means(c) {
		all = append(all, headerLine{line, 6 - i/2}) // pods waiting last
	}
	for _, line := range []headerLine{{s.agreement(c), 7}, {s.failures(c), 7}, {s.latency(c), 5}} {
		all = append(all, headerLine{c.st.Fit(line.text, c.width), line.importance})
	}
	for _, line := range s.gain(c) {
		all = append(all, headerLine{c.st.Fit(line, c.width), 2})
	}
	return c.fitting(all)
}

// fitting leaves room for header and footer of the view, titles and some rows.
func (c *canvas) fitting(all []headerLine) []string {
	const others = 12
	return mostImportant(all, max(1, c.height-others))
}

// means compares the mean costs and waiting pods, a line each below the titles.
func (s *shadowScreen) means(c *canvas) []string {
	list := c.details.Shadow.Means()
	return drawTable(c, []column[shadow.Mean]{
		{title: "MEAN", cell: func(m *shadow.Mean) string { return m.Of }},
		{title: "REAL", right: true, cell: func(m *shadow.Mean) string { return m.Real }},
		{title: "WITH " + state.Printable(c.details.Shadow.Profile), right: true, cell: func(m *shadow.Mean) string { return m.Ours }},
		{title: "DIFFERENCE, 95% INTERVAL", cell: func(m *shadow.Mean) string { return m.Difference }},
	}, list, 0, len(list))
}

// agreement returns how often the profile would choose as the other scheduler did.
func (s *shadowScreen) agreement(c *canvas) string {
	found := &c.details.Shadow
	parts := []string{c.st.Bold.Render("agreement " + state.Percent(found.Agreement))}
	for _, r := range found.Results {
		if !r.Fails {
			parts = append(parts, fmt.Sprintf("%s %d", state.Printable(string(r.What)), r.Pods))
		}
	}
	return c.st.Join(append(parts, fmt.Sprintf("compared %d of %d", found.Counts.Compared, found.Counts.Bound)), c.width)
}

// failures counts the pods that would have failed.
func (s *shadowScreen) failures(c *canvas) string {
	found := &c.details.Shadow
	count := func(text string, n int) string {
		style := c.st.Plain
		if n > 0 {
			style = c.st.Warn
		}
		return style.Render(fmt.Sprintf("%s %d", text, n))
	}
	parts := []string{c.st.Bold.Render("would have failed")}
	for _, r := range found.Results {
		if r.Fails {
			parts = append(parts, count(state.Printable(string(r.What)), r.Pods))
		}
	}
	parts = append(parts, count("fallbacks", found.Counts.Fallbacks), count("wait now", found.Counts.WaitingOurs))
	return c.st.Join(parts, c.width)
}

// latency returns the durations of decisions, and the effect of single choices.
func (s *shadowScreen) latency(c *canvas) string {
	found := &c.details.Shadow
	micro := func(seconds float64) string { return c.st.Latency(1e6 * seconds) }
	p99 := "99% " + micro(found.Time.P99)
	if found.Time.P99 > found.Limits.P99 {
		p99 = c.st.Warn.Render(p99)
	}
	step := found.OneStep
	return c.st.Join([]string{c.st.Bold.Render("latency") + " median " + micro(found.Time.Median), p99, "most " + micro(found.Time.Max),
		fmt.Sprintf("one step better %d, equal %d, worse %d", step.Better, step.Equal, step.Worse)}, c.width)
}

// gain draws the gain over time; nothing before the first block of time.
func (s *shadowScreen) gain(c *canvas) []string {
	var gain learningcurve.Column
	seconds := 0.0
	for _, b := range c.details.Shadow.Course {
		gain, seconds = append(gain, b.Theirs-b.Ours), seconds+b.Seconds
	}
	if gain == nil {
		return nil
	}
	cells, low, high := binned(gain, max(c.width/3, 1))
	return []string{c.st.Join([]string{
		c.st.Bold.Render("gain") + " now " + number(gain.Last()), "low " + number(low, true), "high " + number(high, true),
		"last " + short(time.Duration(seconds)*time.Second) + " " + c.st.Good.Render(curve(cells, low, high)),
	}, c.width)}
}

// cells returns the columns of the visible list.
func (s *shadowScreen) cells(c *canvas) []column[shadow.Comparison] {
	found := &c.details.Shadow
	style := func(x *shadow.Comparison) lipgloss.Style {
		if resultOf(found, x).Fails {
			return c.st.Warn
		}
		return c.st.Plain
	}
	decided := func(x *shadow.Comparison) string { return x.Time.In(c.frame.Time.Location()).Format(time.TimeOnly) }
	cols := []column[shadow.Comparison]{
		{title: "TIME", cell: decided},
		{title: "POD", middle: true, cell: func(x *shadow.Comparison) string { return x.Pod }, style: style},
		{title: "REALLY ON", middle: true, cell: func(x *shadow.Comparison) string { return x.Theirs }},
		{title: "WOULD GO TO", middle: true, cell: func(x *shadow.Comparison) string { return cmp.Or(x.Node, "none") }, style: style},
	}
	result := column[shadow.Comparison]{title: "RESULT", cell: func(x *shadow.Comparison) string { return resultOf(found, x).Text }}
	why := column[shadow.Comparison]{title: "WHY", extra: extraIf(!s.failing), cell: func(x *shadow.Comparison) string { return x.Why }}
	if s.failing {
		return append(cols[1:], why, result)
	}
	return append(cols,
		column[shadow.Comparison]{title: "GAIN", right: true, cell: func(x *shadow.Comparison) string { return gainText(found, x) }},
		column[shadow.Comparison]{title: "TOOK", right: true, cell: func(x *shadow.Comparison) string { return c.st.Latency(1e6 * x.Took) }},
		result, why)
}

// gainText renders the cost that our choice would have saved, if it differs from theirs.
func gainText(found *shadow.Live, x *shadow.Comparison) string {
	if x.Gained == 0 || resultOf(found, x).Fails {
		return "-"
	}
	return fmt.Sprintf("%+.2g", x.Gained)
}
