package published

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
)

// SteadyLoads are the usual offered loads of a Steady, over the cluster's GPUs.
var SteadyLoads = []float64{0.85, 0.95, 1.05}

// The usual times of a Steady, in days.
const (
	SteadyWarmUp = 1
	SteadyDays   = 2
)

const secondsADay = 86400

// Steady is the result of RunSteady: how policies serve pods that come and go.
type Steady struct {
	// All makes Write show every class of pods with every policy, also where hardly any pod waits.
	All bool
	// Totals makes Write leave out the tables of waiting by class.
	Totals bool

	warmUp, days float64
	runs         []steadyRun // by workload and load
}

// steadyRun is a workload at an offered load.
type steadyRun struct {
	*eval.Comparison
	load float64
}

// RunSteady plays every workload with every contender and seed at each of c.Loads, for c.Days after c.WarmUp days of warm-up (sim.Steady).
// progress may be nil.
func RunSteady(ctx context.Context, c Config, progress eval.Progress) (Steady, error) {
	out := Steady{warmUp: c.WarmUp, days: c.Days}
	err := c.workloads(func(i int, _ []openb.Node, pods []openb.Pod) error { // before the first one is played
		if err := openb.CheckLifetimes(pods); err != nil {
			return exit.New(exit.Usage, fmt.Errorf("%s: %w", c.Workloads[i], err), "choose other pod lists with --workload")
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	err = c.workloads(func(i int, nodes []openb.Node, pods []openb.Pod) error {
		for k, load := range c.Loads {
			s := scenario(c.Workloads[i], "come and go", sim.OpenB{
				Nodes: nodes, Pods: pods, InOrder: c.InOrder,
				Steady: &sim.Steady{Load: load, WarmUp: c.WarmUp * secondsADay, Duration: c.Days * secondsADay},
			})
			r, err := eval.Compare(ctx, s, c.Contenders, c.Seeds, progress.Part(i*len(c.Loads)+k, len(c.Workloads)*len(c.Loads), s.Name))
			if err != nil {
				return err
			}
			out.runs = append(out.runs, steadyRun{r, load})
		}
		return nil
	})
	return out, err
}

// The metrics of all pods. More is better for the allocation.
var (
	steadyAllocation = eval.Metric{
		Name: "allocation", Title: "GPU allocation %", Digits: 2, Of: func(o sim.Outcome) float64 { return 100 * o.Steady.Allocation },
	}
	steadyGPUHours = eval.Metric{
		Name: "gpuHours", Title: "GPU hours waited", Digits: 0, Of: func(o sim.Outcome) float64 { return o.Steady.GPUHours },
	}
	steadyWaiting = eval.Metric{
		Name: "waiting", Title: "pods waiting", Digits: 1, Of: func(o sim.Outcome) float64 { return o.Steady.Waiting },
	}
	steadyRejected = eval.Metric{
		Name: "rejected", Title: "rejected", Digits: 1, Of: func(o sim.Outcome) float64 { return float64(o.Steady.Rejected) },
	}

	steadyMoves = eval.Metric{
		Name: "moves", Title: "moves", Digits: 0, Of: func(o sim.Outcome) float64 { return float64(moved(o).Moved) },
	}
	steadyMovedWork = eval.Metric{
		Name: "movedGPUHours", Title: "GPU hours moved", Digits: 0, Of: func(o sim.Outcome) float64 { return moved(o).Work / 3600 },
	}

	steadyMetrics = []eval.Metric{steadyAllocation, steadyGPUHours, steadyWaiting, steadyRejected}
)

// moved returns the moves of an outcome.
func moved(o sim.Outcome) sim.MovesOutcome {
	if o.Moves == nil {
		return sim.MovesOutcome{}
	}
	return *o.Moves
}

// metrics returns the metrics of all pods: those of moves only if pods move.
func (x steadyRun) metrics() []eval.Metric {
	for _, r := range x.Results {
		if slices.ContainsFunc(r.Outcomes, func(o sim.Outcome) bool { return o.Moves != nil }) {
			return append(slices.Clone(steadyMetrics), steadyMoves, steadyMovedWork)
		}
	}
	return steadyMetrics
}

// Indices in classMetrics.
const (
	waitPods     = 0
	waitMean     = 2
	waitGPUHours = 4
)

// classMetrics returns the metrics of a class.
func classMetrics(class int) []eval.Metric {
	of := func(name, title string, digits int, of func(sim.Waits) float64) eval.Metric {
		return eval.Metric{Name: name, Title: title, Digits: digits, Of: func(o sim.Outcome) float64 { return of(o.Steady.Classes[class]) }}
	}
	return []eval.Metric{
		of("pods", "pods", 0, func(w sim.Waits) float64 { return float64(w.Pods) }),
		of("waited", "waited", 1, func(w sim.Waits) float64 { return float64(w.Waited) }),
		of("meanWait", "mean wait s", 1, func(w sim.Waits) float64 { return w.Mean }),
		of("p95Wait", "95th percentile s", 0, func(w sim.Waits) float64 { return w.P95 }),
		of("gpuHours", "GPU hours", 0, func(w sim.Waits) float64 { return w.GPUHours }),
		of("unfinished", "unfinished", 1, func(w sim.Waits) float64 { return float64(w.Unfinished) }),
	}
}

// WriteCSV writes a row for each workload, load, policy, seed and class, with all digits. The class "all" has the figures
// of all pods.
func (s Steady) WriteCSV(w io.Writer) error {
	written := slices.Concat(
		[]eval.Metric{steadyAllocation, steadyWaiting, steadyRejected}, classMetrics(0), []eval.Metric{steadyMoves, steadyMovedWork},
	)
	rows := [][]string{append([]string{"workload", "load", "policy", "seed", "class"}, eval.MetricNames(written)...)}
	for _, x := range s.runs {
		rows = append(rows, x.Rows([]string{x.Scenario.Name, eval.Exact(x.load)}, steadyCells)...)
	}
	return eval.WriteRows(w, rows)
}

// steadyCells returns the cells of an outcome from the class on.
func steadyCells(o sim.Outcome) [][]string {
	s := o.Steady
	all := []string{"all", eval.Exact(s.Allocation), eval.Exact(s.Waiting), strconv.Itoa(s.Rejected), "", "", "", "", eval.Exact(s.GPUHours),
		""}
	all = append(all, eval.Figures(o, steadyMoves, steadyMovedWork)...)
	rows := [][]string{all}
	for class, name := range sim.SteadyClassNames {
		rows = append(rows, append([]string{name, "", "", ""}, append(eval.Figures(o, classMetrics(class)...), "", "")...))
	}
	return rows
}

// MarshalJSON implements json.Marshaler: a list of the workloads at each load, with the outcomes of each policy by
// seed, their means and the differences from the first policy's. Means and differences of the allocation are in per cent
// of the GPUs.
func (s Steady) MarshalJSON() ([]byte, error) {
	type policy struct {
		Name       string                     `json:"name"`
		Mean       map[string]float64         `json:"mean"`
		Difference map[string]eval.Difference `json:"difference,omitempty"` // from the first policy's
		Outcomes   []*sim.SteadyOutcome       `json:"outcomes"`             // by seed
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
		for i, r := range x.Results {
			p := policy{Name: r.Name}
			p.Mean, p.Difference = x.Named(i, x.metrics())
			for _, o := range r.Outcomes {
				p.Outcomes = append(p.Outcomes, o.Steady)
			}
			v.Policies = append(v.Policies, p)
		}
		out = append(out, v)
	}
	return json.Marshal(out)
}
