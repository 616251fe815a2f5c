package runlog

import (
	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/eval"
)

// columnRows returns the rows of columns, which have the same contenders and seeds, and the differences of the judged ones. s
// has what the columns do not tell of the scenario.
func columnRows(s runfolder.Scenario, columns, judged []eval.Column, differences [][]*eval.Difference) (rows []runfolder.Row) {
	c := columns[0]
	if s.Samples = c.Samples(); c.Baseline >= 0 {
		s.Baseline = c.Results[c.Baseline].Name
	}
	if n := len(judged) * (len(c.Results) - 1); n > 0 && s.Samples > 1 && s.Rule == "" {
		s.Rule = eval.Words.Rule(s.Samples, n)
	}
	more := map[string]bool{}
	for _, x := range columns {
		more[x.Name] = x.More
		s.Metrics = append(s.Metrics, runfolder.Metric{Name: x.Name, Title: x.Title, Digits: x.Digits, More: x.More})
	}
	rows = append(rows, s)
	for i, r := range c.Results {
		for k, seed := range c.Seeds {
			e := runfolder.Episode{Scenario: s.Name, Contender: r.Name, Seed: seed, Values: map[string]float64{}}
			for _, x := range columns {
				e.Values[x.Name] = x.Of(x.Results[i].Outcomes[k])
			}
			rows = append(rows, e)
		}
	}
	for k, all := range differences {
		for i, d := range all {
			if d != nil {
				row := runfolder.Difference{Scenario: s.Name, Contender: c.Results[i].Name, Metric: judged[k].Name}
				rows = append(rows, differenceRow(*d, row, more[row.Metric]))
			}
		}
	}
	return rows
}

// WriteRows writes rows about a scenario, and what the contenders' observers saw of its episodes.
func (l *Log) WriteRows(scenario string, contenders []string, rows ...runfolder.Row) {
	if l.w == nil {
		return
	}
	l.w.Add(rows...)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range contenders {
		l.w.Add(l.kept[[2]string{scenario, c}]...)
	}
	if tally := l.waits[scenario]; tally != nil {
		l.w.Add(tally.Rows(scenario, contenders...)...)
	}
}
