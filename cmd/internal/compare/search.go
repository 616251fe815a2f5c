package compare

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/recording"
	"gnnsched/cmd/internal/report"
	"gnnsched/internal/exit"
	"gnnsched/internal/table"
	"gnnsched/scheduler/autoscale"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/objective"
)

// search looks for the cheapest setting near those that were named.
type search struct {
	most  float64  // pods that may wait; negative: as many as now
	notes []string // what is not varied
}

// searchOf returns the search of --at-most-waiting; nil without it.
func searchOf(c *ucli.Context) (*search, error) {
	if !c.IsSet("at-most-waiting") {
		return nil, nil
	}
	s := &search{most: c.Float64("at-most-waiting")}
	if !(s.most >= 0) {
		return nil, exit.Usagef("--at-most-waiting is %v, must be 0 or more", s.most)
	}
	return s, nil
}

// Nodes searches near the autoscalers of the flags of gnnsched plan, and prints what to change.
func Nodes(c *ucli.Context) error {
	s, err := searchOf(c)
	if err != nil {
		return err
	}
	chosen, err := recording.Profiles(c)
	if err != nil {
		return err
	}
	if !c.IsSet("profile") && !c.IsSet("checkpoint") {
		chosen = chosen[:1]
	}
	if s == nil {
		s = &search{most: -1}
	}
	p, err := newPlayer(c, s, chosen, eval.Seeds(1, fewSeeds))
	if err != nil {
		return err
	}
	p.config.Objective = objective.Balance{}
	if err := p.read(c); err != nil {
		return err
	}
	write := writeTable
	if c.String("output") == "json" {
		write = formats["json"]
	}
	return errors.Join(p.report(c, write, &report.Run{}))
}

// tried are the variants of an autoscaler that a search tries beside the one that was named, as far as that does not say what it starts
// and how eagerly it removes nodes. knobs say how people set these.
var (
	tried = map[string][]variant{
		"cluster-autoscaler": {{eager: "0.3"}, {eager: "0.7"}, {what: "price"}, {what: "price", eager: "0.3"}, {what: "price", eager: "0.7"}},
		"karpenter":          {{eager: "0s"}, {eager: "5m"}, {eager: "1h"}},
	}
	knobs = map[string]variant{
		"cluster-autoscaler": {what: "set --expander=", eager: "set --scale-down-utilization-threshold="},
		"karpenter":          {eager: "set consolidateAfter of all NodePools to "},
	}
)

// near returns the settings that a search tries beside a named one: the autoscaler's variants, and the changes of single NodePools.
func (s *search) near(named setting) (out []setting, err error) {
	if s == nil || named.Scaler == none {
		return nil, nil
	}
	name, given := parted(named.Scaler)
	for _, v := range tried[name] {
		if given.what != "" && v.what != "" || given.eager != "" && v.eager != "" {
			continue
		}
		var change []string
		if v.what != "" {
			change = append(change, knobs[name].what+v.what)
		}
		if v.eager != "" {
			change = append(change, knobs[name].eager+v.eager)
		}
		x := named
		x.Scaler = variant{given.what + v.what, given.eager + v.eager, given.beside}.of(name)
		x.Name = x.Scaler + strings.TrimPrefix(named.Name, named.Scaler)
		out = append(out, x.changed(change...))
	}
	changes, notes, err := autoscale.Changes(named.Types, named.Pools)
	for _, change := range changes {
		x := named
		x.Name, x.Pools = named.Name+", "+change.Name, change.Pools
		out = append(out, x.changed(change.Do))
	}
	s.notes = append(s.notes, notes...)
	return out, err
}

// changed returns the setting after more changes.
func (s setting) changed(more ...string) setting {
	s.Change = strings.Join(slices.DeleteFunc(append([]string{s.Change}, more...), func(c string) bool { return c == "" }), ", ")
	return s
}

// conclude puts what the search found into the result.
func (p *player) conclude(r *result) {
	for i, x := range p.contenders {
		r.Rows[r.baseline()+i].Change = x.change(p.chosen)
	}
	r.Answer = r.answer(p.search.most)
	slices.Sort(p.search.notes)
	r.Notes = append(append(r.Notes, fmt.Sprintf("settings that were tried with each profile: %d, those that are named and, one "+
		"at a time from each, the autoscaler's variants and changes of single NodePools", len(p.contenders)/len(p.chosen))),
		slices.Compact(p.search.notes)...)
}

// answer says what to change for the cheapest row at which at most so many pods wait; otherwise it names the one with the fewest.
func (r result) answer(most float64) string {
	waiting := func(x row) float64 { return x.Figures["waiting_pods"] }
	say := func(x row) string {
		return fmt.Sprintf("%s: %.2f a day, %.2f pods waiting, %s evicted", x.Name, x.Figures[billFigure], waiting(x), count(x.Scaled.Evicted))
	}
	rows := r.Rows[r.baseline():]
	now, limit := rows[0], fmt.Sprintf("at most %g pods waiting", most)
	if most < 0 {
		most = math.Ceil(100*waiting(now)) / 100
		limit = fmt.Sprintf("at most %g pods waiting, as now,", most)
	}
	best := slices.MinFunc(rows, func(a, b row) int {
		if waiting(a) <= most && waiting(b) <= most {
			return cmp.Or(cmp.Compare(a.Figures[billFigure], b.Figures[billFigure]), cmp.Compare(waiting(a), waiting(b)))
		}
		return cmp.Compare(waiting(a), waiting(b))
	})
	switch {
	case waiting(best) > most:
		return fmt.Sprintf("No setting that was tried keeps %s. The fewest wait with %s", limit, say(best))
	case best.Name == now.Name:
		return fmt.Sprintf("Leave it as it is: nothing that was tried is cheaper with %s than %s", limit, say(best))
	}
	cost, chance := r.judged(), ""
	d := best.Differences[cost.name]
	if m := r.mark(d, cost); m != eval.Lower && m != eval.Higher {
		chance = ", which may be chance"
	}
	return fmt.Sprintf("To change: %s.\nThe cheapest with %s is %s.\nNow, with %s. The price differs by %s%s",
		best.Change, limit, say(best), say(now), d.text(cost), chance)
}

// searched returns a table with a line for each setting that was tried.
func (r result) searched() table.Table {
	t := table.Of("setting", "price/day", "than now", "waiting", "p95", "evicted", "core hours lost")
	for i, x := range r.Rows {
		than, cost := "", r.judged()
		if d, has := x.Differences[cost.name]; has && i > r.baseline() {
			than = d.text(cost) + r.mark(d, cost).Sign()
		}
		t.Add(x.Name, fmt.Sprintf("%.2f", x.Figures[billFigure]), than, fmt.Sprintf("%.2f", x.Figures["waiting_pods"]),
			fmt.Sprintf("%.2f", x.P95), count(x.Scaled.Evicted), count(x.Scaled.LostCoreHours))
	}
	return t
}
