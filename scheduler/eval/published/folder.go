package published

import (
	"fmt"

	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/runlog"
)

// folderMetric gives a metric of a table a name and a title. more: more of it is better.
func folderMetric(m eval.Metric, name, title string, more bool) runlog.Metric {
	m.Name, m.Title = name, title
	return runlog.Metric{Metric: m, More: more}
}

// Folder returns the rows of a run folder.
func (r Report) Folder() (rows []runfolder.Row) {
	var all []runlog.Metric
	for i, m := range metrics {
		all = append(all, runlog.Metric{Metric: m, More: i < 2})
	}
	for _, c := range r.comparisons {
		rows = append(rows, runlog.Rows(c, all, allocation)...)
		table := r.allocations(c)
		rows = append(rows, runfolder.Table{Scenario: c.Scenario.Name, Title: "Published figures", Columns: table[0], Rows: table[1:]})
	}
	return rows
}

// Folder returns the rows of a run folder.
func (c Curve) Folder() []runfolder.Row { return c.folder(c.allocationMetrics()) }

// Folder returns the rows of a run folder.
func (p Power) Folder() []runfolder.Row {
	all := p.allocationMetrics()
	for k, load := range p.loads {
		percent := fmt.Sprintf("%.4g", 100*load)
		all = append(all, folderMetric(kilowatts(k), "kilowatts"+percent, "kW at "+percent+"%", false))
	}
	return p.folder(append(all, folderMetric(meanKilowatts(p.last()), "meanKilowatts", "mean kW", false)))
}

// allocationMetrics are the allocations at each load.
func (c Curve) allocationMetrics() (out []runlog.Metric) {
	for k, load := range c.loads {
		percent := fmt.Sprintf("%.4g", 100*load)
		out = append(out, folderMetric(allocationAt(k), "allocation"+percent, "GPU allocation at "+percent+"%", true))
	}
	return out
}

// folder returns the rows of all workloads, with the differences of all metrics.
func (c Curve) folder(all []runlog.Metric) (rows []runfolder.Row) {
	var judged []eval.Metric
	for _, m := range all {
		judged = append(judged, m.Metric)
	}
	for _, x := range c.curves {
		rows = append(rows, runlog.Rows(x.Comparison, all, judged...)...)
	}
	return rows
}

// Folder returns the rows of a run folder: a scenario for each workload and load.
func (s Steady) Folder() (rows []runfolder.Row) {
	all := []runlog.Metric{
		{Metric: steadyAllocation, More: true}, {Metric: steadyGPUHours}, {Metric: steadyWaiting}, {Metric: steadyRejected},
	}
	for _, x := range s.runs {
		c := *x.Comparison
		if len(c.Seeds) == 0 {
			continue // of an interrupted run
		}
		c.Scenario.Name = fmt.Sprintf("%s at %.4g%%", c.Scenario.Name, 100*x.load)
		rows = append(rows, runlog.Rows(&c, all, steadyAllocation, steadyGPUHours)...)
		table, _ := s.classes([]steadyRun{x})
		rows = append(rows, runfolder.Table{Scenario: c.Scenario.Name, Title: "Waiting by class", Columns: table[0], Rows: table[1:]})
	}
	return rows
}
