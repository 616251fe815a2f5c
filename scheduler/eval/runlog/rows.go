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

// Rows returns the rows of a comparison on other metrics than those of eval.Metrics: the scenario, the metrics of each
// episode, and the differences of the judged metrics from the first contender, with p values that are adjusted together.
func Rows(c *eval.Comparison, metrics []Metric, judged ...eval.Metric) []runfolder.Row {
	s := runfolder.Scenario{Name: c.Scenario.Name, About: c.Scenario.About, Baseline: c.Results[0].Name, Samples: c.Samples()}
	if c.Scenario.Objective != nil {
		s.Objective = c.Scenario.Objective.Name()
	}
	for _, m := range metrics {
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
	for _, d := range differences(c, judged) {
		rows = append(rows, d)
	}
	return rows
}

// WriteRows writes rows about a scenario whose episodes the contenders' observers watched, and their waiting times. It
// returns the first error of all writes so far.
func (l *Log) WriteRows(scenario string, contenders []string, rows ...runfolder.Row) error {
	l.add(rows...)
	for _, name := range contenders {
		l.add(l.waitsOf(key{scenario, name})...)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// waitsOf returns the rows of a contender's waiting times.
func (l *Log) waitsOf(k key) (rows []runfolder.Row) {
	l.mu.Lock()
	all := l.waits[k]
	l.mu.Unlock()
	for _, x := range classes(all) {
		w := runfolder.Waits{Scenario: k.scenario, Contender: k.contender, Class: x.name}
		w.Summarise(x.atOnce, x.times, x.never)
		rows = append(rows, w)
	}
	return rows
}
