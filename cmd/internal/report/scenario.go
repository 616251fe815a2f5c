package report

import (
	"cmp"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"gnnsched/scheduler/eval"
)

// mostSpread is the largest number of distribution plots, and of difference plots.
const mostSpread = 4

// scenario returns the section of a scenario.
func (b *builder) scenario(id string, s Scenario) scenario {
	out := scenario{ID: id, Scenario: s}
	var names []string
	values := map[string]map[string][]float64{} // by metric and contender
	for _, m := range s.Metrics {
		values[m.Name] = map[string][]float64{}
	}
	for _, e := range s.Episodes {
		if !slices.Contains(names, e.Contender) {
			names = append(names, e.Contender)
		}
		for _, m := range s.Metrics {
			values[m.Name][e.Contender] = append(values[m.Name][e.Contender], e.Values[m.Name])
		}
	}
	if len(names) > 0 {
		out.Means = means(s, names, values)
	}
	b.differences(&out)
	for _, m := range judgedFirst(s.Metrics, s.Differences)[:min(mostSpread, len(s.Metrics))] {
		if slices.ContainsFunc(names, func(n string) bool { return len(values[m.Name][n]) > 1 }) { // one episode has no distribution
			out.Spread = append(out.Spread, strips(m, names, values[m.Name]))
		}
	}
	b.frames(&out)
	b.waits(&out)
	for _, t := range s.Tables {
		out.Others = append(out.Others, b.table(t))
	}
	return out
}

// judgedFirst returns the metrics, those with differences first.
func judgedFirst(metrics []Metric, judged []Difference) []Metric {
	rank := func(m Metric) int {
		if slices.ContainsFunc(judged, func(d Difference) bool { return d.Metric == m.Name }) {
			return 0
		}
		return 1
	}
	return slices.SortedStableFunc(slices.Values(metrics), func(a, b Metric) int { return rank(a) - rank(b) })
}

// metricOf returns the metric with a name; one for anything if the scenario describes none.
func metricOf(s Scenario, name string) Metric {
	if i := slices.IndexFunc(s.Metrics, func(m Metric) bool { return m.Name == name }); i >= 0 {
		return s.Metrics[i]
	}
	return Metric{Name: name, Title: name, Digits: 4}
}

// means returns the table of means.
func means(s Scenario, names []string, values map[string]map[string][]float64) *table {
	t := &table{
		Caption: "Means over episodes; less is better", Columns: []string{"policy", "episodes"}, Numeric: []bool{false, true},
	}
	for _, m := range s.Metrics {
		t.Columns, t.Numeric = append(t.Columns, m.Title), append(t.Numeric, true)
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
func (b *builder) differences(out *scenario) {
	var order []string
	by := map[string][]Difference{}
	for _, d := range out.Differences {
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
	for i, name := range order {
		m := metricOf(out.Scenario, name)
		if i < mostSpread {
			out.Effects = append(out.Effects, effects(m, cmp.Or(out.Baseline, "the baseline"), by[name]))
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
func (b *builder) frames(out *scenario) {
	var films []film
	at := map[string]int{}
	seeds := map[string]uint64{}
	for _, f := range out.Observed.Frames {
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
		slices.SortStableFunc(f.frames, func(a, b eval.Frame) int { return cmp.Compare(a.At, b.At) })
	}
	heat, c := heatOf(out.ID, out.Scenario, films, b.cells)
	out.Heat = heat
	b.data.Clusters[out.ID] = c
	out.Time = b.overTime(out.Scenario, films)
}

// overTime draws figures of the cluster over time.
func (b *builder) overTime(s Scenario, films []film) (out []chart) {
	for _, p := range []struct {
		title   string
		percent bool
		of      func(eval.Frame, moment) float64
	}{
		{"CPU requested, mean of the nodes", true, func(_ eval.Frame, m moment) float64 { return m.cpu }},
		{"load imbalance: standard deviation of CPU over nodes", false, func(_ eval.Frame, m moment) float64 { return m.spread }},
		{"pods waiting", false, func(f eval.Frame, _ moment) float64 { return float64(f.Waiting) }},
		{"nodes in use", false, func(_ eval.Frame, m moment) float64 { return float64(m.used) }},
	} {
		c := plot{title: p.title, across: "time in " + cmp.Or(s.Observed.Unit, "seconds"), percent: p.percent}
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
func (b *builder) waits(out *scenario) {
	var classes, names []string
	of := map[[2]string]eval.Waits{}
	t := table{
		Caption: "Waiting by class, in " + cmp.Or(out.Observed.Unit, "seconds"),
		Columns: []string{"class", "policy", "pods", "waited", "no node", "mean wait", "median", "90 %", "95 %", "99 %", "longest"},
		Numeric: []bool{false, false, true, true, true, true, true, true, true, true, true},
	}
	for _, w := range out.Observed.Waits {
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
			for i := range eval.Quantiles {
				cell := ""
				if i < len(w.Quantiles) {
					cell = short(w.Quantiles[i])
				}
				row = append(row, cell)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	out.Waited = new(b.cut(t))
	const most = 160 // bars
	if len(classes)*len(names) <= most {
		out.Waits = new(waitBars(late(out.Scenario), classes, names, of))
	}
}

// late names the pods that waited.
func late(s Scenario) string {
	if s.Observed.Soon == 0 {
		return "pods that got no node at once"
	}
	unit := cmp.Or(s.Observed.Unit, "seconds")
	if s.Observed.Soon == 1 {
		unit = strings.TrimSuffix(unit, "s")
	}
	return "pods that waited more than " + short(s.Observed.Soon) + " " + unit
}
