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
	{Metric: eval.Metric{Name: "gpuAllocation", Title: "GPU allocation %", Digits: 2, Of: func(o sim.Outcome) float64 { return 100 * o.GPU.Allocation }}, More: true},
	{Metric: eval.Metric{Name: "gpuAllocationAtFull", Title: "when 100% asked %", Digits: 2, Of: func(o sim.Outcome) float64 { return 100 * o.GPU.AllocationAtFull }}, More: true},
	{Metric: eval.Unscheduled},
	{Metric: eval.Metric{Name: "unscheduledCPU", Title: "no GPU", Digits: 1, Of: func(o sim.Outcome) float64 { return float64(o.GPU.UnscheduledCPU) }}},
	{Metric: eval.Metric{Name: "unscheduledShare", Title: "share", Digits: 1, Of: func(o sim.Outcome) float64 { return float64(o.GPU.UnscheduledShare) }}},
	{Metric: eval.Metric{Name: "unscheduledWhole", Title: "whole", Digits: 1, Of: func(o sim.Outcome) float64 { return float64(o.GPU.UnscheduledWhole) }}},
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
	c := &eval.Comparison{Seeds: r.Seeds, Scenario: eval.Scenario{
		Name: filepath.Base(r.PodsFile) + " on a cluster",
		About: fmt.Sprintf("%d nodes with %d GPUs%s and the real kube-scheduler, until %.0f%% of the GPUs were asked for",
			r.Nodes, r.GPUs, forms[r.GPURequests].text, 100*r.Factor),
	}}
	rows := r.verdicts(c.Scenario.Name)
	for _, p := range r.Policies {
		x := eval.Result{Name: p}
		for _, seed := range r.Seeds {
			i := slices.IndexFunc(r.Trials, func(t Trial) bool { return t.Policy == p && t.Seed == seed })
			x.Outcomes = append(x.Outcomes, r.Trials[i].outcome())
		}
		c.Results = append(c.Results, x)
	}
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
		Title: "How fast the cluster was", Text: "At once: mean time to a node of the pods that the scheduler never refused. Late: 95th percentile of the time by which pods came too late.",
		Columns: table[0], Rows: table[1:],
	})
}
