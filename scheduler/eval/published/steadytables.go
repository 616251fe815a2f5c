package published

import (
	"fmt"
	"io"

	"gonum.org/v1/gonum/floats"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
)

// Write writes two tables for each workload, for a terminal or as Markdown. The first has allocation and waiting of
// all pods at each load with the differences from the first policy's; the second has the waiting by class of
// pods. Without All, the second leaves out policies with which a class hardly waits; with Totals there is none.
func (s Steady) Write(w io.Writer, markdown bool) error {
	p := eval.Page{Markdown: markdown}
	for _, runs := range s.byWorkload() {
		first := runs[0]
		rows, comparisons := compared(runs)
		p.Title(first.Scenario.Name, first.Scenario.About)
		p.Printf("\n\nMeans over %s, each of %s after %s of warm-up; the load is\nthe GPUs that pods request on average.%s\n\n",
			first.SeedsText(), days(s.days), days(s.warmUp), explained(first.Comparison, comparisons))
		p.Table(rows)
		if s.Totals {
			p.Printf("\n")
			continue
		}
		rows, left := s.classes(runs)
		if len(rows) > 1 {
			p.Printf("\nWaiting by the GPUs that pods request:\n\n")
			p.Table(rows)
		}
		p.Printf("%s\n", left.note(len(rows) > 1))
	}
	return p.Write(w)
}

func days(n float64) string {
	if n == 1 {
		return "a day"
	}
	return fmt.Sprintf("%.4g days", n)
}

// byWorkload returns the runs of each workload by load.
func (s Steady) byWorkload() (out [][]steadyRun) {
	for i, x := range s.runs {
		if i == 0 || x.Scenario.Name != s.runs[i-1].Scenario.Name {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], x)
	}
	return out
}

// explained explains the differences of the first table.
func explained(c *eval.Comparison, comparisons int) string {
	switch {
	case len(c.Results) < 2:
		return ""
	case c.Samples() < 2:
		return " Differences are from " + c.Results[0].Name + "."
	}
	return fmt.Sprintf(" Differences from %s have 95%% intervals.\n%s", c.Results[0].Name, eval.Signs.Rule(c.Samples(), comparisons))
}

// compared returns the rows of the first table, and the number of comparisons in it.
func compared(runs []steadyRun) (rows [][]string, comparisons int) {
	var judged []eval.Column
	for _, x := range runs {
		judged = append(judged, x.Columns(steadyAllocation, steadyGPUHours)...)
	}
	all := eval.Judge(judged...)
	rows = eval.Stack("load", loads(runs), func(k int) [][]string {
		x, points, hours := runs[k], all[2*k], all[2*k+1]
		means := x.Means(x.metrics()...)
		cells := []eval.Cells{means[0], {Title: "difference", Of: func(i int) string {
			if i == 0 {
				return ""
			}
			return interval(points[i].Interval, steadyAllocation.Digits, x.Samples())
		}}, {Title: "p", Of: func(i int) string { return points[i].Chance() }},
			means[1], {Title: "difference %", Of: x.relative}, {Title: "p", Of: func(i int) string { return hours[i].Chance() }}}
		return x.Table(append(cells, means[2:]...)...)
	})
	return rows, len(judged) * (len(runs[0].Results) - 1)
}

// loads names the loads of runs.
func loads(runs []steadyRun) (names []string) {
	for _, x := range runs {
		names = append(names, eval.Percent(x.load))
	}
	return names
}

// relative returns the difference of the GPU hours of result i from the first policy's, in per cent of the first policy's mean. It is empty
// where hardly anything waits with the first policy, because per cents of it would mean nothing.
func (x steadyRun) relative(i int) string {
	base := x.Results[0].Mean(steadyGPUHours)
	if i == 0 || base < 1 {
		return ""
	}
	of := x.Results[i].Values(steadyGPUHours)
	floats.Sub(of, x.Results[0].Values(steadyGPUHours))
	floats.Scale(100/base, of)
	return interval(x.Interval(of), 0, x.Samples())
}

// interval returns a mean with its interval, which one sample does not have.
func interval(d eval.Interval, digits, samples int) string {
	if samples < 2 {
		return fmt.Sprintf("%+.*f", digits, d.Mean)
	}
	return d.Text(digits)
}

// A class hardly waits with a policy if its pods wait less than this many seconds on average.
const hardly = 60

// leftOut describes the rows that the second table leaves out.
type leftOut struct {
	rows     int
	gpuHours float64 // the largest value of such a row
}

func (l leftOut) note(table bool) string {
	if l.rows == 0 {
		return ""
	}
	subject := "All classes of pods wait"
	if table {
		subject = "Classes and policies that are not in this table wait"
	}
	return fmt.Sprintf("\n%s less than a minute on average, for at most %.0f GPU hours each; --all shows them.\n", subject, l.gpuHours)
}

// classes returns the rows of the second table; a class without pods has none.
func (s Steady) classes(runs []steadyRun) (rows [][]string, left leftOut) {
	rows = eval.Stack("load", loads(runs), func(k int) [][]string {
		return eval.Stack("class", sim.SteadyClassNames[:], func(class int) [][]string {
			x, metrics := runs[k], classMetrics(class)
			all := x.Table(x.Means(metrics...)...)
			shown := all[:1:1]
			for i, r := range x.Results {
				switch {
				case r.Mean(metrics[waitPods]) == 0:
				case !s.All && r.Mean(metrics[waitMean]) < hardly:
					left.rows++
					left.gpuHours = max(left.gpuHours, r.Mean(metrics[waitGPUHours]))
				default:
					shown = append(shown, all[i+1])
				}
			}
			return shown
		})
	})
	return rows, left
}
