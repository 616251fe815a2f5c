package published

import (
	"cmp"
	"context"
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

// RunCurve plays every workload with every contender and seed, once until the highest of c.Loads, and notes the state at each of them.
// progress may be nil.
func RunCurve(ctx context.Context, c Config, progress eval.Progress) (Curve, error) {
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
	return eval.Metric{
		Name: "allocation", Title: "GPU allocation", Digits: 2, Of: func(o sim.Outcome) float64 { return 100 * o.GPU.Loads[load].Allocation },
	}
}

// leftAt counts the pods of a class without a node at a load.
func leftAt(load, class int) eval.Metric {
	return eval.Metric{Digits: 1, Of: func(o sim.Outcome) float64 { return float64(o.GPU.Loads[load].Left[class]) }}
}

// columns returns a metric at each load.
func (c Curve) columns(x curve, at func(load int) eval.Metric) (out []eval.Column) {
	for k, load := range c.loads {
		m := at(k)
		out = append(out, eval.Column{Comparison: x.Comparison, Metric: m.At(load), More: m.Name == "allocation"})
	}
	return out
}

// Write writes three tables for each workload, for a terminal or as Markdown: allocations, their
// differences from the first policy's, and the pods that are left out. A table of verdicts comes first.
func (c Curve) Write(w io.Writer, markdown bool) error {
	p := eval.Page{Markdown: markdown}
	if markdown {
		p.Printf("### ")
	}
	p.Printf("Verdicts\n\nBelow the best published policy at a load: the highest upper end of the 95%% intervals, "+
		"in points of GPU\nallocation. Left out: loads up to 95%% at which a class has more pods without a node than with %s.\nAhead: "+
		"the smallest mean difference from %s at 100%% and more.\n\n", baseline, baseline)
	p.Table(c.verdicts())
	for _, x := range c.curves {
		p.Printf("\n")
		p.Title(x.Scenario.Name, x.Scenario.About)
		p.Printf("\n\nGPU allocation in %%, means over %s, by the GPUs that were requested:\n\n", x.SeedsText())
		columns := c.columns(x, allocationAt)
		bounds := []string{"bound"}
		for _, b := range x.bounds {
			bounds = append(bounds, fmt.Sprintf("%.2f", 100*b))
		}
		p.Table(append(x.ByLoad(c.loads, func(i, k int) string { return columns[k].Cell(i) }), bounds))
		if others := len(x.Results) - 1; others > 0 {
			rule := ":"
			if x.Samples() > 1 {
				rule = ", with 95% intervals.\n" + eval.Signs.Rule(x.Samples(), len(columns)*others)
			}
			p.Printf("\nDifference from %s in points%s\n\n", x.Results[0].Name, rule)
			all := eval.Judge(columns...)
			p.Table(slices.Delete(x.ByLoad(c.loads, func(i, k int) string { return all[k][i].Cell(2) }), 1, 2))
		}
		p.Printf("\nGPU pods without a node, by the GPUs that they request:\n\n")
		p.Table(x.ByClass(sim.ClassNames[:], c.loads, func(class, i, k int) (string, bool) {
			left := x.Comparison.Column(leftAt(k, class))
			return left.Cell(i), left.Mean(i) > 0
		}))
	}
	return p.Write(w)
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
				row[2], row[3] = fmt.Sprintf("%.2f", loss), eval.Percent(c.loads[k])
			}
			if at >= 0 {
				row[4] = c.neglected(r, x.Results[at])
				if gain, k := c.least(r, x.Results[at]); k >= 0 {
					row[5], row[6] = fmt.Sprintf("%+.2f", gain), eval.Percent(c.loads[k])
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
		if l := minus(*best, r, allocationAt(k)).High; at < 0 || l > loss {
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
	return cmp.Or(out, "none")
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
		rows = append(rows, x.Rows([]string{x.Scenario.Name}, func(o sim.Outcome) (rows [][]string) {
			for _, l := range o.GPU.Loads {
				row := []string{eval.Exact(l.Load), eval.Exact(l.Allocation)}
				for _, n := range l.Left {
					row = append(row, strconv.Itoa(n))
				}
				rows = append(rows, row)
			}
			return rows
		})...)
	}
	return eval.WriteRows(w, rows)
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
