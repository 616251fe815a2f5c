package migrun

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"

	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/runfolder"
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
		out = append(out, table{"Difference in points", fmt.Sprintf("\nDifference from %s in points%s\n\n", base, r.rule(c)), r.gains(c)})
	}
	return append(out, table{"Pods without a node by profile", "\nPods without a node, by profile:\n\n", r.left(c)})
}

// rule says how differences are marked.
func (r *Report) rule(c Comparison) string {
	if len(r.Seeds) < 2 {
		return "."
	}
	return ", with 95% intervals.\n" + eval.Signs.Rule(len(r.Seeds), len(r.differences(c)))
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

// figure is a metric of a run folder: a figure at a load.
type figure struct {
	runfolder.Metric
	load   int
	judged bool // tables show its differences from the first policy
	of     func(Queued) float64
}

func allocation(q Queued) float64 { return 100 * q.Allocation }

func waiting(q Queued) float64 { return q.Waiting }

func unscheduled(q Queued) float64 { return float64(q.Unscheduled()) }

func meanWait(q Queued) float64 { return q.Wait(mig.Profiles()...) }

// figures returns the figures of a mix, load by load, the allocations first.
func (r *Report) figures(c Comparison) (out []figure) {
	add := func(name, title string, k, digits int, judged bool, of func(Queued) float64) {
		load := fmt.Sprintf("%.4g", 100*r.Loads[k])
		out = append(out, figure{runfolder.Metric{Name: name + load, Title: title + " at " + load + "%", Digits: digits, More: name == "allocation"}, k, judged, of})
	}
	for k := range r.Loads {
		add("allocation", "allocated %", k, 2, true, allocation)
	}
	for k := range r.Loads {
		if c.Policies[0].Queued == nil {
			add("left", "pods without a node", k, 1, false, unscheduled)
			continue
		}
		add("waiting", "pods waiting", k, 2, true, waiting)
		add("wait", "mean wait", k, 4, false, meanWait)
	}
	return out
}

// values returns a figure of a result at a load, by seed.
func (r *Report) values(p Result, load int, of func(Queued) float64) (out []float64) {
	for i := range r.Seeds {
		out = append(out, of(p.at(i, load)))
	}
	return out
}

func (r *Report) mean(p Result, load int, of func(Queued) float64) float64 {
	return stat.Mean(r.values(p, load, of), nil)
}

// difference is the difference of a policy's figure from the first policy's.
type difference struct {
	*eval.Difference
	figure
	policy string
}

// differences returns those of the judged figures, judged together.
func (r *Report) differences(c Comparison) (out []difference) {
	var all []*eval.Difference
	for _, f := range r.figures(c) {
		if !f.judged {
			continue
		}
		for _, p := range c.Policies[1:] {
			d := eval.Paired(r.values(p, f.load, f.of), r.values(c.Policies[0], f.load, f.of))
			d.Relative = nil
			all, out = append(all, &d), append(out, difference{&d, f, p.Name})
		}
	}
	eval.Together(all...)
	return out
}

// cell returns the cell of a difference.
func cell(all []difference, policy, metric string, load int) string {
	i := slices.IndexFunc(all, func(d difference) bool {
		return d.policy == policy && d.load == load && strings.HasPrefix(d.Name, metric)
	})
	return all[i].Cell(2)
}

func (r *Report) allocations(c Comparison) [][]string {
	rows := [][]string{r.head("policy")}
	for _, p := range c.Policies {
		row := []string{p.Name}
		for k := range r.Loads {
			row = append(row, fmt.Sprintf("%.2f (%.1f)", r.mean(p, k, allocation), r.mean(p, k, unscheduled)))
		}
		rows = append(rows, row)
	}
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

func (r *Report) gains(c Comparison) [][]string {
	rows, all := [][]string{r.head("policy")}, r.differences(c)
	for _, p := range c.Policies[1:] {
		row := []string{p.Name}
		for k := range r.Loads {
			row = append(row, cell(all, p.Name, "allocation", k))
		}
		rows = append(rows, row)
	}
	return rows
}

// byProfile returns a row for each profile and policy. cell returns the text at a load and whether it matters; a profile of which no cell
// matters has no rows.
func (r *Report) byProfile(c Comparison, cell func(p mig.Profile, mean func(func(Queued) float64) float64) (text string, matters bool)) [][]string {
	rows := [][]string{r.head("class", "policy")}
	for _, profile := range mig.Profiles() {
		var of [][]string
		some := false
		for _, p := range c.Policies {
			row := []string{r.Profiles[profile], p.Name}
			for k := range r.Loads {
				text, matters := cell(profile, func(of func(Queued) float64) float64 { return r.mean(p, k, of) })
				some = some || matters
				row = append(row, text)
			}
			of = append(of, row)
		}
		if some {
			rows = append(rows, of...)
		}
	}
	return rows
}

// left returns the rows of pods without a node.
func (r *Report) left(c Comparison) [][]string {
	return r.byProfile(c, func(p mig.Profile, mean func(func(Queued) float64) float64) (string, bool) {
		n := mean(func(q Queued) float64 { return float64(q.Left[p]) })
		return fmt.Sprintf("%.1f", n), n > 0
	})
}

// waits returns the rows of waits, in mean lifetimes.
func (r *Report) waits(c Comparison) [][]string {
	return r.byProfile(c, func(p mig.Profile, mean func(func(Queued) float64) float64) (string, bool) {
		w := mean(func(q Queued) float64 { return q.Wait(p) })
		return fmt.Sprintf("%.3f (%.1f)", w, mean(func(q Queued) float64 { return float64(q.Left[p]) })), w > 0.0005
	})
}

func (r *Report) queued(c Comparison) [][]string {
	rows := [][]string{{"load", "policy", "allocation %", "difference", "pods waiting", "difference", "mean wait"}}
	all := r.differences(c)
	for k, load := range r.Loads {
		for i, p := range c.Policies {
			row := []string{
				fmt.Sprintf("%.4g%%", 100*load), p.Name, fmt.Sprintf("%.2f (%.1f)", r.mean(p, k, allocation), r.mean(p, k, unscheduled)), "",
				fmt.Sprintf("%.2f", r.mean(p, k, waiting)), "", fmt.Sprintf("%.4f", r.mean(p, k, meanWait)),
			}
			if i > 0 {
				row[3], row[5] = cell(all, p.Name, "allocation", k), cell(all, p.Name, "waiting", k)
			}
			rows = append(rows, row)
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
				for k := range r.Loads {
					q := p.at(i, k)
					row := []string{c.Mix, p.Name, strconv.FormatUint(seed, 10), number(q.Load), number(q.Allocation), strconv.Itoa(q.Unscheduled()), "", ""}
					if p.Queued != nil {
						row[6], row[7] = number(q.Waiting), number(meanWait(q))
					}
					rows = append(rows, row)
				}
			}
		}
	}
	if err := csv.NewWriter(w).WriteAll(rows); err != nil {
		return fmt.Errorf("write the CSV: %w", err)
	}
	return nil
}
