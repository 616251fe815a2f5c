package runlog

import (
	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/eval"
)

// Metric is a metric of a comparison, and whether more of it is better.
type Metric struct {
	eval.Metric
	More bool
}

// Rows returns the rows of a comparison on metrics other than eval.Metrics: the scenario, the metrics of each episode, and the differences
// of the judged metrics from the first contender, judged together.
func Rows(c *eval.Comparison, metrics []Metric, judged ...eval.Metric) []runfolder.Row {
	s := runfolder.Scenario{
		Name: c.Scenario.Name, About: c.Scenario.About, Baseline: c.Results[0].Name, Samples: c.Samples(), Rule: rule(c, len(judged)),
	}
	if c.Scenario.Objective != nil {
		s.Objective = c.Scenario.Objective.Name()
	}
	more := map[string]bool{}
	for _, m := range metrics {
		more[m.Name] = m.More
		s.Metrics = append(s.Metrics, runfolder.Metric{Name: m.Name, Title: m.Title, Digits: m.Digits, More: m.More})
	}
	rows := []runfolder.Row{s}
	for _, r := range c.Results {
		for i, o := range r.Outcomes {
			e := runfolder.Episode{Scenario: c.Scenario.Name, Contender: r.Name, Seed: c.Seeds[i], Values: map[string]float64{}}
			for _, m := range metrics {
				e.Values[m.Name] = m.Of(o)
			}
			rows = append(rows, e)
		}
	}
	return append(rows, differences(c, judged, c.Differences(judged), more)...)
}

// WriteRows writes rows about a scenario whose episodes the contenders' observers watched, and their waiting times.
func (l *Log) WriteRows(scenario string, contenders []string, rows ...runfolder.Row) {
	l.w.Add(rows...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if tally := l.waits[scenario]; tally != nil {
		l.w.Add(tally.Rows(scenario, contenders...)...)
	}
}
