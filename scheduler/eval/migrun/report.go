package migrun

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat"

	"gnnsched/internal/cluster/mig"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
)

// Write writes the tables, for a terminal or as Markdown.
func (r *Report) Write(w io.Writer, markdown bool) error {
	p := eval.Page{Markdown: markdown}
	for i, c := range r.Mixes {
		if i > 0 {
			p.Printf("\n")
		}
		p.Title(c.Name, c.About)
		p.Printf("\n\n")
		for _, t := range r.tables(c) {
			p.Printf("%s", t.text)
			p.Table(t.rows)
		}
	}
	return p.Write(w)
}

// table is a table with its title in a run folder and the text before it.
type table struct {
	title, text string
	rows        [][]string
}

func (r *Report) tables(c Comparison) []table {
	base := c.At[0].Results[0].Name
	if c.steady {
		return []table{
			{"Allocation and waiting", fmt.Sprintf("Pods come and go; means over %s. In brackets: pods without a node at the end. "+
				"Waits are in mean lifetimes.\nDifferences are from %s%s\n\n", r.seeds(), base, r.rule(c)), r.queued(c)},
			{"Mean wait by profile", "\nMean wait by profile, and in brackets the pods without a node at the end:\n\n", r.waits(c)},
		}
	}
	out := []table{{"Compute slices allocated", fmt.Sprintf("Compute slices allocated in %%, means over %s, by what was requested. "+
		"In brackets: pods without a node.\n\n", r.seeds()), r.allocations(c)}}
	if len(c.At[0].Results) > 1 {
		all := eval.Judge(r.judged(c)...)
		gains := c.At[0].ByLoad(r.Loads, func(i, k int) string { return all[k][i].Cell(2) })
		text := fmt.Sprintf("\nDifference from %s in points%s\n\n", base, r.rule(c))
		out = append(out, table{"Difference in points", text, slices.Delete(gains, 1, 2)})
	}
	return append(out, table{"Pods without a node by profile", "\nPods without a node, by profile:\n\n", r.left(c)})
}

// rule says how differences are marked.
func (r *Report) rule(c Comparison) string {
	if len(r.Seeds) < 2 {
		return "."
	}
	return ", with 95% intervals.\n" + eval.Signs.Rule(len(r.Seeds), len(r.judged(c))*(len(c.At[0].Results)-1))
}

func (r *Report) seeds() string {
	if len(r.Seeds) > 1 {
		return r.Mixes[0].At[0].SeedsText()
	}
	return fmt.Sprintf("seed %d", r.Seeds[0])
}

// metric returns a metric of an outcome's partitions.
func metric(name, title string, digits int, of func(*sim.PartitionOutcome) float64) eval.Metric {
	return eval.Metric{Name: name, Title: title, Digits: digits, Of: func(o sim.Outcome) float64 { return of(o.Partitions) }}
}

// The metrics of all pods. Waits are in mean lifetimes.
var (
	allocation  = metric("allocation", "allocated %", 2, func(o *sim.PartitionOutcome) float64 { return 100 * o.Allocation })
	unscheduled = leftOf(mig.Profiles()...)
	waiting     = metric("waiting", "pods waiting", 2, func(o *sim.PartitionOutcome) float64 { return o.Waiting })
	meanWait    = waitOf(mig.Profiles()...)
)

// leftOf counts the pods of some profiles without a node at the end.
func leftOf(profiles ...mig.Profile) eval.Metric {
	return metric("left", "pods without a node", 1, func(o *sim.PartitionOutcome) float64 {
		n := 0
		for _, p := range profiles {
			n += o.Left[p]
		}
		return float64(n)
	})
}

// waitOf is the mean wait of the pods of some profiles.
func waitOf(profiles ...mig.Profile) eval.Metric {
	return metric("wait", "mean wait", 4, func(o *sim.PartitionOutcome) float64 {
		waited, arrived := 0.0, 0
		for _, p := range profiles {
			waited, arrived = waited+o.Waited[p], arrived+o.Arrived[p]
		}
		return waited / float64(max(arrived, 1))
	})
}

// column returns a metric at a load.
func (r *Report) column(c Comparison, k int, m eval.Metric) eval.Column {
	return eval.Column{Comparison: c.At[k], Metric: m.At(r.Loads[k]), More: m.Name == allocation.Name}
}

// judged returns the columns whose differences from the first policy's are shown: all allocations, then the waiting pods.
func (r *Report) judged(c Comparison) (out []eval.Column) {
	for k := range r.Loads {
		out = append(out, r.column(c, k, allocation))
	}
	for k := range r.Loads {
		if c.steady {
			out = append(out, r.column(c, k, waiting))
		}
	}
	return out
}

// allocated returns a cell with the allocation and the pods without a node.
func (r *Report) allocated(c Comparison, i, k int) string {
	return fmt.Sprintf("%s (%s)", r.column(c, k, allocation).Cell(i), r.column(c, k, unscheduled).Cell(i))
}

func (r *Report) allocations(c Comparison) [][]string {
	rows := c.At[0].ByLoad(r.Loads, func(i, k int) string { return r.allocated(c, i, k) })
	bound := func(name string, of [][]float64) {
		row := []string{name}
		for k := range r.Loads {
			var v []float64
			for _, seed := range of {
				v = append(v, 100*seed[k])
			}
			row = append(row, fmt.Sprintf("%.2f", stat.Mean(v, nil)))
		}
		rows = append(rows, row)
	}
	if c.Optimum != nil {
		bound("optimum", c.Optimum)
	}
	bound("bound", c.Bounds)
	return rows
}

// left returns the rows of pods without a node.
func (r *Report) left(c Comparison) [][]string {
	return c.At[0].ByClass(r.Profiles[1:], r.Loads, func(class, i, k int) (string, bool) {
		x := r.column(c, k, leftOf(mig.Profiles()[class]))
		return x.Cell(i), x.Mean(i) > 0
	})
}

// waits returns the rows of waits.
func (r *Report) waits(c Comparison) [][]string {
	return c.At[0].ByClass(r.Profiles[1:], r.Loads, func(class, i, k int) (string, bool) {
		p := mig.Profiles()[class]
		mean := r.column(c, k, waitOf(p)).Mean(i)
		return fmt.Sprintf("%.3f (%s)", mean, r.column(c, k, leftOf(p)).Cell(i)), mean > 0.0005
	})
}

func (r *Report) queued(c Comparison) [][]string {
	var loads []string
	for _, l := range r.Loads {
		loads = append(loads, eval.Percent(l))
	}
	all := eval.Judge(r.judged(c)...)
	return eval.Stack("load", loads, func(k int) [][]string {
		return c.At[k].Table(
			eval.Cells{Title: "allocation %", Of: func(i int) string { return r.allocated(c, i, k) }},
			eval.Cells{Title: "difference", Of: func(i int) string { return all[k][i].Cell(2) }},
			eval.Cells{Title: "pods waiting", Of: r.column(c, k, waiting).Cell},
			eval.Cells{Title: "difference", Of: func(i int) string { return all[len(loads)+k][i].Cell(2) }},
			eval.Cells{Title: "mean wait", Of: r.column(c, k, meanWait).Cell},
		)
	})
}

// WriteCSV writes a row for each mix, policy, seed and load, with all digits.
func (r *Report) WriteCSV(w io.Writer) error {
	rows := [][]string{{"mix", "policy", "seed", "load", "allocation", "unscheduled", "waiting", "wait"}}
	for _, c := range r.Mixes {
		for i, x := range c.At[0].Results {
			for s, seed := range r.Seeds {
				for k, load := range r.Loads {
					o := c.At[k].Results[i].Outcomes[s]
					row := []string{
						c.Name, x.Name, strconv.FormatUint(seed, 10), eval.Exact(load), eval.Exact(o.Partitions.Allocation),
						strconv.Itoa(int(unscheduled.Of(o))), "", "",
					}
					if c.steady {
						row[6], row[7] = eval.Exact(waiting.Of(o)), eval.Exact(meanWait.Of(o))
					}
					rows = append(rows, row)
				}
			}
		}
	}
	return eval.WriteRows(w, rows)
}
