package published

import (
	"fmt"
	"io"

	"gonum.org/v1/gonum/stat"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
)

// Report is the result of Run: a comparison for each workload. The first contender is the
// baseline.
type Report struct {
	factor      float64
	comparisons []*eval.Comparison
	bounds      [][]float64 // from bound, by comparison and seed
}

// The metrics of the tables. More is better for the two allocations, unlike in package eval.
var (
	allocation = eval.Metric{
		Name: "gpuAllocation", Title: "GPU allocation", Digits: 2, Of: func(o sim.Outcome) float64 { return 100 * o.GPU.Allocation },
	}
	atFull = eval.Metric{
		Name: "gpuAllocationAtFull", Title: "at 100%", Digits: 2, Of: func(o sim.Outcome) float64 { return 100 * o.GPU.AllocationAtFull },
	}
	metrics = []eval.Metric{
		allocation, atFull,
		{Name: "gpuStranded", Title: "stranded", Digits: 2, Of: func(o sim.Outcome) float64 { return 100 * o.GPU.Stranded }},
		{Name: "unscheduled", Title: "unscheduled", Digits: 1, Of: func(o sim.Outcome) float64 { return float64(o.Unscheduled) }},
		{Name: "unscheduledCPU", Title: "without GPU", Digits: 1, Of: func(o sim.Outcome) float64 { return float64(o.GPU.UnscheduledCPU) }},
		{Name: "unscheduledShare", Title: "share", Digits: 1, Of: func(o sim.Outcome) float64 { return float64(o.GPU.UnscheduledShare) }},
		{Name: "unscheduledWhole", Title: "whole", Digits: 1, Of: func(o sim.Outcome) float64 { return float64(o.GPU.UnscheduledWhole) }},
	}
)

// Missed returns a line for each published figure that was not reproduced.
func (r Report) Missed() (out []string) {
	for _, c := range r.comparisons {
		for _, x := range c.Results {
			if f, known := r.published(c.Scenario.Name, x.Name); known && !f.reproduces(x.Mean(allocation)) {
				out = append(out, fmt.Sprintf("%s on %s: %.2f, published %.2f, tolerance %.2f", x.Name, c.Scenario.Name, x.Mean(allocation),
					f.Mean130, f.tolerance()))
			}
		}
	}
	return out
}

// Held returns the number of published figures that the report is compared with.
func (r Report) Held() (n int) {
	for _, c := range r.comparisons {
		for _, x := range c.Results {
			if _, known := r.published(c.Scenario.Name, x.Name); known {
				n++
			}
		}
	}
	return n
}

// published returns the published figure of the same run, and whether there is one.
func (r Report) published(workload, policy string) (figure, bool) {
	if r.factor != Factor {
		return figure{}, false
	}
	return find(workload, policy)
}

// Write writes two tables for each workload, for a terminal or as Markdown: the GPU allocation
// beside the published one, and the differences from the baseline.
func (r Report) Write(w io.Writer, markdown bool) error {
	p := eval.Page{Markdown: markdown}
	for i, c := range r.comparisons {
		p.Title(c.Scenario.Name, c.Scenario.About)
		p.Printf("\n\nGPU allocation in %%, mean ± standard deviation over %s:\n\n", c.SeedsText())
		p.Table(r.allocations(c))
		p.Printf("\nNo policy that places every pod that fits somewhere can give more than %.2f%%, even if it knows the arrivals.\n",
			100*stat.Mean(r.bounds[i], nil))
		p.Printf("\nDifference from %s in points of GPU allocation on the same seeds, and means of the pods without a node.\n%s\n\n",
			c.Results[0].Name, eval.Signs.Rule(c.Samples(), len(c.Results)-1))
		differences := eval.Compared(eval.Judge(c.Column(allocation))[0], allocation.Digits,
			"difference", "95% interval", "adjusted p")
		p.Table(c.Table(append(differences, c.Means(metrics[2:]...)...)...))
		p.Printf("\n")
	}
	return p.Write(w)
}

// allocations returns the rows of the first table.
func (r Report) allocations(c *eval.Comparison) [][]string {
	end := fmt.Sprintf("at %.0f%%", 100*r.factor)
	rows := [][]string{{"policy", end, "95% interval", "published", "off by", "reproduced", "at 100%", "published"}}
	for _, x := range c.Results {
		row := []string{x.Name, plusMinus(meanSD(x, allocation)), "", "", "", "", plusMinus(meanSD(x, atFull)), ""}
		if len(c.Seeds) > 1 {
			i := eval.MeanInterval(x.Values(allocation))
			row[2] = fmt.Sprintf("%.2f to %.2f", i.Low, i.High)
		}
		if f, known := r.published(c.Scenario.Name, x.Name); known {
			mean := x.Mean(allocation)
			row[3] = plusMinus(f.Mean130, f.SD130)
			row[4] = fmt.Sprintf("%+.2f", mean-f.Mean130)
			row[5] = "no"
			if f.reproduces(mean) {
				row[5] = "yes"
			}
			row[7] = plusMinus(f.Mean100, f.SD100)
		}
		rows = append(rows, row)
	}
	return rows
}

// meanSD returns the mean over the seeds and the standard deviation, which is 0 for one seed.
func meanSD(r eval.Result, m eval.Metric) (mean, sd float64) {
	values := r.Values(m)
	if len(values) == 1 {
		return values[0], 0
	}
	return stat.MeanStdDev(values, nil)
}

func plusMinus(mean, sd float64) string { return fmt.Sprintf("%.2f ± %.2f", mean, sd) }
