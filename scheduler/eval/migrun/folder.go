package migrun

import (
	"cmp"
	"fmt"
	"strings"

	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/runlog"
)

// folderFigure is a metric of a run folder: a figure at a load.
type folderFigure struct {
	runfolder.Metric
	judged bool                             // its differences from the first policy are written
	of     func(p Result, seed int) float64 // of the episode of seed number seed
	bound  func(of [][]float64, seed int) (v float64, has bool)
}

// Folder returns the rows of a run folder: a scenario for each mix, with each load's figures.
func (r *Report) Folder() (rows []runfolder.Row) {
	for _, c := range r.Mixes {
		figures := r.folderFigures(c)
		s := runfolder.Scenario{Name: c.Mix, About: c.About, Objective: "allocated compute slices", Baseline: c.Policies[0].Name, Samples: len(r.Seeds), TimeUnit: "mean lifetimes"}
		for _, f := range figures {
			s.Metrics = append(s.Metrics, f.Metric)
		}
		differences := folderDifferences(c, figures, len(r.Seeds))
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

// folderFigures returns the metrics of a mix, load by load, the allocations first.
func (r *Report) folderFigures(c Comparison) (out []folderFigure) {
	metric := func(name, title string, k, digits int, more bool) runfolder.Metric {
		load := fmt.Sprintf("%.4g", 100*r.Loads[k])
		return runfolder.Metric{Name: name + load, Title: title + " at " + load + "%", Digits: digits, More: more}
	}
	steady := c.Policies[0].Queued != nil
	for k := range r.Loads {
		f := folderFigure{Metric: metric("allocation", "allocated %", k, 2, true), judged: true}
		if f.of = func(p Result, i int) float64 { return filledAllocation(p.Filled[i][k]) }; steady {
			f.of = func(p Result, i int) float64 { return 100 * p.Queued[i][k].Allocation }
		}
		f.bound = func(of [][]float64, i int) (float64, bool) {
			if i >= len(of) {
				return 0, false
			}
			return 100 * of[i][k], true
		}
		out = append(out, f)
	}
	for k := range r.Loads {
		if !steady {
			out = append(out, folderFigure{Metric: metric("left", "pods without a node", k, 1, false), of: func(p Result, i int) float64 { return filledLeft(p.Filled[i][k]) }})
			continue
		}
		out = append(out, folderFigure{Metric: metric("waiting", "pods waiting", k, 2, false), judged: true, of: func(p Result, i int) float64 { return p.Queued[i][k].Waiting }},
			folderFigure{Metric: metric("wait", "mean wait", k, 4, false), of: func(p Result, i int) float64 { return p.Queued[i][k].Wait(mig.Profiles()...) }})
	}
	return out
}

// folderEpisodes returns the figures of each policy by seed, and the allocations of the bound and the optimum.
func (r *Report) folderEpisodes(c Comparison, figures []folderFigure) (rows []runfolder.Row) {
	for _, p := range c.Policies {
		for i, seed := range r.Seeds {
			e := runfolder.Episode{Scenario: c.Mix, Contender: p.Name, Seed: seed, Values: map[string]float64{}}
			for _, f := range figures {
				e.Values[f.Name] = f.of(p, i)
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
				if f.bound == nil {
					continue
				}
				if v, has := f.bound(b.of, i); has {
					e.Values[f.Name] = v
				}
			}
			if len(e.Values) > 0 {
				rows = append(rows, e)
			}
		}
	}
	return rows
}

// folderDifferences returns the differences of the judged figures from the first policy, judged together, with their metrics.
func folderDifferences(c Comparison, figures []folderFigure, seeds int) (out []runfolder.Difference) {
	values := func(p Result, f folderFigure) []float64 {
		v := make([]float64, seeds)
		for i := range v {
			v[i] = f.of(p, i)
		}
		return v
	}
	var all []*eval.Difference
	var more []bool
	for _, f := range figures {
		if !f.judged {
			continue
		}
		for _, x := range c.Policies[1:] {
			d := eval.Paired(values(x, f), values(c.Policies[0], f))
			d.Relative = nil
			all, more = append(all, &d), append(more, f.More)
			out = append(out, runfolder.Difference{Scenario: c.Mix, Contender: x.Name, Metric: f.Name})
		}
	}
	eval.Together(all...)
	for i, d := range all {
		out[i] = runlog.DifferenceRow(*d, out[i], more[i])
	}
	return out
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
