package published

import (
	"bytes"
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
	var b bytes.Buffer
	title := "%s: %s.\n\n"
	if markdown {
		title = "### %s\n\n%s.\n\n"
	}
	for _, runs := range s.byWorkload() {
		first := runs[0]
		rows, comparisons := compared(runs)
		fmt.Fprintf(&b, title+"Means over %s, each of %s after %s of warm-up; the load is\nthe GPUs that pods request on average.%s\n\n",
			first.Scenario.Name, first.Scenario.About, seeds(first.Comparison), days(s.days), days(s.warmUp),
			explained(first.Comparison, comparisons))
		if err := eval.Render(&b, rows, markdown); err != nil {
			return err
		}
		if s.Totals {
			b.WriteString("\n")
			continue
		}
		rows, left := s.classes(runs)
		if len(rows) > 1 {
			b.WriteString("\nWaiting by the GPUs that pods request:\n\n")
			if err := eval.Render(&b, rows, markdown); err != nil {
				return err
			}
		}
		fmt.Fprint(&b, left.note(len(rows) > 1), "\n")
	}
	_, err := w.Write(b.Bytes())
	return err
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
	all := judged(runs)
	head := []string{
		"load", "policy", steadyAllocation.Title, "difference", "p", steadyGPUHours.Title, "difference %", "p", steadyWaiting.Title,
		steadyRejected.Title,
	}
	rows = append(rows, head)
	for _, x := range runs {
		for i, r := range x.Results {
			of := func(m eval.Metric) string { return fmt.Sprintf("%.*f", m.Digits, r.Mean(m)) }
			row := []string{x.percent(), r.Name, of(steadyAllocation), "", "", of(steadyGPUHours), "", "", of(steadyWaiting), of(steadyRejected)}
			if i > 0 {
				row[3], row[6] = x.points(r), x.relative(r)
				row[4], row[7] = all[comparisons].Chance(), all[comparisons+1].Chance()
				comparisons += 2
			}
			rows = append(rows, row)
		}
	}
	return rows, comparisons
}

// judged returns the differences of the first table, of allocation and GPU hours in turns, judged together.
func judged(runs []steadyRun) (all []*eval.Difference) {
	for _, x := range runs {
		for _, r := range x.Results[1:] {
			for _, m := range []eval.Metric{steadyAllocation, steadyGPUHours} {
				d := x.Difference(r, m)
				all = append(all, &d)
			}
		}
	}
	eval.Together(all...)
	return all
}

func (x steadyRun) percent() string { return fmt.Sprintf("%.4g%%", 100*x.load) }

// points returns the difference of the allocation from the first policy's, in points.
func (x steadyRun) points(r eval.Result) string {
	return interval(x.Difference(r, steadyAllocation).Interval, steadyAllocation.Digits, x.Samples())
}

// relative returns the difference of the GPU hours from the first policy's, in per cent of the first policy's mean. It is empty where
// hardly anything waits with the first policy, because per cents of it would mean nothing.
func (x steadyRun) relative(r eval.Result) string {
	base := x.Results[0].Mean(steadyGPUHours)
	if base < 1 {
		return ""
	}
	of := r.Values(steadyGPUHours)
	floats.Sub(of, x.Results[0].Values(steadyGPUHours))
	floats.Scale(100/base, of)
	return interval(x.Interval(of), 0, x.Samples())
}

// interval returns a mean with its interval, which one sample does not have.
func interval(d eval.Interval, digits, samples int) string {
	if samples < 2 {
		return fmt.Sprintf("%+.*f", digits, d.Mean)
	}
	return fmt.Sprintf("%+.*f (%+.*f to %+.*f)", digits, d.Mean, digits, d.Low, digits, d.High)
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
	head := []string{"load", "class", "policy"}
	for _, m := range classMetrics {
		head = append(head, m.title)
	}
	rows = append(rows, head)
	for _, x := range runs {
		for class, name := range sim.SteadyClassNames {
			for _, r := range x.Results {
				switch hours := r.Mean(classMetric(class, waitGPUHours)); {
				case r.Mean(classMetric(class, waitPods)) == 0:
					continue
				case !s.All && r.Mean(classMetric(class, waitMean)) < hardly:
					left.rows++
					left.gpuHours = max(left.gpuHours, hours)
					continue
				}
				row := []string{x.percent(), name, r.Name}
				for column := range classMetrics {
					m := classMetric(class, column)
					row = append(row, fmt.Sprintf("%.*f", m.Digits, r.Mean(m)))
				}
				rows = append(rows, row)
			}
		}
	}
	return rows, left
}
