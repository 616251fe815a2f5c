package view

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/decision"
)

// decisionsScreen is the stream of the schedulers' decisions, the newest first.
func decisionsScreen() screen {
	s := &list[state.Decision]{
		about: description{
			name: "decisions", open: bind("l", "decisions of the scheduler", "l"),
			notes: []note{{title: "Decisions", lines: []string{
				"  MARGIN    score of the node minus that of the runner-up",
				"  DEFAULT   what the default profile would have chosen; a dash: it was not asked",
			}}},
		},
		ask: state.Ask{Decisions: true}, sorted: "newest first", noun: "decision", none: noDecision, to: decisionTarget,
		id:    func(r *state.Decision) string { return r.UID + r.Pod + r.Time.String() + r.Server },
		rows:  func(c *canvas) []state.Decision { return c.details.Decisions },
		texts: decisionTexts,
	}
	s.columns = func(c *canvas) []column[state.Decision] { return decisionColumns(c, s.shown, true) }
	// Above are the schedulers that do not answer, and the sums of the others' decisions.
	s.above = func(c *canvas) []string {
		lines := c.silent()
		if len(lines) == 0 || len(s.shown) > 0 {
			lines = append(lines, summary(c, s.shown)...)
		}
		return lines
	}
	return s
}

func noDecision(c *canvas) string {
	if len(c.details.Silent) > 0 {
		return state.Printable(hintOf(c.details.Silent[0].Err))
	}
	return "the scheduler has decided nothing yet"
}

// decisionTexts returns what the filter searches of a decision.
func decisionTexts(r *state.Decision) []string {
	return []string{r.Namespace + "/" + r.Pod, r.Node, r.RunnerUp, r.Profile, r.Server, r.Policy, r.Outcome, r.Really, r.Fallback, r.Failure}
}

// decisionColumns are the columns of a list of decisions. A list of one node's decisions needs no column for the node.
func decisionColumns(c *canvas, decisions []state.Decision, node bool) []column[state.Decision] {
	of := func(cell func(r *decision.Record) string) func(*state.Decision) string {
		return func(d *state.Decision) string { return cell(&d.Record) }
	}
	failed := func(d *state.Decision) lipgloss.Style { return decidedStyle(c, &d.Record) }
	shadow := slices.ContainsFunc(decisions, func(r state.Decision) bool { return r.Outcome == decision.Shadow })
	several := len(c.servers) > 1
	differs := func(d *state.Decision) lipgloss.Style {
		if d.Default != nil && d.Default.Node != d.Node {
			return c.st.Accent
		}
		return c.st.Dim
	}
	pod := "POD"
	if shadow && !node {
		pod = "WOULD COME"
	}
	var cols []column[state.Decision]
	add := func(wanted bool, col column[state.Decision]) {
		if wanted {
			cols = append(cols, col)
		}
	}
	profile := column[state.Decision]{title: "PROFILE", extra: extraIf(!several), cell: func(d *state.Decision) string { return d.Profile }}
	add(true, column[state.Decision]{title: "TIME", cell: of(c.decidedAt)})
	add(true, column[state.Decision]{title: pod, middle: true, cell: of(decidedPod), style: failed})
	add(node, column[state.Decision]{title: nodeTitle(shadow), cell: of(decidedNode), style: failed})
	add(shadow, column[state.Decision]{title: "REALLY ON", cell: func(d *state.Decision) string { return orDash(d.Really) }})
	add(several, profile)
	add(slices.ContainsFunc(decisions, func(r state.Decision) bool { return len(r.Claimed) > 0 || len(r.Devices) > 0 }),
		column[state.Decision]{title: "DEVICE", extra: 1, cell: of(decidedDevices)})
	cols = append(cols,
		column[state.Decision]{title: "MARGIN", right: true, cell: of(marginText)},
		column[state.Decision]{title: "RUNNER-UP", extra: extraIf(shadow || several),
			cell: func(d *state.Decision) string { return orDash(d.RunnerUp) }},
		column[state.Decision]{title: "DEFAULT", cell: of(defaultText), style: differs},
		column[state.Decision]{title: "LATENCY", right: true, cell: func(d *state.Decision) string { return c.st.Latency(d.Latency) }},
		column[state.Decision]{title: "POLICY", extra: 1, cell: of(policyText)},
		column[state.Decision]{
			title: "FITS", extra: 1, right: true, cell: func(d *state.Decision) string { return fmt.Sprintf("%d/%d", d.Feasible, d.Nodes) },
		},
	)
	add(several, column[state.Decision]{title: "SERVER", extra: 1, cell: func(d *state.Decision) string { return d.Server }})
	add(!several, profile)
	return append(cols, column[state.Decision]{title: "WHY NOT", extra: 1, cell: of(failureText)})
}

// extraIf makes a column one that is left out first, if it matters less.
func extraIf(less bool) int {
	if less {
		return 1
	}
	return 0
}

func decidedPod(r *decision.Record) string { return r.Namespace + "/" + r.Pod }

// decidedAt is the time of a decision; a dash if it is not known.
func (c *canvas) decidedAt(r *decision.Record) string {
	if r.Time.IsZero() {
		return "-"
	}
	return r.Time.In(c.frame.Time.Location()).Format(time.TimeOnly)
}

// nodeTitle is the title of the column of chosen nodes.
func nodeTitle(shadow bool) string {
	if shadow {
		return "WOULD GO TO"
	}
	return "NODE"
}

// decidedStyle warns of decisions that gave the pod no node, or in the shadow would not have.
func decidedStyle(c *canvas, r *decision.Record) lipgloss.Style {
	if r.Outcome == decision.Bound || r.Outcome == decision.Shadow && r.Node != "" {
		return c.st.Plain
	}
	return c.st.Warn
}

// decidedNode is the chosen node, or the outcome if the pod is not bound to it. For a decision in the shadow it is the node to which the
// pod would go; the column's title tells so.
func decidedNode(r *decision.Record) string {
	switch {
	case r.Node == "":
		return "none"
	case r.Outcome != decision.Bound && r.Outcome != decision.Shadow:
		return r.Node + " (" + r.Outcome + ")"
	}
	return r.Node
}

// decidedDevices names the devices that the pod got: by its claims, or else by number. A part of a card is followed by its percentage.
func decidedDevices(r *decision.Record) string {
	var all []string
	for _, d := range r.Claimed {
		name := d.Name
		if d.Milli > 0 && d.Milli < cluster.DeviceMilli {
			name += " " + state.DevicePercent(d.Milli) + "%"
		}
		all = append(all, name)
	}
	if len(all) == 0 && len(r.Devices) > 0 {
		all = append(all, strings.Trim(strings.ReplaceAll(fmt.Sprint(r.Devices), " ", "-"), "[]"))
	}
	return orDash(strings.Join(all, ", "))
}

func marginText(r *decision.Record) string {
	if r.Margin == nil {
		return "-"
	}
	return strconv.FormatFloat(*r.Margin, 'g', 3, 64)
}

// defaultText is the default profile's choice: a node, or that it agrees.
func defaultText(r *decision.Record) string {
	switch {
	case r.Default == nil:
		return "-"
	case r.Default.Node == r.Node:
		return "same"
	}
	return r.Default.Node
}

func policyText(r *decision.Record) string {
	switch {
	case r.Fallback != "":
		return "fallback: " + r.Fallback
	case r.Policy == "" && r.Feasible == 1:
		return "only node"
	}
	return orDash(r.Policy)
}

// failureText is the reason that refused most nodes, or what went wrong.
func failureText(r *decision.Record) string {
	if r.Node != "" {
		return ""
	}
	if len(r.Refused) > 0 {
		return fmt.Sprintf("%d %s", r.Refused[0].Nodes, r.Refused[0].Reason)
	}
	return r.Failure
}

// silent returns a line about each scheduler that does not answer.
func (c *canvas) silent() (lines []string) {
	for _, x := range c.details.Silent {
		text := x.Err.Error()
		if x.Server != "" {
			text = x.Server + ": " + strings.TrimPrefix(text, "ask the scheduler: ")
		}
		lines = append(lines, c.st.Warn.Render(c.st.Fit(state.Printable(text), c.width)))
	}
	return lines
}

// summary sums up the decisions of each profile on one line; of several schedulers each of the first few profiles has its own.
func summary(c *canvas, decisions []state.Decision) (lines []string) {
	var parts []string
	all := tallies(decisions)
	for i, p := range all {
		parts = append(parts, c.st.Bold.Render(state.Printable(p.title()))+" "+fmt.Sprint(len(p.list)))
		if p.asked > 0 {
			parts = append(parts, fmt.Sprintf("as default %d of %d", p.same, p.asked))
		}
		if p.none > 0 {
			parts = append(parts, c.st.Warn.Render(fmt.Sprintf("no node %d", p.none)))
		}
		if p.fell > 0 {
			parts = append(parts, c.st.Warn.Render(fmt.Sprintf("fallback %d", p.fell)))
		}
		if len(p.latencies) > 0 {
			parts = append(parts, "median "+c.st.Latency(median(p.latencies)))
		}
		if len(c.servers) > 1 && len(lines) < 2 && i < len(all)-1 {
			lines, parts = append(lines, c.st.Fit(c.st.Join(parts, c.width), c.width)), nil
		}
	}
	return append(lines, c.st.Fit(c.st.Join(parts, c.width), c.width))
}

// hintOf returns the hint of an error.
func hintOf(err error) string {
	var e *exit.Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

// decider is a profile of a scheduler.
type decider struct {
	profile, server string // the server is empty if there is only one
	counted         bool   // it is not asked
}

func (d decider) title() string {
	switch {
	case d.counted:
		return d.profile + " (bound pods)"
	case d.server != "":
		return d.profile + " at " + d.server
	}
	return d.profile
}

func (d decider) compare(other decider) int { return strings.Compare(d.title(), other.title()) }

// tally sums up the decisions of a profile.
type tally struct {
	of                 decider
	list               []*decision.Record
	asked, same        int // known choices of the default profile, and how many agree
	none, fell         int
	latencies, margins []float64      // of the decisions that have one
	nodes              map[string]int // pods bound to each node; in the shadow, pods that would be bound
	shadow             bool           // the profile only watches
}

// title names the profile.
func (t *tally) title() string {
	if t.shadow {
		return t.of.title() + " (in the shadow)"
	}
	return t.of.title()
}

// tallies returns the sums of all profiles, the one with the most decisions first.
func tallies(list []state.Decision) (out []*tally) {
	all := map[decider]*tally{}
	for i := range list {
		d := &list[i]
		of := decider{profile: d.Profile, server: d.Server, counted: d.Counted}
		t := all[of]
		if t == nil {
			t = &tally{of: of, nodes: map[string]int{}}
			all[of] = t
			out = append(out, t)
		}
		t.add(&d.Record)
	}
	slices.SortFunc(out, func(a, b *tally) int {
		return cmp.Or(cmp.Compare(len(b.list), len(a.list)), a.of.compare(b.of))
	})
	return out
}

func (t *tally) add(r *decision.Record) {
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
	t.shadow = t.shadow || r.Outcome == decision.Shadow
	switch {
	case r.Node == "":
		t.none++
	case r.Outcome == decision.Bound || r.Outcome == decision.Shadow:
		t.nodes[r.Node]++
	}
}

// most returns the number of pods on the node with the most.
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
