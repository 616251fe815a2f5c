package migrun

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"

	"gonum.org/v1/gonum/stat"

	"gnnsched/internal/cluster/mig"
	"gnnsched/scheduler/eval"
)

// Write writes the tables, for a terminal or as Markdown.
func (r *Report) Write(w io.Writer, markdown bool) error {
	var b bytes.Buffer
	title := "%s: %s.\n\n"
	if markdown {
		title = "### %s\n\n%s.\n\n"
	}
	for i, c := range r.Mixes {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, title, c.Mix, c.About)
		for _, t := range r.tables(c) {
			b.WriteString(t.text)
			if err := eval.Render(&b, t.rows, markdown); err != nil {
				return err
			}
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// table is a table with its title in a run folder and the text before it.
type table struct {
	title, text string
	rows        [][]string
}

func (r *Report) tables(c Comparison) []table {
	base := c.Policies[0].Name
	if c.Policies[0].Queued != nil {
		return []table{
			{"Allocation and waiting", fmt.Sprintf("Pods come and go; means over %s. In brackets: pods without a node at the end. Waits are in mean lifetimes.\nDifferences are from %s%s\n\n", r.seeds(), base, r.rule(c)), r.queued(c)},
			{"Mean wait by profile", "\nMean wait by profile, and in brackets the pods without a node at the end:\n\n", r.waits(c)},
		}
	}
	out := []table{{"Compute slices allocated", fmt.Sprintf("Compute slices allocated in %%, means over %s, by what was requested. In brackets: pods without a node.\n\n", r.seeds()), r.allocations(c)}}
	if len(c.Policies) > 1 {
		out = append(out, table{"Difference in points", fmt.Sprintf("\nDifference from %s in points%s\n\n", base, r.rule(c)), r.differences(c)})
	}
	return append(out, table{"Pods without a node by profile", "\nPods without a node, by profile:\n\n", r.left(c)})
}

// rule says how differences are marked.
func (r *Report) rule(c Comparison) string {
	if len(r.Seeds) < 2 {
		return "."
	}
	return ", with 95% intervals.\n" + eval.Signs.Rule(len(r.Seeds), len(r.judged(c).all))
}

func (r *Report) seeds() string {
	if n := len(r.Seeds); n > 1 {
		return fmt.Sprintf("%d paired seeds (%d to %d)", n, r.Seeds[0], r.Seeds[n-1])
	}
	return fmt.Sprintf("seed %d", r.Seeds[0])
}

// head returns the header of a table with the loads as columns.
func (r *Report) head(first ...string) []string {
	for _, l := range r.Loads {
		first = append(first, fmt.Sprintf("%.4g%%", 100*l))
	}
	return first
}

// values returns a figure of a result at a load, by seed.
func values[O any](of [][]O, load int, figure func(O) float64) (out []float64) {
	for _, o := range of {
		out = append(out, figure(o[load]))
	}
	return out
}

func mean[O any](of [][]O, load int, figure func(O) float64) float64 {
	return stat.Mean(values(of, load, figure), nil)
}

// compared holds the differences of figures at each load from the first policy's, judged together.
type compared struct {
	all  []*eval.Difference
	next int
}

// add adds the difference of a figure.
func add[O any](c *compared, of, base [][]O, load int, figure func(O) float64) {
	d := eval.Paired(values(of, load, figure), values(base, load, figure))
	c.all = append(c.all, &d)
}

// cell returns the cell of the next difference, in the order in which they were added.
func (c *compared) cell() string {
	c.next++
	return c.all[c.next-1].Cell(2)
}

func queuedAllocation(q Queued) float64 { return 100 * q.Allocation }

func queuedWaiting(q Queued) float64 { return q.Waiting }

func filledAllocation(f Filled) float64 { return 100 * f.Allocation }

func filledLeft(f Filled) float64 { return float64(f.Unscheduled()) }

func (r *Report) allocations(c Comparison) [][]string {
	rows := [][]string{r.head("policy")}
	for _, p := range c.Policies {
		row := []string{p.Name}
		for k := range r.Loads {
			row = append(row, fmt.Sprintf("%.2f (%.1f)", mean(p.Filled, k, filledAllocation), mean(p.Filled, k, filledLeft)))
		}
		rows = append(rows, row)
	}
	bound := func(name string, of [][]float64) {
		row := []string{name}
		for k := range r.Loads {
			row = append(row, fmt.Sprintf("%.2f", mean(of, k, func(v float64) float64 { return 100 * v })))
		}
		rows = append(rows, row)
	}
	if c.Optimum != nil {
		bound("optimum", c.Optimum)
	}
	bound("bound", c.Bounds)
	return rows
}

// judged returns the differences of the tables, in the order in which these show them.
func (r *Report) judged(c Comparison) *compared {
	out, base := &compared{}, c.Policies[0]
	if base.Queued == nil {
		for _, p := range c.Policies[1:] {
			for k := range r.Loads {
				add(out, p.Filled, base.Filled, k, filledAllocation)
			}
		}
	} else {
		for k := range r.Loads {
			for _, p := range c.Policies[1:] {
				add(out, p.Queued, base.Queued, k, queuedAllocation)
				add(out, p.Queued, base.Queued, k, queuedWaiting)
			}
		}
	}
	eval.Together(out.all...)
	return out
}

func (r *Report) differences(c Comparison) [][]string {
	rows, all := [][]string{r.head("policy")}, r.judged(c)
	for _, p := range c.Policies[1:] {
		row := []string{p.Name}
		for range r.Loads {
			row = append(row, all.cell())
		}
		rows = append(rows, row)
	}
	return rows
}

// left returns the rows of pods without a node; a profile of which all policies place all pods has none.
func (r *Report) left(c Comparison) [][]string {
	rows := [][]string{r.head("class", "policy")}
	for _, profile := range mig.Profiles() {
		var of [][]string
		some := false
		for _, p := range c.Policies {
			row := []string{r.Profiles[profile], p.Name}
			for k := range r.Loads {
				n := mean(p.Filled, k, func(f Filled) float64 { return float64(f.Left[profile]) })
				some = some || n > 0
				row = append(row, fmt.Sprintf("%.1f", n))
			}
			of = append(of, row)
		}
		if some {
			rows = append(rows, of...)
		}
	}
	return rows
}

func (r *Report) queued(c Comparison) [][]string {
	rows := [][]string{{"load", "policy", "allocation %", "difference", "pods waiting", "difference", "mean wait"}}
	all := r.judged(c)
	for k, load := range r.Loads {
		for i, p := range c.Policies {
			row := []string{
				fmt.Sprintf("%.4g%%", 100*load), p.Name,
				fmt.Sprintf("%.2f (%.1f)", mean(p.Queued, k, queuedAllocation), mean(p.Queued, k, func(q Queued) float64 { return float64(q.Unscheduled()) })), "",
				fmt.Sprintf("%.2f", mean(p.Queued, k, queuedWaiting)), "",
				fmt.Sprintf("%.4f", mean(p.Queued, k, func(q Queued) float64 { return q.Wait(mig.Profiles()...) })),
			}
			if i > 0 {
				row[3], row[5] = all.cell(), all.cell()
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// waits returns the rows of waits; a profile of whose pods hardly one waits has none.
func (r *Report) waits(c Comparison) [][]string {
	const long = 0.0005 // mean lifetimes
	rows := [][]string{r.head("class", "policy")}
	for _, profile := range mig.Profiles() {
		var of [][]string
		some := false
		for _, p := range c.Policies {
			row := []string{r.Profiles[profile], p.Name}
			for k := range r.Loads {
				wait := mean(p.Queued, k, func(q Queued) float64 { return q.Wait(profile) })
				some = some || wait > long
				row = append(row, fmt.Sprintf("%.3f (%.1f)", wait, mean(p.Queued, k, func(q Queued) float64 { return float64(q.Left[profile]) })))
			}
			of = append(of, row)
		}
		if some {
			rows = append(rows, of...)
		}
	}
	return rows
}

// WriteCSV writes a row for each mix, policy, seed and load, with all digits.
func (r *Report) WriteCSV(w io.Writer) error {
	rows := [][]string{{"mix", "policy", "seed", "load", "allocation", "unscheduled", "waiting", "wait"}}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	for _, c := range r.Mixes {
		for _, p := range c.Policies {
			for i, seed := range r.Seeds {
				first := []string{c.Mix, p.Name, strconv.FormatUint(seed, 10)}
				if p.Queued != nil {
					for _, q := range p.Queued[i] {
						rows = append(rows, append(first[:3:3], number(q.Load), number(q.Allocation), strconv.Itoa(q.Unscheduled()), number(q.Waiting), number(q.Wait(mig.Profiles()...))))
					}
					continue
				}
				for _, f := range p.Filled[i] {
					rows = append(rows, append(first[:3:3], number(f.Load), number(f.Allocation), strconv.Itoa(f.Unscheduled()), "", ""))
				}
			}
		}
	}
	if err := csv.NewWriter(w).WriteAll(rows); err != nil {
		return fmt.Errorf("write the CSV: %w", err)
	}
	return nil
}
