package migrun

import (
	"cmp"
	"fmt"
	"strings"

	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/runlog"
)

// Folder returns the rows of a run folder: a scenario for each mix, with each load's figures.
func (r *Report) Folder() (rows []runfolder.Row) {
	for _, c := range r.Mixes {
		figures := r.figures(c)
		s := runfolder.Scenario{Name: c.Mix, About: c.About, Objective: "allocated compute slices", Baseline: c.Policies[0].Name, Samples: len(r.Seeds), TimeUnit: "mean lifetimes"}
		for _, f := range figures {
			s.Metrics = append(s.Metrics, f.Metric)
		}
		var differences []runfolder.Difference
		for _, d := range r.differences(c) {
			differences = append(differences, runlog.DifferenceRow(*d.Difference, runfolder.Difference{Scenario: c.Mix, Contender: d.policy, Metric: d.Name}, d.More))
		}
		if len(r.Seeds) > 1 && len(differences) > 0 {
			s.Rule = eval.Words.Rule(len(r.Seeds), len(differences))
		}
		rows = append(rows, s)
		rows = append(rows, r.verdicts(c, differences)...)
		rows = append(rows, r.folderEpisodes(c, figures)...)
		for _, d := range differences {
			rows = append(rows, d)
		}
		for _, t := range r.tables(c) {
			rows = append(rows, runfolder.Table{Scenario: c.Mix, Title: t.title, Text: strings.TrimSpace(t.text), Columns: t.rows[0], Rows: t.rows[1:]})
		}
	}
	return rows
}

// folderEpisodes returns the figures of each policy by seed, and the allocations of the bound and the optimum.
func (r *Report) folderEpisodes(c Comparison, figures []figure) (rows []runfolder.Row) {
	for _, p := range c.Policies {
		for i, seed := range r.Seeds {
			e := runfolder.Episode{Scenario: c.Mix, Contender: p.Name, Seed: seed, Values: map[string]float64{}}
			for _, f := range figures {
				e.Values[f.Name] = f.of(p.at(i, f.load))
			}
			rows = append(rows, e)
		}
	}
	for _, b := range []struct {
		name string
		of   [][]float64
	}{{"optimum", c.Optimum}, {"bound", c.Bounds}} {
		for i, seed := range r.Seeds {
			e := runfolder.Episode{Scenario: c.Mix, Contender: b.name, Seed: seed, Values: map[string]float64{}}
			for _, f := range figures {
				if f.More && i < len(b.of) { // bounds are of the allocation
					e.Values[f.Name] = 100 * b.of[i][f.load]
				}
			}
			if len(e.Values) > 0 {
				rows = append(rows, e)
			}
		}
	}
	return rows
}

// verdicts judges every policy at the highest load.
func (r *Report) verdicts(c Comparison, differences []runfolder.Difference) (rows []runfolder.Row) {
	k := len(r.Loads) - 1
	name := fmt.Sprintf("allocation%.4g", 100*r.Loads[k])
	for _, d := range differences {
		if d.Metric != name {
			continue
		}
		text := fmt.Sprintf("at %.4g%% requested, %s allocates %+.2f points against %s", 100*r.Loads[k], d.Contender, d.Mean, c.Policies[0].Name)
		state := cmp.Or(d.Mark, runfolder.Note)
		if d.P != nil {
			text += fmt.Sprintf(" (%+.2f to %+.2f, p %s)", *d.Low, *d.High, eval.Significance(*d.P))
		}
		rows = append(rows, runfolder.Verdict{Scenario: c.Mix, Contender: d.Contender, State: state, Text: text})
	}
	return rows
}
