package eval

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/scheduler/sim"
)

// mostClasses is the number of classes up to which each has a row of its own.
const mostClasses = 12

// Waits sums up the waiting times of a class of pods, in the unit of time of the frames.
type Waits struct {
	Contender string    `json:"contender"`
	Class     string    `json:"class"`
	Pods      int       `json:"pods"`                // all pods of the class
	Waited    int       `json:"waited"`              // pods that did not get a node at once, or within Tally.Soon
	Never     int       `json:"never"`               // of these, those without a node at the end; not in Quantiles
	Mean      float64   `json:"mean"`                // of the pods with a node
	Quantiles []float64 `json:"quantiles,omitempty"` // of the pods with a node, as Quantiles lists them
}

// Quantiles are the quantiles that Waits holds.
var Quantiles = []float64{0.5, 0.9, 0.95, 0.99, 1}

// Summarise sets the counts and quantiles of a class from the number of pods that got a node at once, the waiting times of pods that got
// one later, and the number of pods without one. It sorts the times.
func (w *Waits) Summarise(atOnce int, times []float64, never int) {
	slices.Sort(times)
	placed := atOnce + len(times)
	w.Pods, w.Waited, w.Never, w.Mean, w.Quantiles = placed+never, len(times)+never, never, 0, nil
	if placed == 0 {
		return
	}
	for _, t := range times {
		w.Mean += t / float64(placed)
	}
	for _, q := range Quantiles {
		v := 0.0
		if i := int(math.Ceil(q*float64(placed))) - 1 - atOnce; i >= 0 {
			v = times[i]
		}
		w.Quantiles = append(w.Quantiles, v)
	}
}

// Tally collects the waiting times of a scenario's pods, for rows of Waits by class. It is not safe for concurrent use.
type Tally struct {
	Soon float64 // a pod that got its node within this time has not waited
	of   map[string]map[Class]*waiting
}

// Class is the pods that request the same and may run on the same nodes.
type Class struct {
	Requests cluster.Resources
	Where    string // cluster.Pod.Where
}

// ClassOf returns the class of a pod.
func ClassOf(p *cluster.Pod) Class { return Class{p.Requests, p.Where()} }

// String names the class, as "500m CPU, 1 GiB, disk=ssd".
func (c Class) String() string { return cluster.KindText(c.Requests, c.Where) }

// compare orders classes, small ones first.
func (c Class) compare(d Class) int {
	a, b := c.Requests, d.Requests
	return cmp.Or(cmp.Compare(a.TotalGPUMilli(), b.TotalGPUMilli()), cmp.Compare(a.MilliCPU, b.MilliCPU), cmp.Compare(a.Memory, b.Memory),
		cmp.Compare(a.GPU, b.GPU), cmp.Compare(c.Where, d.Where))
}

// waiting holds the waits of the pods of a class.
type waiting struct {
	atOnce, never int
	times         []float64
}

// Add counts a contender's pod with its waiting time, and whether it got a node in the end.
func (t *Tally) Add(contender string, pods Class, wait float64, placed bool) {
	if t.of == nil {
		t.of = map[string]map[Class]*waiting{}
	}
	of := t.of[contender]
	if of == nil {
		of = map[Class]*waiting{}
		t.of[contender] = of
	}
	w := of[pods]
	if w == nil {
		w = &waiting{}
		of[pods] = w
	}
	switch {
	case !placed:
		w.never++
	case wait > 0:
		w.times = append(w.times, wait)
	default:
		w.atOnce++
	}
}

// Rows returns the waits of contenders by class. If there are too many, pods are classed by their GPUs, or without any by their CPUs.
func (t *Tally) Rows(contenders ...string) (rows []Waits) {
	all := map[Class]bool{}
	for _, of := range t.of {
		for c := range of {
			all[c] = true
		}
	}
	name := Class.String
	if len(all) > mostClasses {
		name = coarse
	}
	for _, c := range contenders {
		for _, x := range classes(t.of[c], name) {
			w := Waits{Contender: c, Class: x.name}
			w.Summarise(x.atOnce, x.times, x.never)
			for _, wait := range x.times {
				if wait <= t.Soon {
					w.Waited--
				}
			}
			rows = append(rows, w)
		}
	}
	return rows
}

// class is the waits of a class of pods.
type class struct {
	name string
	waiting
}

// classes returns the classes of pods by name, small ones first.
func classes(all map[Class]*waiting, name func(Class) string) (out []class) {
	at := map[string]int{}
	for _, r := range slices.SortedFunc(maps.Keys(all), Class.compare) {
		i, known := at[name(r)]
		if !known {
			i = len(out)
			at[name(r)] = i
			out = append(out, class{name: name(r)})
		}
		out[i].atOnce += all[r].atOnce
		out[i].never += all[r].never
		out[i].times = append(out[i].times, all[r].times...)
	}
	return out
}

// coarse names a range of requests.
func coarse(c Class) string {
	r := c.Requests
	switch gpu := r.TotalGPUMilli(); {
	case gpu >= 2000:
		return "several GPUs"
	case gpu >= 1000:
		return "one GPU"
	case gpu > 0:
		return "a share of a GPU"
	}
	for _, limit := range []int64{1, 4, 16, 64} {
		if r.MilliCPU < 1000*limit {
			return fmt.Sprintf("under %d CPU", limit)
		}
	}
	return "64 CPU or more"
}

// Collect returns the comparison of trials that were played elsewhere, on the seeds that all of their policies have.
func Collect[T any](trials []T, of func(T) (policy string, seed uint64, o sim.Outcome)) *Comparison {
	c := &Comparison{}
	var policies []string
	outcomes := map[string]map[uint64]sim.Outcome{}
	for _, t := range trials {
		policy, seed, o := of(t)
		if outcomes[policy] == nil {
			policies, outcomes[policy] = append(policies, policy), map[uint64]sim.Outcome{}
		}
		if outcomes[policy][seed] = o; !slices.Contains(c.Seeds, seed) {
			c.Seeds = append(c.Seeds, seed)
		}
	}
	for _, all := range outcomes {
		c.Seeds = slices.DeleteFunc(c.Seeds, func(seed uint64) bool { _, played := all[seed]; return !played })
	}
	for _, policy := range policies {
		r := Result{Name: policy}
		for _, seed := range c.Seeds {
			r.Outcomes = append(r.Outcomes, outcomes[policy][seed])
		}
		c.Results = append(c.Results, r)
	}
	return c
}

// Column is a metric of a comparison. A table may have columns of several comparisons with the same contenders and seeds, such as at
// several loads.
type Column struct {
	*Comparison
	Metric
	More bool // more is better
}

// Mean returns the mean of result i.
func (c Column) Mean(i int) float64 { return c.Results[i].Mean(c.Metric) }

// Cell returns the mean of result i for a table.
func (c Column) Cell(i int) string { return strconv.FormatFloat(c.Mean(i), 'f', c.Digits, 64) }

// Judge returns the differences of all results from the baseline, by column and result, judged together. The baseline has none.
func Judge(columns ...Column) [][]*Difference {
	out := make([][]*Difference, len(columns))
	var all []*Difference
	for k, c := range columns {
		out[k] = make([]*Difference, len(c.Results))
		for i, r := range c.Results {
			if i != c.Baseline && c.Baseline >= 0 {
				out[k][i] = new(c.Difference(r, c.Metric))
				all = append(all, out[k][i])
			}
		}
	}
	together(all...)
	return out
}

// Column returns the column of a metric.
func (c *Comparison) Column(m Metric) Column { return Column{Comparison: c, Metric: m} }

// Columns returns a column for each metric.
func (c *Comparison) Columns(metrics ...Metric) []Column {
	return each.Map(metrics, c.Column)
}

// Cells are the cells of a column of a table, by result.
type Cells struct {
	Title string
	Of    func(result int) string
}

// Table returns a header and a row for each result.
func (c *Comparison) Table(columns ...Cells) [][]string {
	rows := [][]string{{"policy"}}
	rows = append(rows, each.Map(c.Results, func(r Result) []string { return []string{r.Name} })...)
	for _, x := range columns {
		rows[0] = append(rows[0], x.Title)
		for i := range c.Results {
			rows[i+1] = append(rows[i+1], x.Of(i))
		}
	}
	return rows
}

// Means returns the cells of metrics.
func (c *Comparison) Means(metrics ...Metric) []Cells {
	return each.Map(c.Columns(metrics...), func(x Column) Cells { return Cells{x.Title, x.Cell} })
}

// Titles of the cells of a difference.
const (
	difference = "difference"
	interval   = "95% interval"
	relative   = "relative"
	adjusted   = "adjusted p"
)

// differenceCells returns the titled cells of differences, which are by result.
func differenceCells(all []*Difference, digits int, titles ...string) (out []Cells) {
	for _, title := range titles {
		out = append(out, Cells{title, func(i int) string { return all[i].Cells(digits, title)[0] }})
	}
	return out
}

// Cells returns the cells with some titles: difference, 95% interval, relative, adjusted p, and significant, the mark in a word. With one
// sample some are empty, and without a difference all are.
func (d *Difference) Cells(digits int, titles ...string) []string {
	of := map[string]string{}
	if d != nil {
		of[difference], of["significant"] = fmt.Sprintf("%+.*f", digits, d.Mean), d.Mark.String()
		if d.Samples > 1 {
			of[interval], of[adjusted] = fmt.Sprintf("%+.*f to %+.*f", digits, d.Low, digits, d.High), d.Chance()
		}
		if d.Relative != nil {
			of[relative] = fmt.Sprintf("%+.1f%%", 100**d.Relative)
		}
	}
	return each.Map(titles, func(t string) string { return of[t] })
}
