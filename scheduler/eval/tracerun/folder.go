package tracerun

import (
	"fmt"
	"path/filepath"
	"slices"

	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/runlog"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/driver"
)

// folderMetrics are the metrics of a Report in run folders, over the outcomes that outcome returns.
var folderMetrics = []runlog.Metric{
	{Metric: metric("gpuAllocation", "GPU allocation %", 2, func(g *sim.GPUOutcome) float64 { return 100 * g.Allocation }), More: true},
	{
		Metric: metric("gpuAllocationAtFull", "when 100% asked %", 2, func(g *sim.GPUOutcome) float64 { return 100 * g.AllocationAtFull }),
		More:   true,
	},
	{Metric: eval.Unscheduled},
	{Metric: metric("unscheduledCPU", "no GPU", 1, func(g *sim.GPUOutcome) float64 { return float64(g.UnscheduledCPU) })},
	{Metric: metric("unscheduledShare", "share", 1, func(g *sim.GPUOutcome) float64 { return float64(g.UnscheduledShare) })},
	{Metric: metric("unscheduledWhole", "whole", 1, func(g *sim.GPUOutcome) float64 { return float64(g.UnscheduledWhole) })},
}

// metric returns a metric of the GPUs.
func metric(name, title string, digits int, of func(*sim.GPUOutcome) float64) eval.Metric {
	return eval.Metric{Name: name, Title: title, Digits: digits, Of: func(o sim.Outcome) float64 { return of(o.GPU) }}
}

// outcome returns a trial's measurements on the cluster.
func (t Trial) outcome() sim.Outcome {
	return sim.Outcome{Unscheduled: t.Pods - t.Bound, GPU: &sim.GPUOutcome{
		Allocation: t.GPU.Allocation(), AllocationAtFull: t.GPU.AllocationAtFull(),
		UnscheduledCPU: t.GPU.UnscheduledCPU, UnscheduledShare: t.GPU.UnscheduledShare, UnscheduledWhole: t.GPU.UnscheduledWhole,
	}}
}

// Folder returns the rows of a run folder: the metrics on the cluster, and the table that compares them with the simulator. An interrupted
// run has the seeds that were played with every policy.
func (r *Report) Folder() []runfolder.Row {
	if r = r.whole(); r == nil {
		return nil
	}
	c := eval.Collect(r.Trials, func(t Trial) (string, uint64, sim.Outcome) { return t.Policy, t.Seed, t.outcome() })
	c.Scenario = eval.Scenario{
		Name: filepath.Base(r.PodsFile) + " on a cluster",
		About: fmt.Sprintf("%d nodes with %d GPUs%s and the real kube-scheduler, until %.0f%% of the GPUs were asked for",
			r.Nodes, r.GPUs, forms[r.GPURequests].text, 100*r.Factor),
	}
	rows := r.verdicts(c.Scenario.Name)
	rows = append(rows, runlog.Rows(c, folderMetrics, folderMetrics[0].Metric, folderMetrics[1].Metric, eval.Unscheduled)...)
	table := r.rows()
	return append(rows, runfolder.Table{Scenario: c.Scenario.Name, Title: "Cluster and simulator", Columns: table[0], Rows: table[1:]})
}

// whole returns a report of the seeds that were played with every policy; nil if there are none.
func (r *Report) whole() *Report {
	if r == nil {
		return nil
	}
	played := map[uint64]int{}
	for _, t := range r.Trials {
		played[t.Seed]++
	}
	part := func(seed uint64) bool { return played[seed] < len(r.Policies) }
	out := *r
	out.Seeds = slices.DeleteFunc(slices.Clone(r.Seeds), part)
	out.Trials = slices.DeleteFunc(slices.Clone(r.Trials), func(t Trial) bool { return part(t.Seed) })
	if len(out.Seeds) == 0 {
		return nil
	}
	return &out
}

// verdicts returns, for each policy, how many pods got the same node as in the simulator.
func (r *Report) verdicts(scenario string) (rows []runfolder.Row) {
	if r.GPURequests == driver.Mixed {
		return nil
	}
	for _, p := range r.Policies {
		pods, nodes, devices := 0, 0, 0
		for _, t := range r.Trials {
			if t.Policy == p {
				pods, nodes, devices = pods+t.Pods, nodes+t.Same, devices+t.SameDevices
			}
		}
		rows = append(rows, runfolder.Verdict{
			Scenario: scenario, Contender: p, State: runfolder.Note,
			Text: fmt.Sprintf("%s: of %d pods, %d are on the node of the simulator or without one in both, and %d on its devices",
				p, pods, nodes, devices),
		})
	}
	return rows
}

// Folder returns the rows of a run folder: a scenario for the cluster and one for the simulator, and how fast the cluster was.
func (r *SteadyReport) Folder() []runfolder.Row {
	if r == nil || len(r.Trials) == 0 {
		return nil
	}
	table := r.speeds()
	return append(r.tables().Folder(), runfolder.Table{
		Title: "How fast the cluster was", Text: "At once: mean time to a node of the pods that the scheduler never refused. " +
			"Late: 95th percentile of the time by which pods came too late.",
		Columns: table[0], Rows: table[1:],
	})
}
