package agreement

import (
	"fmt"

	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/runlog"
	"gnnsched/scheduler/sim"
)

// OnCluster returns the name that a scenario has in run folders for its episodes on a cluster.
func OnCluster(s eval.Scenario) string { return s.Name + " on a cluster" }

// Folder returns the rows of a run folder: a scenario for the episodes on the cluster, one for the simulator's, and their differences.
func (r *Report) Folder() []runfolder.Row {
	var metrics []runlog.Metric
	for _, m := range r.metrics() {
		metrics = append(metrics, runlog.Metric{Metric: m})
	}
	cluster := OnCluster(r.Scenario)
	rows := r.verdicts(cluster)
	for _, c := range []*eval.Comparison{r.comparison(cluster, live), r.comparison(r.Scenario.Name+" in the simulator", simulated)} {
		rows = append(rows, runlog.Rows(c, metrics, eval.Objective, eval.Unscheduled)...)
	}
	placements, means := r.placements(), r.means()
	return append(rows,
		runfolder.Table{Scenario: cluster, Title: "Placements", Columns: placements[0], Rows: placements[1:]},
		runfolder.Table{Scenario: cluster, Title: "Simulator and cluster", Columns: means[0], Rows: means[1:]})
}

// verdicts says of each policy how often the cluster decided as the simulator.
func (r *Report) verdicts(scenario string) (rows []runfolder.Row) {
	for _, x := range r.placements()[1:] {
		text := fmt.Sprintf("%s: of %s pods, %s got the same node as in the simulator, and %s a node that the policy would have chosen "+
			"in the same state", x[0], x[1], x[2], x[3])
		rows = append(rows, runfolder.Verdict{Scenario: scenario, Contender: x[0], State: runfolder.Note, Text: text})
	}
	return rows
}

func live(t Trial) sim.Outcome      { return t.Cluster }
func simulated(t Trial) sim.Outcome { return t.Simulated }

// comparison returns the outcomes on one of the two sides.
func (r *Report) comparison(name string, of func(Trial) sim.Outcome) *eval.Comparison {
	c := eval.Collect(r.Trials, func(t Trial) (string, uint64, sim.Outcome) { return t.Policy, t.Seed, of(t) })
	c.Scenario = r.Scenario
	c.Scenario.Name = name
	return c
}
