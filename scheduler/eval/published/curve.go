package published

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
)

// Loads are the usual amounts of arrivals of a Curve, over the cluster's GPUs.
var Loads = []float64{0.6, 0.7, 0.8, 0.9, 0.95, 1, 1.1, 1.3, 1.5}

// Curve is the result of RunCurve: the policies' allocations, and the pods that they leave out, at every load.
type Curve struct {
	loads  []float64
	curves []curve
}

type curve struct {
	*eval.Comparison
	bounds []float64 // of the allocation at each load, 0 to 1, means over the seeds
}

// RunCurve plays every workload with every contender and seed, once until the highest of c.Loads, and notes the state at each of them. It
// calls progress as Run does.
func RunCurve(ctx context.Context, c Config, progress func(workload string, done, total int)) (Curve, error) {
	out := Curve{loads: c.Loads}
	err := c.each(ctx, progress, func(r *eval.Comparison, bounds func(factor float64) ([]float64, error)) error {
		x := curve{Comparison: r}
		for _, load := range c.Loads {
			of, err := bounds(load)
			if err != nil {
				return err
			}
			// The last pod of the arrivals takes the requests over the load.
			x.bounds = append(x.bounds, min(stat.Mean(of, nil), load+0.001))
		}
		out.curves = append(out.curves, x)
		return nil
	})
	return out, err
}

// allocationAt is the allocation at a load, in per cent.
func allocationAt(load int) eval.Metric {
	return eval.Metric{Digits: 2, Of: func(o sim.Outcome) float64 { return 100 * o.GPU.Loads[load].Allocation }}
}

// leftAt counts the pods of a class without a node at a load.
func leftAt(load, class int) eval.Metric {
	return eval.Metric{Digits: 1, Of: func(o sim.Outcome) float64 { return float64(o.GPU.Loads[load].Left[class]) }}
}

// Write writes three tables for each workload, for a terminal or as Markdown: allocations, their
// differences from the first policy's, and the pods that are left out. A table of verdicts comes first.
func (c Curve) Write(w io.Writer, markdown bool) error {
	var b bytes.Buffer
	heading, title := "Verdicts\n\n", "%s: %s"
	if markdown {
		heading, title = "### Verdicts\n\n", "### %s\n\n%s"
	}
	fmt.Fprintf(&b, "%sBelow the best published policy at a load: the highest upper end of the 95%% intervals, in points of GPU\nallocation. Left out: loads up to 95%% at which a class has more pods without a node than with %s.\nAhead: the smallest mean difference from %s at 100%% and more.\n\n", heading, baseline, baseline)
	if err := eval.Render(&b, c.verdicts(), markdown); err != nil {
		return err
	}
	for _, x := range c.curves {
		fmt.Fprintf(&b, "\n"+title+".\n\nGPU allocation in %%, means over %s, by the GPUs that were requested:\n\n",
			x.Scenario.Name, x.Scenario.About, seeds(x.Comparison))
		if err := eval.Render(&b, c.allocations(x), markdown); err != nil {
			return err
		}
		if len(x.Results) > 1 {
			rule := ":"
			if x.Samples() > 1 {
				rule = ", with 95% intervals.\n" + eval.Signs.Rule(x.Samples(), len(c.loads)*(len(x.Results)-1))
			}
			fmt.Fprintf(&b, "\nDifference from %s in points%s\n\n", x.Results[0].Name, rule)
			if err := eval.Render(&b, c.differences(x), markdown); err != nil {
				return err
			}
		}
		b.WriteString("\nGPU pods without a node, by the GPUs that they request:\n\n")
		if err := eval.Render(&b, c.left(x), markdown); err != nil {
			return err
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// head returns the header of a table with the loads as columns.
func (c Curve) head(first ...string) []string {
	for _, load := range c.loads {
		first = append(first, fmt.Sprintf("%.4g%%", 100*load))
	}
	return first
}

func (c Curve) allocations(x curve) [][]string {
	rows := [][]string{c.head("policy")}
	for _, r := range x.Results {
		row := []string{r.Name}
		for k := range c.loads {
			row = append(row, fmt.Sprintf("%.2f", r.Mean(allocationAt(k))))
		}
		rows = append(rows, row)
	}
	row := []string{"bound"}
	for _, b := range x.bounds {
		row = append(row, fmt.Sprintf("%.2f", 100*b))
	}
	return append(rows, row)
}

func (c Curve) differences(x curve) [][]string {
	rows := [][]string{c.head("policy")}
	var metrics []eval.Metric
	for k := range c.loads {
		metrics = append(metrics, allocationAt(k))
	}
	all := x.Differences(metrics)
	for i, r := range x.Results[1:] {
		row := []string{r.Name}
		for k := range c.loads {
			row = append(row, all[k][i].Cell(2))
		}
		rows = append(rows, row)
	}
	return rows
}

// left returns the rows of the third table, without classes of which all policies place all pods.
func (c Curve) left(x curve) [][]string {
	rows := [][]string{c.head("class", "policy")}
	for class := range sim.Classes {
		var of [][]string
		any := false
		for _, r := range x.Results {
			row := []string{sim.ClassNames[class], r.Name}
			for k := range c.loads {
				mean := r.Mean(leftAt(k, class))
				any = any || mean > 0
				row = append(row, fmt.Sprintf("%.1f", mean))
			}
			of = append(of, row)
		}
		if any {
			rows = append(rows, of...)
		}
	}
	return rows
}

// baseline is the policy that verdicts compare with.
const baseline = "fgd"

// crowded is the load up to which no class may have more pods left out than with the baseline.
const crowded = 0.95

// verdicts returns the rows of the table of verdicts.
func (c Curve) verdicts() [][]string {
	rows := [][]string{{"workload", "policy", "below the best", "at", "left out", "ahead", "at"}}
	for _, x := range c.curves {
		at := slices.IndexFunc(x.Results, func(r eval.Result) bool { return r.Name == baseline })
		for _, r := range x.Results {
			if slices.Contains(Policies, r.Name) {
				continue
			}
			row := []string{x.Scenario.Name, r.Name, "", "", "", "", ""}
			if loss, k := c.worst(x, r); k >= 0 {
				row[2], row[3] = fmt.Sprintf("%.2f", loss), fmt.Sprintf("%.4g%%", 100*c.loads[k])
			}
			if at >= 0 {
				row[4] = c.neglected(r, x.Results[at])
				if gain, k := c.least(r, x.Results[at]); k >= 0 {
					row[5], row[6] = fmt.Sprintf("%+.2f", gain), fmt.Sprintf("%.4g%%", 100*c.loads[k])
				}
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// worst returns the largest possible deficit of r from the published policy that is best at a load, and this load; -1 if no published
// policy took part.
func (c Curve) worst(x curve, r eval.Result) (loss float64, at int) {
	at = -1
	for k := range c.loads {
		var best *eval.Result
		for i := range x.Results {
			o := &x.Results[i]
			if slices.Contains(Policies, o.Name) && (best == nil || o.Mean(allocationAt(k)) > best.Mean(allocationAt(k))) {
				best = o
			}
		}
		if best == nil {
			return 0, -1
		}
		mine, theirs := r.Values(allocationAt(k)), best.Values(allocationAt(k))
		for i := range mine {
			theirs[i] -= mine[i]
		}
		if l := eval.MeanInterval(theirs).High; at < 0 || l > loss {
			loss, at = l, k
		}
	}
	return loss, at
}

// neglected names the classes of which r leaves more pods out than base at a crowded load or below, with the largest difference of the
// means.
func (c Curve) neglected(r, base eval.Result) (out string) {
	for class := range sim.Classes {
		most, at := 0.0, 0
		for k, load := range c.loads {
			if more := r.Mean(leftAt(k, class)) - base.Mean(leftAt(k, class)); load <= crowded && more > most {
				most, at = more, k
			}
		}
		if most > 0 {
			if out != "" {
				out += ", "
			}
			out += fmt.Sprintf("%s: +%.1f at %.4g%%", sim.ClassNames[class], most, 100*c.loads[at])
		}
	}
	if out == "" {
		return "none"
	}
	return out
}

// least returns the smallest mean lead of r over base at loads of 1 and more, and the load.
func (c Curve) least(r, base eval.Result) (gain float64, at int) {
	at = -1
	for k, load := range c.loads {
		if load < 1 {
			continue
		}
		if d := r.Mean(allocationAt(k)) - base.Mean(allocationAt(k)); at < 0 || d < gain {
			gain, at = d, k
		}
	}
	return gain, at
}

// WriteCSV writes a row for each workload, policy, seed and load, with all digits.
func (c Curve) WriteCSV(w io.Writer) error {
	rows := [][]string{append([]string{"workload", "policy", "seed", "load", "allocation"}, sim.ClassNames[:]...)}
	for _, x := range c.curves {
		for _, r := range x.Results {
			for i, o := range r.Outcomes {
				for _, l := range o.GPU.Loads {
					row := []string{
						x.Scenario.Name, r.Name, strconv.FormatUint(x.Seeds[i], 10), fmt.Sprint(l.Load), strconv.FormatFloat(l.Allocation, 'g', -1, 64),
					}
					for _, n := range l.Left {
						row = append(row, strconv.Itoa(n))
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

// MarshalJSON implements json.Marshaler: a list of the workloads, with the outcomes of each policy by seed.
func (c Curve) MarshalJSON() ([]byte, error) {
	type policy struct {
		Name     string          `json:"name"`
		Outcomes [][]sim.GPULoad `json:"outcomes"` // by seed and load
	}
	type workload struct {
		Workload string    `json:"workload"`
		Loads    []float64 `json:"loads"`
		Bounds   []float64 `json:"bounds"` // of the allocation, 0 to 1, by load
		Classes  []string  `json:"classes"`
		Seeds    []uint64  `json:"seeds"`
		Policies []policy  `json:"policies"`
	}
	var out []workload
	for _, x := range c.curves {
		w := workload{Workload: x.Scenario.Name, Loads: c.loads, Bounds: x.bounds, Classes: sim.ClassNames[:], Seeds: x.Seeds}
		for _, r := range x.Results {
			p := policy{Name: r.Name}
			for _, o := range r.Outcomes {
				p.Outcomes = append(p.Outcomes, o.GPU.Loads)
			}
			w.Policies = append(w.Policies, p)
		}
		out = append(out, w)
	}
	return json.Marshal(out)
}
