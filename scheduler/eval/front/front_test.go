package front

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"testing"

	"gnnsched/internal/golden"
	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/sim"
)

func mix(t *testing.T, text string) objective.Mix {
	t.Helper()
	m, err := objective.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func entrant(t *testing.T, name string, g Group, m objective.Mix) Entrant {
	t.Helper()
	h, err := heuristic.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return Entrant{eval.Contender{Name: h.Name, New: func(s policy.Setting) policy.Policy { return h.New(s) }, RandomTies: h.RandomTies}, g, m}
}

// The costs of both terms come from the same placements: together they are the mix's cost as the simulator computes it.
func TestRunMeasuresBothTerms(t *testing.T) {
	s, err := eval.Find("small8")
	if err != nil {
		t.Fatal(err)
	}
	both := mix(t, "balance=2,pack=0.5")
	p := Plan{
		Scenario: s, Terms: [2]objective.Term{both[0].Term, both[1].Term}, Mixes: []objective.Mix{both}, Seeds: eval.Seeds(1, 3),
		Entrants: []Entrant{entrant(t, "greedy:balance=2+pack=0.5", Greedy, both), entrant(t, "best-fit", Baseline, nil)},
	}
	done := 0
	f, err := Run(context.Background(), p, func(part, parts int, _ string) func(d, total int) {
		return func(d, total int) {
			if done++; part*total+d != done || parts*total != 12 {
				t.Errorf("%d of %d episodes in part %d of %d, want %d of 12", d, total, part, parts, done)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Objective = both
	c, err := eval.Compare(context.Background(), s, []eval.Contender{p.Entrants[0].Contender, p.Entrants[1].Contender}, p.Seeds, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range c.Results {
		for k, want := range r.Values(overTime) {
			if got := f.cost(both).Results[i].Outcomes[k].MeanCost; math.Abs(got-want) > 1e-9 {
				t.Errorf("%s on seed %d: %v, want %v", r.Name, k, got, want)
			}
		}
	}
}

// points is a front with costs that make the tables easy to check.
func points(t *testing.T) *Front {
	t.Helper()
	a, b := mix(t, "balance"), mix(t, "balance=0.5,energy=1.25")
	f := &Front{Plan: Plan{
		Scenario: eval.Scenario{Name: "example"}, Terms: [2]objective.Term{b[0].Term, b[1].Term}, Mixes: []objective.Mix{a, b},
		Seeds: eval.Seeds(7, 4),
	}}
	f.terms = [2]*eval.Comparison{{Seeds: f.Plan.Seeds}, {Seeds: f.Plan.Seeds}}
	add := func(name string, g Group, m objective.Mix, balance, energy float64, unscheduled int) {
		f.Plan.Entrants = append(f.Plan.Entrants, Entrant{eval.Contender{Name: name}, g, m})
		var of [2]eval.Result
		for i := range f.Plan.Seeds {
			noise := 0.01 * float64(i)
			for k, cost := range []float64{balance + noise, energy + noise*balance} {
				of[k].Outcomes = append(of[k].Outcomes, sim.Outcome{Unscheduled: unscheduled, MeanCost: cost})
			}
		}
		for k, r := range of {
			f.terms[k].Results = append(f.terms[k].Results, r)
		}
	}
	add("net", Conditioned, a, 0.11, 0.60, 0)
	add("net", Conditioned, b, 0.20, 0.50, 1)
	add("one", Single, b, 0.18, 0.52, 2)
	add("greedy", Greedy, a, 0.10, 0.60, 0)
	add("greedy", Greedy, b, 0.25, 0.49, 0)
	add("best-fit", Baseline, nil, 0.30, 0.55, 3)
	return f
}

// A point is compared with the policy that was made for its mix, or with the greedy one where there is none.
func TestFrontTables(t *testing.T) {
	f := points(t)
	for name, write := range map[string]func(*bytes.Buffer) error{
		"table.txt": func(b *bytes.Buffer) error { return f.Write(b, false) },
		"table.md":  func(b *bytes.Buffer) error { return f.Write(b, true) },
		"rows.json": func(b *bytes.Buffer) error {
			e := json.NewEncoder(b)
			e.SetIndent("", "  ")
			return e.Encode(f)
		},
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, name, b.String())
	}
	all, _ := f.mixes()
	first := all[0]
	if first.entrants[first.cost.Baseline].Name != "greedy" || math.Abs(first.differences[0].Mean-0.01) > 1e-9 ||
		math.Abs(first.ofRange(0)-0.01/0.2) > 1e-9 {
		t.Errorf("the first mix is %+v", first)
	}
	if second := all[1]; second.entrants[second.cost.Baseline].Name != "one" {
		t.Errorf("compared with %d", second.cost.Baseline)
	}
}

// The run folder has a scenario for each mix, with the costs of each seed and the differences of the tables.
func TestFolder(t *testing.T) {
	f := points(t)
	var scenarios []runfolder.Scenario
	var episodes []runfolder.Episode
	var differences []runfolder.Difference
	var verdicts []runfolder.Verdict
	tables := 0
	for _, r := range f.Folder() {
		switch r := r.(type) {
		case runfolder.Scenario:
			scenarios = append(scenarios, r)
		case runfolder.Episode:
			episodes = append(episodes, r)
		case runfolder.Difference:
			differences = append(differences, r)
		case runfolder.Verdict:
			verdicts = append(verdicts, r)
		case runfolder.Table:
			tables++
		}
	}
	if len(scenarios) != 2 || scenarios[0].Name != "example, balance" || scenarios[0].Baseline != "greedy" ||
		scenarios[1].Baseline != "one (single)" || tables != 2 || len(episodes) != 4*(3+4) {
		t.Errorf("%+v, %d tables, %d episodes", scenarios, tables, len(episodes))
	}
	if e := episodes[1]; e.Contender != "net (one network)" || e.Seed != 8 || math.Abs(e.Values["cost"]-0.12) > 1e-9 ||
		math.Abs(e.Values["second"]-0.6011) > 1e-9 {
		t.Errorf("%+v", e)
	}
	if d := differences; len(d) != 2+3 || d[0].Scenario != "example, balance" || math.Abs(d[0].Mean-0.01) > 1e-9 || d[0].Low == nil ||
		d[0].P != nil || d[0].Mark != "" {
		t.Errorf("%+v", d)
	}
	if v := verdicts; len(v) != 5 || v[0].State != runfolder.Note || v[0].Text != "net (one network) was compared on too few seeds with "+
		"greedy: cost +0.0100 (+0.0100 to +0.0100), +5.0 % of the range of all policies" {
		t.Errorf("%+v", v)
	}
	if rows := (*Front)(nil).Folder(); rows != nil {
		t.Errorf("nothing was played, and there are %d rows", len(rows))
	}
}
