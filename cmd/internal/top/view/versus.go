package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"gnnsched/cmd/internal/top/query"
	"gnnsched/cmd/internal/top/state"
	"gnnsched/scheduler/decision/record"
)

// versusScreen shows the two profiles of a scheduler that decided most, side by side: what their decisions come to, and
// below that each one's decisions, the newest first.
type versusScreen struct {
	sides [2]tally // a profile without a name has decided nothing
}

// measures are the lines that compare the profiles.
var measures = []struct {
	name string
	of   func(c *canvas, t *tally) string
}{
	{"decisions", func(_ *canvas, t *tally) string { return strconv.Itoa(len(t.list)) }},
	{"bound/s now", func(c *canvas, t *tally) string { return fmt.Sprintf("%.1f", schedulerOf(c, t.profile).Rate) }},
	{"pending now", func(c *canvas, t *tally) string { return strconv.Itoa(schedulerOf(c, t.profile).Pending) }},
	{"no node", func(_ *canvas, t *tally) string { return strconv.Itoa(t.none) }},
	{"as the default", func(_ *canvas, t *tally) string { return outOf(t.same, t.asked) }},
	{"fallbacks", func(_ *canvas, t *tally) string { return strconv.Itoa(t.fell) }},
	{"nodes used", func(_ *canvas, t *tally) string { return strconv.Itoa(len(t.nodes)) }},
	{"most on a node", func(_ *canvas, t *tally) string { return strconv.Itoa(t.most()) }},
	{"median margin", func(_ *canvas, t *tally) string { return medianText(t.margins) }},
	{"median latency", func(c *canvas, t *tally) string { return c.st.Latency(median(t.latencies)) }},
}

func (*versusScreen) describe() description {
	return description{
		name: "versus", open: bind("v", "two profiles side by side", "v"),
		notes: []note{{title: "Side by side", text: "the two profiles with the most decisions that pass the filter"}},
	}
}

func (*versusScreen) asks() state.Ask { return state.Ask{Decisions: true} }

func (s *versusScreen) update(c *canvas, f query.Filter) {
	s.sides = [2]tally{}
	for i, t := range tallies(query.Select(f, c.details.Decisions, decisionRow)) {
		if i < len(s.sides) {
			s.sides[i] = *t
		}
	}
	slices.SortFunc(s.sides[:], func(a, b tally) int { // so that they do not change sides
		return cmp.Or(cmp.Compare(min(len(b.profile), 1), min(len(a.profile), 1)), strings.Compare(a.profile, b.profile))
	})
}

func (*versusScreen) press(*canvas, tea.KeyPressMsg) {}
func (*versusScreen) order(*canvas) string           { return "newest first" }

func (s *versusScreen) size(c *canvas) (shown, total int) {
	return max(len(s.sides[0].list), len(s.sides[1].list)), longest(tallies(c.details.Decisions))
}

// longest returns how many decisions the profile with the most has made.
func longest(all []*tally) int {
	if len(all) == 0 {
		return 0
	}
	return len(all[0].list)
}

// headingLines is 0 without decisions, so that the reason is seen. A low window shows fewer measures.
func (s *versusScreen) headingLines(c *canvas) int {
	if s.sides[0].profile == "" {
		return 0
	}
	return c.measuresShown() + 2
}

// measuresShown is how many measures leave room for some decisions.
func (c *canvas) measuresShown() int {
	const others = 12 // the header, the footer, titles and four decisions
	return max(0, min(len(measures), c.height-others))
}

func (*versusScreen) empty(c *canvas) string { return (&decisionsScreen{}).empty(c) }

func (s *versusScreen) draw(c *canvas, from, to int) []string {
	if s.sides[0].profile == "" {
		return nil
	}
	name, first := 14, "" // the longest measure
	if c.details.DecisionsErr != nil {
		first = "out of date"
	}
	half := max((c.width-name-2*len(c.gap()))/2, 1)
	line := func(first string, cell func(t *tally) string) string {
		return c.st.Fit(first, name) + c.gap() + c.st.Fit(cell(&s.sides[0]), half) + c.gap() + c.st.Fit(cell(&s.sides[1]), half)
	}
	lines := []string{c.st.Bold.Render(line(first, func(t *tally) string { return orDash(t.title()) }))}
	for _, m := range measures[:c.measuresShown()] {
		lines = append(lines, line(m.name, func(t *tally) string {
			if t.profile == "" {
				return "-"
			}
			return m.of(c, t)
		}))
	}
	return append(lines, c.textTable(slices.Concat(s.columns(c, 0), s.columns(c, 1)), max(len(s.sides[0].list), len(s.sides[1].list)), from, to)...)
}

// columns are those of one profile's decisions.
func (s *versusScreen) columns(c *canvas, side int) []textColumn {
	list := s.sides[side].list
	of := func(cell func(r *record.Record) string) func(int) string {
		return func(row int) string {
			if row >= len(list) {
				return ""
			}
			return cell(list[row])
		}
	}
	failed := func(row int) lipgloss.Style {
		if row < len(list) {
			return decidedStyle(c, list[row])
		}
		return c.st.Plain
	}
	return []textColumn{
		{title: "TIME", cell: of(func(r *record.Record) string { return r.Time.In(c.frame.Time.Location()).Format(time.TimeOnly) })},
		{title: "POD", middle: true, cell: of(func(r *record.Record) string { return r.Namespace + "/" + r.Pod }), style: failed},
		{title: nodeTitle(s.sides[side].shadow), cell: of(decidedNode), style: failed},
		{title: "MARGIN", right: true, extra: true, cell: of(marginText)},
		{title: "DEFAULT", extra: true, cell: of(defaultText)},
	}
}

// tally sums up the decisions of a profile.
type tally struct {
	profile            string
	list               []*record.Record
	asked, same        int // the default profile's choice is known; it is the same
	none, fell         int
	latencies, margins []float64      // of those that have one
	nodes              map[string]int // pods bound to each, or in the shadow those that would be
	shadow             bool           // the profile only watches
}

// title names the profile.
func (t *tally) title() string {
	if t.shadow {
		return t.profile + " (in the shadow)"
	}
	return t.profile
}

// tallies returns the sums of all profiles, the one with the most decisions first.
func tallies(list []record.Record) (out []*tally) {
	byName := map[string]*tally{}
	for i := range list {
		r := &list[i]
		t := byName[r.Profile]
		if t == nil {
			t = &tally{profile: r.Profile, nodes: map[string]int{}}
			byName[r.Profile] = t
			out = append(out, t)
		}
		t.add(r)
	}
	slices.SortFunc(out, func(a, b *tally) int {
		return cmp.Or(cmp.Compare(len(b.list), len(a.list)), strings.Compare(a.profile, b.profile))
	})
	return out
}

func (t *tally) add(r *record.Record) {
	t.list = append(t.list, r)
	if r.Latency > 0 {
		t.latencies = append(t.latencies, r.Latency)
	}
	if r.Margin != nil {
		t.margins = append(t.margins, *r.Margin)
	}
	if r.Default != nil {
		t.asked++
		if r.Default.Node == r.Node {
			t.same++
		}
	}
	if r.Fallback != "" {
		t.fell++
	}
	t.shadow = t.shadow || r.Outcome == record.Shadow
	switch {
	case r.Node == "":
		t.none++
	case r.Outcome == record.Bound || r.Outcome == record.Shadow:
		t.nodes[r.Node]++
	}
}

// most returns how many pods the node with the most got.
func (t *tally) most() (n int) {
	for _, pods := range t.nodes {
		n = max(n, pods)
	}
	return n
}

// median returns the median, the upper one of two; 0 for none.
func median(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(of))[len(of)/2]
}

func medianText(of []float64) string {
	if len(of) == 0 {
		return "-"
	}
	return strconv.FormatFloat(median(of), 'g', 3, 64)
}

func outOf(n, all int) string {
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d", n, all)
}

// schedulerOf returns what the frame says of a scheduler.
func schedulerOf(c *canvas, name string) state.Scheduler {
	i := slices.IndexFunc(c.frame.Schedulers, func(s state.Scheduler) bool { return s.Name == name })
	if i < 0 {
		return state.Scheduler{Name: name}
	}
	return c.frame.Schedulers[i]
}
