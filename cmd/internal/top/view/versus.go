package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"charm.land/lipgloss/v2"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/scheduler/decision"
)

// versusScreen shows two profiles side by side, of one scheduler or of two: sums over their decisions, and below them each one's decisions,
// the newest first. For a scheduler that is not asked, it shows its bound pods.
type versusScreen struct {
	list[beside]
	sides [2]*tally // nil: there is none
}

// beside is a row: a decision of each side, nil after its last one.
type beside [2]*decision.Record

func newVersusScreen() *versusScreen {
	s := &versusScreen{}
	s.list = list[beside]{
		about: description{
			name: "versus", open: bind("v", "two schedulers side by side", "v"),
			notes: []note{{title: "Side by side", lines: []string{
				"  the profiles with the most decisions that pass the filter, first one of each --server",
				"  bound pods   this scheduler is not asked: the API says what it has bound",
			}}},
		},
		ask: state.Ask{Decisions: true, Placed: true}, sorted: "newest first", above: s.figures,
		columns: func(c *canvas) []column[beside] { return slices.Concat(s.columnsOf(c, 0), s.columnsOf(c, 1)) },
	}
	return s
}

// measures are the lines that compare the profiles. Those with counted set come from the API, so they are known of every scheduler.
var measures = []struct {
	name    string
	counted bool
	of      func(c *canvas, t *tally) string
}{
	{"decisions", false, func(_ *canvas, t *tally) string { return strconv.Itoa(len(t.list)) }},
	{"bound now", true, boundText},
	{"bound/s now", true, func(c *canvas, t *tally) string { return fmt.Sprintf("%.1f", schedulerOf(c, t.of.profile).Rate) }},
	{"pending now", true, func(c *canvas, t *tally) string { return strconv.Itoa(schedulerOf(c, t.of.profile).Pending) }},
	{"no node", false, func(_ *canvas, t *tally) string { return strconv.Itoa(t.none) }},
	{"as the default", false, func(_ *canvas, t *tally) string { return outOf(t.same, t.asked) }},
	{"fallbacks", false, func(_ *canvas, t *tally) string { return strconv.Itoa(t.fell) }},
	{"nodes used", false, func(_ *canvas, t *tally) string { return strconv.Itoa(len(t.nodes)) }},
	{"most on a node", false, func(_ *canvas, t *tally) string { return strconv.Itoa(t.most()) }},
	{"median margin", false, func(_ *canvas, t *tally) string { return medianText(t.margins) }},
	{"median latency", false, func(c *canvas, t *tally) string { return c.st.Latency(median(t.latencies)) }},
}

// update implements screen: the filter is for decisions, before they stand side by side.
func (s *versusScreen) update(c *canvas, filter string) {
	list := compared(c)
	s.sides, s.shown, s.total = [2]*tally{}, nil, len(list)
	copy(s.sides[:], ranked(c, tallies(state.Select(list, filter, decisionTexts))))
	if l, r := s.sides[0], s.sides[1]; r != nil && l.of.compare(r.of) > 0 { // so that they do not change sides
		s.sides[0], s.sides[1] = r, l
	}
	for side, t := range s.sides {
		if t == nil {
			continue
		}
		s.shown = append(s.shown, make([]beside, max(len(t.list)-len(s.shown), 0))...)
		for row, r := range t.list {
			s.shown[row][side] = r
		}
	}
}

// compared are the decisions that the schedulers told, and the bound pods of schedulers that told none.
func compared(c *canvas) []state.Decision {
	told := map[string]bool{}
	for i := range c.details.Decisions {
		told[c.details.Decisions[i].Profile] = true
	}
	list := slices.Clip(c.details.Decisions)
	for _, p := range c.details.Placed {
		if !told[p.Scheduler] {
			list = append(list, p.Last...)
		}
	}
	return list
}

// ranked sorts the tallies: of each server the profile with the most decisions, then the other profiles, then the schedulers that are
// not asked.
func ranked(c *canvas, all []*tally) []*tally {
	servers, rank := map[string]bool{}, map[*tally]int{}
	for _, t := range all {
		switch {
		case t.of.counted:
			rank[t] = 2
		case servers[t.of.server]:
			rank[t] = 1
		default:
			servers[t.of.server] = true
		}
	}
	slices.SortStableFunc(all, func(a, b *tally) int {
		if a.of.counted && b.of.counted {
			return cmp.Compare(placedBy(c, b.of.profile).Bound, placedBy(c, a.of.profile).Bound)
		}
		return cmp.Compare(rank[a], rank[b])
	})
	return all
}

// measuresShown is the number of measures that leaves room for some decisions.
func (c *canvas) measuresShown() int {
	const others = 12 // the header, the footer, titles and four decisions
	return max(0, min(len(measures), c.height-others-len(c.silent())))
}

func (*versusScreen) empty(c *canvas) string {
	if len(c.details.Decisions) > 0 {
		return "no decision passes the filter"
	}
	return noDecision(c)
}

// figures compares the sides; without decisions it says only who does not answer. A low window shows fewer measures.
func (s *versusScreen) figures(c *canvas) []string {
	lines := c.silent()
	if s.sides[0] == nil {
		return lines
	}
	const name = 14 // the longest measure
	half := max((c.width-name-2*len(c.gap()))/2, 1)
	line := func(first string, cell func(t *tally) string) string {
		out := c.st.Fit(first, name)
		for _, t := range s.sides {
			text := "-"
			if t != nil {
				text = state.Printable(cell(t))
			}
			out += c.gap() + c.st.Fit(text, half)
		}
		return out
	}
	lines = append(lines, c.st.Bold.Render(line("", (*tally).title)))
	if s.sides[1] == nil {
		lines[len(lines)-1] = c.st.Fit(c.st.Bold.Render(state.Printable(s.sides[0].title()))+c.st.Dim.Render(" has no other profile beside "+
			"it; --server names more schedulers"), c.width)
	}
	for _, m := range measures[:c.measuresShown()] {
		lines = append(lines, line(m.name, func(t *tally) string {
			if t.of.counted && !m.counted {
				return "-"
			}
			return m.of(c, t)
		}))
	}
	return lines
}

// columnsOf are the columns of one side's decisions.
func (s *versusScreen) columnsOf(c *canvas, side int) []column[beside] {
	t := s.sides[side]
	if t == nil {
		return nil
	}
	of := func(cell func(r *decision.Record) string) func(*beside) string {
		return func(x *beside) string {
			if x[side] == nil {
				return ""
			}
			return cell(x[side])
		}
	}
	failed := func(x *beside) lipgloss.Style {
		if x[side] == nil {
			return c.st.Plain
		}
		return decidedStyle(c, x[side])
	}
	cols := []column[beside]{
		{title: "TIME", cell: of(c.decidedAt)},
		{title: "POD", middle: true, cell: of(decidedPod), style: failed},
		{title: nodeTitle(t.shadow), cell: of(decidedNode), style: failed},
	}
	if t.of.counted {
		return cols
	}
	return append(cols,
		column[beside]{title: "MARGIN", right: true, extra: 1, cell: of(marginText)},
		column[beside]{title: "DEFAULT", extra: 1, cell: of(defaultText)},
	)
}

// placedBy returns a scheduler's bound pods.
func placedBy(c *canvas, name string) state.Placed {
	i := slices.IndexFunc(c.details.Placed, func(p state.Placed) bool { return p.Scheduler == name })
	if i < 0 {
		return state.Placed{Scheduler: name}
	}
	return c.details.Placed[i]
}

// boundText returns the number of nodes with pods of the profile.
func boundText(c *canvas, t *tally) string {
	p := placedBy(c, t.of.profile)
	if p.Bound == 0 {
		return "0"
	}
	if p.Nodes == 1 {
		return fmt.Sprintf("%d on 1 node", p.Bound)
	}
	return fmt.Sprintf("%d on %d nodes, most %d", p.Bound, p.Nodes, p.Most)
}

// schedulerOf returns a scheduler of the frame.
func schedulerOf(c *canvas, name string) state.Scheduler {
	i := slices.IndexFunc(c.frame.Schedulers, func(s state.Scheduler) bool { return s.Name == name })
	if i < 0 {
		return state.Scheduler{Name: name}
	}
	return c.frame.Schedulers[i]
}
