package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/eval"
)

// mostSpread is the number of metrics whose distributions, and of those whose differences are drawn.
const mostSpread = 4

// scenario returns the section of a scenario.
func (b *builder) scenario(id, name string, r *runfolder.Run) scenario {
	out := scenario{ID: id, Scenario: runfolder.Scenario{Name: name}}
	for _, s := range r.Scenarios {
		if s.Name == name {
			out.Scenario = s
		}
	}
	names, values := episodes(&out.Scenario, r)
	if len(names) > 0 {
		out.Means = means(out.Scenario, names, values)
	}
	b.differences(&out, r)
	for _, m := range judgedFirst(out.Metrics, r.Differences)[:min(mostSpread, len(out.Metrics))] {
		if slices.ContainsFunc(names, func(n string) bool { return len(values[m.Name][n]) > 1 }) { // one episode has no distribution
			out.Spread = append(out.Spread, strips(m, names, values[m.Name]))
		}
	}
	b.frames(&out, r)
	b.waits(&out, r)
	for _, t := range r.Tables {
		if t.Scenario == name && name != "" {
			out.Tables = append(out.Tables, b.table(t))
		}
	}
	return out
}

// judgedFirst returns the metrics, those with differences first.
func judgedFirst(metrics []runfolder.Metric, judged []runfolder.Difference) []runfolder.Metric {
	out := slices.Clone(metrics)
	slices.SortStableFunc(out, func(a, b runfolder.Metric) int {
		rank := func(m runfolder.Metric) int {
			if slices.ContainsFunc(judged, func(d runfolder.Difference) bool { return d.Metric == m.Name }) {
				return 0
			}
			return 1
		}
		return rank(a) - rank(b)
	})
	return out
}

// episodes returns the contenders and their values of each metric. It adds metrics that the scenario does not
// describe.
func episodes(s *runfolder.Scenario, r *runfolder.Run) (names []string, values map[string]map[string][]float64) {
	values = map[string]map[string][]float64{}
	for _, e := range r.Episodes {
		if e.Scenario != s.Name {
			continue
		}
		if !slices.Contains(names, e.Contender) {
			names = append(names, e.Contender)
		}
		for _, name := range slices.Sorted(maps.Keys(e.Values)) {
			if values[name] == nil {
				values[name] = map[string][]float64{}
				metricOf(s, name)
			}
			values[name][e.Contender] = append(values[name][e.Contender], e.Values[name])
		}
	}
	s.Metrics = slices.DeleteFunc(slices.Clone(s.Metrics), func(m runfolder.Metric) bool { return values[m.Name] == nil })
	return names, values
}

// metricOf returns the metric with a name. It adds one to the scenario if there is none.
func metricOf(s *runfolder.Scenario, name string) runfolder.Metric {
	for _, m := range s.Metrics {
		if m.Name == name {
			return m
		}
	}
	m := runfolder.Metric{Name: name, Title: name, Digits: 4}
	s.Metrics = append(slices.Clone(s.Metrics), m)
	return m
}

// means returns the table of means.
func means(s runfolder.Scenario, names []string, values map[string]map[string][]float64) *table {
	t := &table{
		Caption: "Means over episodes; less is better unless marked", Columns: []string{"policy", "episodes"}, Numeric: []bool{false, true},
	}
	for _, m := range s.Metrics {
		title := m.Title
		if m.More {
			title += " (more is better)"
		}
		t.Columns, t.Numeric = append(t.Columns, title), append(t.Numeric, true)
	}
	for _, n := range names {
		label, most := n, 0
		if n == s.Baseline {
			label += " (baseline)"
		}
		row := []string{label, ""}
		for _, m := range s.Metrics {
			v := values[m.Name][n]
			most = max(most, len(v))
			row = append(row, number(stat.Mean(v, nil), m.Digits))
		}
		row[1] = number(float64(most), 0)
		t.Rows = append(t.Rows, row)
	}
	return t
}

// differences draws the differences of the first metrics and makes the table of all.
func (b *builder) differences(out *scenario, r *runfolder.Run) {
	var order []string
	by := map[string][]runfolder.Difference{}
	for _, d := range r.Differences {
		if d.Scenario != out.Name {
			continue
		}
		if by[d.Metric] == nil {
			order = append(order, d.Metric)
		}
		by[d.Metric] = append(by[d.Metric], d)
	}
	if len(order) == 0 {
		return
	}
	t := table{
		Caption: "Differences from " + cmp.Or(out.Baseline, "the baseline"),
		Columns: []string{"metric", "policy", "difference", "95 % interval", "relative", "adjusted p", "mark"},
		Numeric: []bool{false, false, true, true, true, true, false},
	}
	described := out.Scenario
	for i, name := range order {
		m := metricOf(&described, name)
		if i < mostSpread {
			out.Differences = append(out.Differences, effects(m, cmp.Or(out.Baseline, "the baseline"), by[name]))
		}
		for _, d := range by[name] {
			row := []string{m.Title, d.Contender, signed(d.Mean, m.Digits), "", "", "", string(d.Mark)}
			if d.Low != nil && d.High != nil {
				row[3] = signed(*d.Low, m.Digits) + " to " + signed(*d.High, m.Digits)
			}
			if d.Relative != nil {
				row[4] = signed(100**d.Relative, 1) + " %"
			}
			if d.P != nil {
				row[5] = eval.Significance(*d.P)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	out.Changes = new(b.cut(t))
}

// frames makes the heat maps and the curves of the cluster over time, of the first seed that has frames.
func (b *builder) frames(out *scenario, r *runfolder.Run) {
	var films []film
	at := map[string]int{}
	seeds := map[string]uint64{}
	for _, f := range r.Frames {
		if f.Scenario != out.Name {
			continue
		}
		i, known := at[f.Contender]
		if !known {
			i = len(films)
			at[f.Contender], seeds[f.Contender] = i, f.Seed
			films = append(films, film{contender: f.Contender})
		}
		if f.Seed == seeds[f.Contender] {
			films[i].frames = append(films[i].frames, f)
		}
	}
	if len(films) == 0 {
		return
	}
	for _, f := range films {
		slices.SortStableFunc(f.frames, func(a, b runfolder.Frame) int { return cmp.Compare(a.At, b.At) })
	}
	heat, c := heatOf(out.ID, out.Scenario, films, b.cells)
	out.Heat = heat
	b.data.Clusters[out.ID] = c
	out.Time = b.overTime(out.Scenario, films)
}

// overTime draws figures of the cluster over time.
func (b *builder) overTime(s runfolder.Scenario, films []film) (out []chart) {
	for _, p := range []struct {
		title   string
		percent bool
		of      func(runfolder.Frame, moment) float64
	}{
		{"CPU requested, mean of the nodes", true, func(_ runfolder.Frame, m moment) float64 { return m.cpu }},
		{"load imbalance: standard deviation of CPU over nodes", false, func(_ runfolder.Frame, m moment) float64 { return m.spread }},
		{"pods waiting", false, func(f runfolder.Frame, _ moment) float64 { return float64(f.Waiting) }},
		{"nodes in use", false, func(_ runfolder.Frame, m moment) float64 { return float64(m.used) }},
	} {
		c := plot{title: p.title, across: "time in " + cmp.Or(s.TimeUnit, "seconds"), percent: p.percent}
		for _, f := range films {
			line := curve{name: f.contender}
			for _, x := range thin(f.frames, b.points) {
				line.x, line.y = append(line.x, x.At), append(line.y, p.of(x, summarise(x)))
			}
			c.curves = append(c.curves, line)
		}
		out = append(out, c.chart())
	}
	return out
}

// waits draws the waiting by class and makes its table.
func (b *builder) waits(out *scenario, r *runfolder.Run) {
	var classes, names []string
	of := map[[2]string]runfolder.Waits{}
	t := table{
		Caption: "Waiting by class, in " + cmp.Or(out.TimeUnit, "seconds"),
		Columns: []string{"class", "policy", "pods", "waited", "no node", "mean wait", "median", "90 %", "95 %", "99 %", "longest"},
		Numeric: []bool{false, false, true, true, true, true, true, true, true, true, true},
	}
	for _, w := range r.Waits {
		if w.Scenario != out.Name {
			continue
		}
		if !slices.Contains(classes, w.Class) {
			classes = append(classes, w.Class)
		}
		if !slices.Contains(names, w.Contender) {
			names = append(names, w.Contender)
		}
		of[[2]string{w.Class, w.Contender}] = w
	}
	if len(classes) == 0 {
		return
	}
	for _, c := range classes {
		for _, n := range names {
			w, known := of[[2]string{c, n}]
			if !known {
				continue
			}
			row := []string{c, n, number(float64(w.Pods), 0), number(float64(w.Waited), 0), number(float64(w.Never), 0), short(w.Mean)}
			for i := range runfolder.Quantiles {
				cell := ""
				if i < len(w.Quantiles) {
					cell = short(w.Quantiles[i])
				}
				row = append(row, cell)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	out.WaitRows = new(b.cut(t))
	const most = 160 // bars
	if len(classes)*len(names) <= most {
		out.Waits = new(waitBars(late(out.Scenario), classes, names, of))
	}
}

// late names the pods that waited.
func late(s runfolder.Scenario) string {
	if s.Soon == 0 {
		return "pods that got no node at once"
	}
	unit := cmp.Or(s.TimeUnit, "seconds")
	if s.Soon == 1 {
		unit = strings.TrimSuffix(unit, "s")
	}
	return "pods that waited more than " + short(s.Soon) + " " + unit
}

// mostCurves is the number of curves of a run that are drawn.
const mostCurves = 24

// curves draws curves, evaluations first, and sums them up in a table with a caption. across names the steps.
func (b *builder) curves(all []runfolder.Scalar, caption, across string) (out []chart, rows *table) {
	by := map[string][]runfolder.Scalar{}
	for _, s := range all {
		by[s.Tag] = append(by[s.Tag], s)
	}
	tags := slices.Sorted(maps.Keys(by))
	slices.SortStableFunc(tags, func(x, y string) int { return rank(x) - rank(y) })
	if len(tags) == 0 {
		return nil, nil
	}
	t := table{
		Caption: caption, Columns: []string{"curve", "values", "first", "lowest", "highest", "last", "last " + across},
		Numeric: []bool{false, true, true, true, true, true, true},
	}
	for i, tag := range tags {
		points := by[tag]
		first, last := points[0], points[len(points)-1]
		low, high := first.Value, first.Value
		for _, p := range points {
			low, high = min(low, p.Value), max(high, p.Value)
		}
		t.Rows = append(t.Rows, []string{
			tag, number(float64(len(points)), 0), short(first.Value), short(low), short(high), short(last.Value), number(last.Step, 0),
		})
		if i >= mostCurves {
			continue
		}
		line, each := smooth(points, b.points)
		p := plot{title: tag, across: across, curves: []curve{line}}.chart()
		if p.Caption = tag; each > 1 {
			p.Caption += fmt.Sprintf(" (means of %d values)", each)
		}
		out = append(out, p)
	}
	if n := len(tags) - mostCurves; n > 0 {
		t.Caption += fmt.Sprintf(" (%d curves are not drawn)", n)
	}
	return out, new(b.cut(t))
}

// rank puts evaluations before returns and these before the rest.
func rank(tag string) int {
	for i, prefix := range []string{"eval/", "online/eval", "charts/", "cluster/"} {
		if strings.HasPrefix(tag, prefix) {
			return i
		}
	}
	return 9
}

// smooth returns at most n points, each the mean of equally many neighbours.
func smooth(points []runfolder.Scalar, n int) (line curve, each int) {
	each = max((len(points)+n-1)/n, 1)
	for i := 0; i < len(points); i += each {
		part := points[i:min(i+each, len(points))]
		var x, y float64
		for _, p := range part {
			x, y = x+p.Step/float64(len(part)), y+p.Value/float64(len(part))
		}
		line.x, line.y = append(line.x, x), append(line.y, y)
	}
	return line, each
}
