package published

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"gonum.org/v1/gonum/floats"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
)

// SteadyLoads are the usual offered loads of a Steady, over the cluster's GPUs.
var SteadyLoads = []float64{0.85, 0.95, 1.05}

// The usual times of a Steady, in days.
const (
	steadyWarmUp = 1
	SteadyDays   = 2
)

const secondsADay = 86400

// Steady is the result of RunSteady: how policies serve pods that come and go.
type Steady struct {
	days  float64
	loads []float64
	runs  []steadyRun
}

// steadyRun is a workload at an offered load.
type steadyRun struct {
	*eval.Comparison
	load float64
}

// RunSteady plays every workload with every contender and seed at each of c.Loads, for c.Days after a day of
// warm-up (sim.Steady). Progress is told as by Run.
func RunSteady(ctx context.Context, c Config, progress func(workload string, done, total int)) (Steady, error) {
	out := Steady{days: c.Days, loads: c.Loads}
	err := c.workloads(func(name string, nodes []openb.Node, pods []openb.Pod) error {
		for i, load := range c.Loads {
			s, err := scenario(name, fmt.Sprintf("come and go, and request %.4g%% of the GPUs on average", 100*load), sim.OpenB{
				Nodes: nodes, Pods: pods, InOrder: c.InOrder,
				Steady: &sim.Steady{Load: load, WarmUp: steadyWarmUp * secondsADay, Duration: c.Days * secondsADay},
			})
			if err != nil {
				return err
			}
			r, err := eval.Compare(ctx, s, c.Contenders, c.Seeds, func(done, total int) {
				if progress != nil {
					progress(name, i*total+done, len(c.Loads)*total)
				}
			})
			if errors.Is(err, openb.ErrNoLifetime) {
				return exit.New(exit.Usage, err, "choose other pod lists with --workload")
			}
			if err != nil {
				return err
			}
			out.runs = append(out.runs, steadyRun{r, load})
		}
		return nil
	})
	return out, err
}

// The metrics of the first table. More is better for the allocation.
var (
	steadyAllocation = eval.Metric{Name: "allocation", Title: "GPU allocation %", Digits: 2, Of: func(o sim.Outcome) float64 { return 100 * o.Steady.Allocation }}
	steadyGPUHours   = eval.Metric{Name: "gpuHours", Title: "GPU hours waited", Digits: 0, Of: func(o sim.Outcome) float64 { return o.Steady.GPUHours }}
	steadyWaiting    = eval.Metric{Name: "waiting", Title: "pods waiting", Digits: 1, Of: func(o sim.Outcome) float64 { return o.Steady.Waiting }}
	steadyTurnedAway = eval.Metric{Name: "turnedAway", Title: "turned away", Digits: 1, Of: func(o sim.Outcome) float64 { return float64(o.Steady.TurnedAway) }}
)

// classMetrics are the columns of a class.
var classMetrics = []struct {
	name, title string
	digits      int
	of          func(sim.Waits) float64
}{
	{"pods", "pods", 0, func(w sim.Waits) float64 { return float64(w.Pods) }},
	{"waited", "waited", 1, func(w sim.Waits) float64 { return float64(w.Waited) }},
	{"meanWait", "mean wait s", 1, func(w sim.Waits) float64 { return w.Mean }},
	{"p95Wait", "95th percentile s", 0, func(w sim.Waits) float64 { return w.P95 }},
	{"gpuHours", "GPU hours", 0, func(w sim.Waits) float64 { return w.GPUHours }},
	{"unfinished", "unfinished", 1, func(w sim.Waits) float64 { return float64(w.Unfinished) }},
}

// classMetric returns a column of a class as a metric.
func classMetric(class, column int) eval.Metric {
	return eval.Metric{Digits: classMetrics[column].digits, Of: func(o sim.Outcome) float64 { return classMetrics[column].of(o.Steady.Classes[class]) }}
}

// Write writes two tables for each workload and load, for a terminal or as Markdown: allocation and waiting of
// all pods with the differences from the first policy's, and the waiting of each class.
func (s Steady) Write(w io.Writer, markdown bool) error {
	var b bytes.Buffer
	title := "%s: %s"
	if markdown {
		title = "### %s\n\n%s"
	}
	for _, x := range s.runs {
		fmt.Fprintf(&b, title+".\n\nMeans over %s, each %.4g days after %d of warm-up; differences from %s with 95%% intervals:\n\n",
			x.Scenario.Name, x.Scenario.About, seeds(x.Comparison), s.days, steadyWarmUp, x.Results[0].Name)
		if err := eval.Render(&b, x.all(), markdown); err != nil {
			return err
		}
		b.WriteString("\nWaiting by the GPUs that pods request:\n\n")
		if err := eval.Render(&b, x.classes(), markdown); err != nil {
			return err
		}
		b.WriteByte('\n')
	}
	_, err := w.Write(b.Bytes())
	return err
}

// all returns the rows of the first table.
func (x steadyRun) all() [][]string {
	rows := [][]string{{"policy", steadyAllocation.Title, "difference", steadyGPUHours.Title, "difference %", steadyWaiting.Title, steadyTurnedAway.Title}}
	for i, r := range x.Results {
		row := []string{r.Name}
		for _, m := range []eval.Metric{steadyAllocation, steadyGPUHours} {
			row = append(row, fmt.Sprintf("%.*f", m.Digits, r.Mean(m)), "")
		}
		if i > 0 {
			d := x.Difference(r, steadyAllocation)
			row[2] = fmt.Sprintf("%+.2f (%+.2f to %+.2f)", d.Mean, d.Low, d.High)
			row[4] = x.relative(r)
		}
		for _, m := range []eval.Metric{steadyWaiting, steadyTurnedAway} {
			row = append(row, fmt.Sprintf("%.*f", m.Digits, r.Mean(m)))
		}
		rows = append(rows, row)
	}
	return rows
}

// relative returns the difference of the GPU hours from those of the first policy, in per cent of their mean.
func (x steadyRun) relative(r eval.Result) string {
	base := x.Results[0].Mean(steadyGPUHours)
	if base == 0 {
		return "" // nothing waits with the first policy
	}
	of := r.Values(steadyGPUHours)
	floats.Sub(of, x.Results[0].Values(steadyGPUHours))
	floats.Scale(100/base, of)
	d := eval.MeanInterval(of)
	return fmt.Sprintf("%+.0f (%+.0f to %+.0f)", d.Mean, d.Low, d.High)
}

// classes returns the rows of the second table; a class without pods has none.
func (x steadyRun) classes() [][]string {
	head := []string{"class", "policy"}
	for _, m := range classMetrics {
		head = append(head, m.title)
	}
	rows := [][]string{head}
	for class, name := range sim.SteadyClassNames {
		for _, r := range x.Results {
			if r.Mean(classMetric(class, 0)) == 0 {
				continue
			}
			row := []string{name, r.Name}
			for column := range classMetrics {
				m := classMetric(class, column)
				row = append(row, fmt.Sprintf("%.*f", m.Digits, r.Mean(m)))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// WriteCSV writes a row for each workload, load, policy, seed and class, with all digits. The class "all" has the figures
// of all pods.
func (s Steady) WriteCSV(w io.Writer) error {
	head := []string{"workload", "load", "policy", "seed", "class"}
	for _, m := range []eval.Metric{steadyAllocation, steadyWaiting, steadyTurnedAway} {
		head = append(head, m.Name)
	}
	for _, m := range classMetrics {
		head = append(head, m.name)
	}
	rows := [][]string{head}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for _, x := range s.runs {
		for _, r := range x.Results {
			for i, o := range r.Outcomes {
				first := func(class string) []string {
					return []string{x.Scenario.Name, number(x.load), r.Name, strconv.FormatUint(x.Seeds[i], 10), class}
				}
				rows = append(rows, append(first("all"), number(o.Steady.Allocation), number(o.Steady.Waiting), strconv.Itoa(o.Steady.TurnedAway), "", "", "", "", number(o.Steady.GPUHours), ""))
				for class, waits := range o.Steady.Classes {
					row := append(first(sim.SteadyClassNames[class]), "", "", "")
					for _, m := range classMetrics {
						row = append(row, number(m.of(waits)))
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

// MarshalJSON implements json.Marshaler: a list of the workloads at each load, with the outcomes of each policy by
// seed.
func (s Steady) MarshalJSON() ([]byte, error) {
	type policy struct {
		Name     string               `json:"name"`
		Outcomes []*sim.SteadyOutcome `json:"outcomes"` // by seed
	}
	type run struct {
		Workload string   `json:"workload"`
		Load     float64  `json:"load"`
		Days     float64  `json:"days"` // after the warm-up
		Classes  []string `json:"classes"`
		Seeds    []uint64 `json:"seeds"`
		Policies []policy `json:"policies"`
	}
	var out []run
	for _, x := range s.runs {
		v := run{Workload: x.Scenario.Name, Load: x.load, Days: s.days, Classes: sim.SteadyClassNames[:], Seeds: x.Seeds}
		for _, r := range x.Results {
			p := policy{Name: r.Name}
			for _, o := range r.Outcomes {
				p.Outcomes = append(p.Outcomes, o.Steady)
			}
			v.Policies = append(v.Policies, p)
		}
		out = append(out, v)
	}
	return json.Marshal(out)
}
