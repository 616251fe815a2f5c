package view

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"gnnsched/cmd/internal/top/query"
	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/decision/record"
)

// decisionsScreen is the stream of a scheduler's decisions, the newest first.
type decisionsScreen struct {
	shown []record.Record // those that pass the filter
}

func (*decisionsScreen) describe() description {
	return description{
		name: "decisions", heading: 2, open: bind("l", "decisions of the scheduler", "l"),
		notes: []note{{title: "Decisions", lines: []string{
			"  MARGIN    score of the node minus that of the runner-up",
			"  DEFAULT   what the default profile would have chosen; a dash: it was not asked",
		}}},
	}
}

func (*decisionsScreen) asks() state.Ask { return state.Ask{Decisions: true} }

func (s *decisionsScreen) update(c *canvas, f query.Filter) {
	s.shown = query.Select(f, c.details.Decisions, decisionRow)
}

// decisionRow lets the filter read the fields of a decision.
func decisionRow(r *record.Record) query.Row {
	return query.Row{Texts: []string{r.Namespace + "/" + r.Pod, r.Node, r.RunnerUp, r.Profile, r.Policy, r.Outcome, r.Really, r.Fallback, r.Failure}}
}

func (*decisionsScreen) press(*canvas, tea.KeyPressMsg) {}
func (*decisionsScreen) order(*canvas) string           { return "newest first" }
func (s *decisionsScreen) size(c *canvas) (shown, total int) {
	return len(s.shown), len(c.details.Decisions)
}

func (s *decisionsScreen) opens(_ *canvas, row int) string { return s.shown[row].Node }
func (s *decisionsScreen) name(row int) string {
	r := &s.shown[row]
	return r.UID + r.Pod + r.Time.String()
}

func (s *decisionsScreen) empty(c *canvas) string {
	switch {
	case len(c.details.Decisions) > 0:
		return "no decision passes the filter"
	case c.details.DecisionsErr != nil:
		return state.Printable(hintOf(c.details.DecisionsErr))
	}
	return "the scheduler has decided nothing yet"
}

func (s *decisionsScreen) draw(c *canvas, from, to int) []string {
	lines := []string{s.summary(c)}
	return append(lines, c.textTable(decisionColumns(c, s.shown, true), len(s.shown), from, to)...)
}

// decisionColumns are the columns of a list of decisions. A list of one node's decisions needs no column for the node.
func decisionColumns(c *canvas, list []record.Record, node bool) []textColumn {
	of := func(cell func(r *record.Record) string) func(int) string {
		return func(row int) string { return cell(&list[row]) }
	}
	failed := func(row int) lipgloss.Style { return decidedStyle(c, &list[row]) }
	shadow := slices.ContainsFunc(list, func(r record.Record) bool { return r.Outcome == record.Shadow })
	differs := func(row int) lipgloss.Style {
		if d := list[row].Default; d != nil && d.Node != list[row].Node {
			return c.st.Accent
		}
		return c.st.Dim
	}
	pod := "POD"
	if shadow && !node {
		pod = "WOULD COME"
	}
	cols := []textColumn{
		{title: "TIME", cell: of(func(r *record.Record) string { return r.Time.In(c.frame.Time.Location()).Format(time.TimeOnly) })},
		{title: pod, middle: true, cell: of(func(r *record.Record) string { return r.Namespace + "/" + r.Pod }), style: failed},
	}
	if node {
		cols = append(cols, textColumn{title: nodeTitle(shadow), cell: of(decidedNode), style: failed})
	}
	if shadow {
		cols = append(cols, textColumn{title: "REALLY ON", cell: of(func(r *record.Record) string { return orDash(r.Really) })})
	}
	if slices.ContainsFunc(list, func(r record.Record) bool { return len(r.Claimed) > 0 || len(r.Devices) > 0 }) {
		cols = append(cols, textColumn{title: "DEVICE", extra: true, cell: of(decidedDevices)})
	}
	return append(cols,
		textColumn{title: "MARGIN", right: true, cell: of(marginText)},
		textColumn{title: "RUNNER-UP", extra: shadow, cell: of(func(r *record.Record) string { return orDash(r.RunnerUp) })},
		textColumn{title: "DEFAULT", cell: of(defaultText), style: differs},
		textColumn{title: "LATENCY", right: true, cell: of(func(r *record.Record) string { return c.st.Latency(r.Latency) })},
		textColumn{title: "POLICY", extra: true, cell: of(policyText)},
		textColumn{title: "FITS", extra: true, right: true, cell: of(func(r *record.Record) string { return fmt.Sprintf("%d/%d", r.Feasible, r.Nodes) })},
		textColumn{title: "PROFILE", extra: true, cell: of(func(r *record.Record) string { return r.Profile })},
		textColumn{title: "WHY NOT", extra: true, cell: of(failureText)},
	)
}

// nodeTitle is the title of the column of chosen nodes.
func nodeTitle(shadow bool) string {
	if shadow {
		return "WOULD GO TO"
	}
	return "NODE"
}

// decidedStyle warns of decisions that gave the pod no node, or in the shadow would not have.
func decidedStyle(c *canvas, r *record.Record) lipgloss.Style {
	if r.Outcome == record.Bound || r.Outcome == record.Shadow && r.Node != "" {
		return c.st.Plain
	}
	return c.st.Warn
}

// decidedNode is the chosen node, or the outcome if the pod is not bound to it. Of a decision in the shadow it is the node to
// which the pod would go; the column says so.
func decidedNode(r *record.Record) string {
	switch {
	case r.Node == "":
		return "none"
	case r.Outcome != record.Bound && r.Outcome != record.Shadow:
		return r.Node + " (" + r.Outcome + ")"
	}
	return r.Node
}

// decidedDevices names the devices that the pod got: those of its claims, or else their numbers. A part of a card is
// followed by its percentage.
func decidedDevices(r *record.Record) string {
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

func marginText(r *record.Record) string {
	if r.Margin == nil {
		return "-"
	}
	return strconv.FormatFloat(*r.Margin, 'g', 3, 64)
}

// defaultText is the default profile's choice: a node, or that it is the same.
func defaultText(r *record.Record) string {
	switch {
	case r.Default == nil:
		return "-"
	case r.Default.Node == r.Node:
		return "same"
	}
	return r.Default.Node
}

func policyText(r *record.Record) string {
	switch {
	case r.Fallback != "":
		return "fallback: " + r.Fallback
	case r.Policy == "" && r.Feasible == 1:
		return "only node"
	}
	return orDash(r.Policy)
}

// failureText is the reason that refused most nodes, or what went wrong.
func failureText(r *record.Record) string {
	if r.Node != "" {
		return ""
	}
	if len(r.Refused) > 0 {
		return fmt.Sprintf("%d %s", r.Refused[0].Nodes, r.Refused[0].Reason)
	}
	return r.Failure
}

// summary sums up the decisions of each profile, or says why there are no newer ones.
func (s *decisionsScreen) summary(c *canvas) string {
	if err := c.details.DecisionsErr; err != nil {
		return c.st.Warn.Render(c.st.Fit(state.Printable(err.Error()), c.width))
	}
	var parts []string
	for _, p := range tallies(s.shown) {
		parts = append(parts, c.st.Bold.Render(p.title())+" "+fmt.Sprint(len(p.list)))
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
	}
	return c.st.Fit(c.st.Join(parts, c.width), c.width)
}

// hintOf is what an error says that the reader can do.
func hintOf(err error) string {
	var e *exit.Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}
