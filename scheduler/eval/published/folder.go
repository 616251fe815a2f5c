package published

import (
	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/runlog"
)

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
func (c Curve) Folder() []runfolder.Row {
	return c.folder(func(curve) []eval.Column { return nil })
}

// Folder returns the rows of a run folder.
func (p Power) Folder() []runfolder.Row {
	return p.folder(func(x curve) []eval.Column {
		return append(p.columns(x, kilowatts), x.Comparison.Column(meanKilowatts(p.last())))
	})
}

// folder returns the rows of all workloads, with the differences of the allocations and of further columns.
func (c Curve) folder(further func(curve) []eval.Column) (rows []runfolder.Row) {
	for _, x := range c.curves {
		all := append(c.columns(x, allocationAt), further(x)...)
		s := runfolder.Scenario{Name: x.Scenario.Name, About: x.Scenario.About}
		rows = append(rows, runlog.ColumnRows(s, all, all, eval.Judge(all...))...)
	}
	return rows
}

// Folder returns the rows of a run folder: a scenario for each workload and load.
func (s Steady) Folder() (rows []runfolder.Row) {
	for _, x := range s.runs {
		var all []runlog.Metric
		for i, m := range x.metrics() {
			all = append(all, runlog.Metric{Metric: m, More: i == 0})
		}
		c := *x.Comparison
		if len(c.Seeds) == 0 {
			continue // of an interrupted run
		}
		c.Scenario.Name = c.Scenario.Name + " at " + eval.Percent(x.load)
		rows = append(rows, runlog.Rows(&c, all, steadyAllocation, steadyGPUHours)...)
		table, _ := s.classes([]steadyRun{x})
		rows = append(rows, runfolder.Table{Scenario: c.Scenario.Name, Title: "Waiting by class", Columns: table[0], Rows: table[1:]})
	}
	return rows
}
