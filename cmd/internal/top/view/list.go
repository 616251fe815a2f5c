package view

import (
	"slices"
	"strings"

	"charm.land/bubbles/v2/table"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/state"
)

// list is a screen of rows of one type in columns. Screens that differ in more than these fields embed it. Fields may be nil or
// empty, except about, rows and columns.
type list[T any] struct {
	about   description
	ask     state.Ask // what it shows besides a frame
	sorted  string    // how the rows are ordered, such as "oldest first"
	rows    func(c *canvas) []T
	texts   func(*T) []string        // what the filter searches of a row
	id      func(*T) string          // names a row
	to      func(*T) target          // that Enter opens
	above   func(c *canvas) []string // the lines above the titles
	columns func(c *canvas) []column[T]
	bare    bool                   // without rows there are no titles
	noun    string                 // names a row in the text that no row passes the filter
	none    func(c *canvas) string // the text if there are no rows even without the filter

	shown []T // the rows that pass the filter, in order
	total int // number of rows without the filter
}

func (l *list[T]) describe() description           { return l.about }
func (l *list[T]) asks() state.Ask                 { return l.ask }
func (l *list[T]) press(*canvas, tea.KeyPressMsg)  {}
func (l *list[T]) order(*canvas) string            { return l.sorted }
func (l *list[T]) size(*canvas) (shown, total int) { return len(l.shown), l.total }
func (l *list[T]) open(target) bool                { return false }

func (l *list[T]) update(c *canvas, filter string) {
	all := l.rows(c)
	l.shown, l.total = state.Select(all, filter, l.texts), len(all)
}

func (l *list[T]) name(row int) string {
	if l.id == nil {
		return ""
	}
	return l.id(&l.shown[row])
}

func (l *list[T]) opens(_ *canvas, row int) target {
	if l.to == nil {
		return target{}
	}
	return l.to(&l.shown[row])
}

func (l *list[T]) empty(c *canvas) string {
	if l.total > 0 || l.none == nil {
		return "no " + l.noun + " passes the filter"
	}
	return l.none(c)
}

// heading implements screen: lines above the titles, and the titles.
func (l *list[T]) heading(c *canvas) int { return len(l.top(c)) + 1 }

func (l *list[T]) top(c *canvas) []string {
	if l.above == nil {
		return nil
	}
	return l.above(c)
}

func (l *list[T]) draw(c *canvas, from, to int) []string {
	if l.bare && len(l.shown) == 0 {
		return append(l.top(c), "")
	}
	return append(l.top(c), drawTable(c, l.columns(c), l.shown, from, to)...)
}

// always returns a function that returns a fixed text.
func always(s string) func(*canvas) string { return func(*canvas) string { return s } }

// prose is a screen of text that covers the others.
type prose struct {
	list[struct{}]
	lines func(c *canvas) []string
}

func (*prose) update(*canvas, string) {}
func (*prose) heading(*canvas) int    { return 0 }
func (*prose) empty(*canvas) string   { return "" }
func (s *prose) size(c *canvas) (shown, total int) {
	n := len(s.lines(c))
	return n, n
}
func (s *prose) draw(c *canvas, from, to int) []string { return s.lines(c)[from:to] }

// column is a column of a table. It is as wide as its text if the window has room.
type column[T any] struct {
	title  string
	strong bool // the title is that of the order
	right  bool // right-aligned
	middle bool // cut in the middle: the ends of pods' names differ
	extra  int  // from 1: left out unless there is room for it, those with higher numbers first
	most   int  // largest width, 0 for any
	cell   func(*T) string
	style  func(*T) lipgloss.Style // nil for plain

	// draw replaces cell and style where a cell has several styles. It returns text of this width.
	draw  func(*T) string
	width int
}

// measuredRows is the number of further rows, besides the drawn ones, that determine the column widths: a list of all pods may have
// 100,000.
const measuredRows = 2000

// drawTable draws the titles of the columns, and the rows with index from up to, but not including, to.
func drawTable[T any](c *canvas, cols []column[T], rows []T, from, to int) []string {
	wide := measure(c, cols, rows, from, to)
	place := func(i int, text string) string {
		switch {
		case cols[i].right:
			return c.st.fitRight(text, wide[i])
		case cols[i].middle:
			return c.st.fitMiddle(text, wide[i])
		}
		return c.st.Fit(text, wide[i])
	}
	heads, lines := make([]table.Column, len(cols)), make([]table.Row, to-from)
	for i := range cols {
		style := c.st.Dim
		if cols[i].strong {
			style = c.st.Bold
		}
		heads[i] = table.Column{Title: style.Render(place(i, cols[i].title)), Width: wide[i]}
	}
	for row := range lines {
		x := &rows[from+row]
		for i, col := range cols {
			var text string
			switch {
			case wide[i] == 0: // not shown
			case col.draw != nil:
				text = col.draw(x)
			default:
				if text = place(i, state.Printable(col.cell(x))); col.style != nil {
					text = col.style(x).Render(text)
				}
			}
			lines[row] = append(lines[row], text)
		}
	}
	gap := lipgloss.NewStyle().PaddingRight(len(c.gap()))
	t := table.New(table.WithStyles(table.Styles{Header: gap, Cell: gap}), table.WithColumns(heads), table.WithRows(lines),
		table.WithHeight(len(lines)+1), table.WithWidth(c.width))
	drawn := strings.Split(t.View(), "\n")[:len(lines)+1]
	for i := range drawn {
		drawn[i] = ansi.Truncate(drawn[i], c.width, "") // the last column's gap
	}
	return drawn
}

// measure returns the widths of the columns; 0 for those that are left out. Where the window is too narrow, columns with the highest extra
// go first, then the widest are cut, and columns that would be too narrow to read go, the last ones first.
func measure[T any](c *canvas, cols []column[T], rows []T, from, to int) []int {
	const least = 8
	wide := make([]int, len(cols))
	for i, col := range cols {
		if wide[i] = col.width; col.draw != nil {
			continue
		}
		wide[i] = ansi.StringWidth(col.title)
		for row := range rows {
			if row < measuredRows || row >= from && row < to {
				wide[i] = max(wide[i], min(ansi.StringWidth(col.cell(&rows[row])), c.width))
			}
		}
		if col.most > 0 {
			wide[i] = min(wide[i], col.most)
		}
	}
	for {
		taken, extra, widest, last := -len(c.gap()), -1, -1, -1
		for i, w := range wide {
			if w == 0 {
				continue
			}
			taken, last = taken+w+len(c.gap()), i
			if cols[i].extra > 0 && (extra < 0 || cols[i].extra >= cols[extra].extra) {
				extra = i
			}
			if cols[i].draw == nil && (widest < 0 || w > wide[widest]) {
				widest = i
			}
		}
		switch {
		case taken <= c.width:
			return wide
		case extra >= 0:
			wide[extra] = 0
		case widest >= 0 && wide[widest] > least:
			wide[widest]--
		case taken == wide[last]: // the only one
			wide[last] = max(c.width, 1)
			return wide
		default:
			wide[last] = 0
		}
	}
}

// maxPending is the number of pending pods in a frame for their screen: enough to look at, and few enough to sort at every redraw.
const maxPending = 5000

// pendingScreen lists the pods that wait for a node, the oldest first, with the reason.
func pendingScreen() screen {
	name := func(p *state.PendingPod) string { return p.Namespace + "/" + p.Name }
	return &list[state.PendingPod]{
		about:  description{name: "pending", open: bind("p", "pending pods", "p"), pending: maxPending},
		sorted: "oldest first", noun: "pending pod", none: always("no pod is pending"),
		id: name, to: func(p *state.PendingPod) target { return podTarget(name(p)) }, texts: (*state.PendingPod).Texts,
		rows: func(c *canvas) []state.PendingPod { return c.frame.Pending },
		columns: func(c *canvas) []column[state.PendingPod] {
			return []column[state.PendingPod]{
				{title: "POD", middle: true, most: max(c.width*2/5, 12), cell: name},
				{title: "SCHEDULER", most: 20, extra: 1, cell: func(p *state.PendingPod) string { return p.Scheduler }},
				{title: "AGE", right: true, cell: func(p *state.PendingPod) string { return state.Age(c.frame.Time, p.Created) }},
				{title: "WHY", cell: (*state.PendingPod).Why},
			}
		},
	}
}

// podsScreen lists all pods with their nodes and requests.
func podsScreen() screen {
	s := &list[state.ListedPod]{
		about: description{
			name: "pods", open: bind("P", "pods", "P"),
			notes: []note{{title: "Pods", lines: []string{"  those that hold resources or wait for a node; pods that have finished are left out"}}},
		},
		ask: state.Ask{Pods: true}, sorted: "by name", noun: "pod", none: always("no pods in this cluster"), id: podName, to: listedTarget,
		texts: (*state.ListedPod).Texts,
	}
	s.rows = func(c *canvas) []state.ListedPod {
		if c.asked != s.ask {
			return nil
		}
		return c.details.Pods
	}
	s.columns = func(c *canvas) []column[state.ListedPod] { return podColumns(c, s.shown, false) }
	return s
}

func podName(p *state.ListedPod) string      { return p.Namespace + "/" + p.Name }
func listedTarget(p *state.ListedPod) target { return podTarget(podName(p)) }

// podColumns are the columns of a list of pods. A list of the pods of one node leaves the node out.
func podColumns(c *canvas, pods []state.ListedPod, ofNode bool) []column[state.ListedPod] {
	unwell := func(p *state.ListedPod) lipgloss.Style {
		if p.Node == "" || p.Status != "Running" {
			return c.st.Warn
		}
		return c.st.Plain
	}
	has := func(of func(p state.ListedPod) bool) bool { return slices.ContainsFunc(pods, of) }
	cols := []column[state.ListedPod]{
		{title: "POD", middle: true, cell: podName},
		{title: "STATUS", cell: func(p *state.ListedPod) string { return orDash(p.Status) }, style: unwell},
	}
	add := func(wanted bool, col column[state.ListedPod]) {
		if wanted {
			cols = append(cols, col)
		}
	}
	add(!ofNode, column[state.ListedPod]{title: "NODE", cell: func(p *state.ListedPod) string { return orDash(p.Node) }})
	add(true, column[state.ListedPod]{title: "CPU", right: true, cell: func(p *state.ListedPod) string { return state.Cores(p.CPU) }})
	add(true, column[state.ListedPod]{title: "MEMORY", right: true, cell: func(p *state.ListedPod) string { return state.Bytes(p.Memory) }})
	add(c.frame.HasGPU() && (!ofNode || has(func(p state.ListedPod) bool { return p.GPU > 0 })),
		column[state.ListedPod]{title: "GPU", right: true, cell: func(p *state.ListedPod) string { return state.Devices(p.GPU) }})
	add(has(func(p state.ListedPod) bool { return len(p.Held) > 0 || p.Devices != 0 }),
		column[state.ListedPod]{title: "DEVICE", middle: true, extra: 1, cell: devicesOf})
	add(has(func(p state.ListedPod) bool { return len(p.Held) > 0 }),
		column[state.ListedPod]{title: "CLAIM", middle: true, extra: 2, cell: claimsOf})
	return append(cols,
		column[state.ListedPod]{title: "AGE", right: true, cell: func(p *state.ListedPod) string {
			return state.Age(c.frame.Time, p.Created)
		}},
		column[state.ListedPod]{title: "WORKLOAD", middle: true, extra: 3, cell: func(p *state.ListedPod) string { return orDash(p.Workload) }},
		column[state.ListedPod]{title: "SCHEDULER", extra: 4, cell: func(p *state.ListedPod) string { return p.Scheduler }})
}

// podScreen shows one pod: its figures, why it waits, why it got its node, and its events. Enter on a list of pods opens it with the
// newest decision about the pod, and Enter on a decision with that decision.
type podScreen struct{ prose }

func newPodScreen() *podScreen {
	s := &podScreen{}
	s.prose = prose{list[struct{}]{about: description{name: "pod", overlay: true}, sorted: "pod"}, s.details}
	return s
}

// open implements screen.
func (s *podScreen) open(to target) bool {
	if to.pod.Name == "" {
		return false
	}
	s.ask.Pod = to.pod
	return true
}

// details are all lines of the screen; none until the details are there.
func (s *podScreen) details(c *canvas) []string {
	p := c.details.Pod
	if p == nil || c.asked != s.ask {
		return nil
	}
	lines := s.figures(c, p)
	if p.Waits != "" {
		lines = append(lines, c.wrap("waits: "+p.Waits)...)
	}
	lines = append(lines, "", c.st.Bold.Render("Why this node"))
	if p.Node == "" {
		lines[len(lines)-1] = c.st.Bold.Render("The last decision")
	}
	lines = append(lines, s.why(c, p)...)
	lines = append(lines, "", c.st.Bold.Render("Events"))
	switch {
	case p.EventsErr != nil:
		return append(lines, c.wrap(p.EventsErr.Error())...)
	case len(p.Events) == 0:
		return append(lines, c.st.Dim.Render("none"))
	}
	for i := range p.Events {
		e := &p.Events[i]
		lines = append(lines, c.st.fitRight(state.Age(c.frame.Time, e.Time), 5)+"  "+state.Printable(e.Reason))
		for _, l := range c.indented(state.Excluded(e.Message), 7) {
			lines = append(lines, c.st.Dim.Render(l))
		}
	}
	return lines
}

// figures are the name of the pod, and its node and requests.
func (s *podScreen) figures(c *canvas, p *state.PodDetails) []string {
	name := c.st.Bold.Render(state.Printable(p.Namespace + "/" + p.Name))
	if !p.Found {
		return append([]string{name}, c.wrap("is not in the cluster any more, or has finished")...)
	}
	node := "on " + p.Node
	if p.Node == "" {
		node = "without a node"
	}
	parts := []string{orDash(p.Status), node, "CPU " + state.Cores(p.CPU), "memory " + state.Bytes(p.Memory)}
	if p.GPU > 0 {
		parts = append(parts, "GPU "+state.Devices(p.GPU))
	}
	if p.Devices != 0 || len(p.Held) > 0 {
		parts = append(parts, "device "+devicesOf(&p.ListedPod))
	}
	if p.Workload != "" {
		parts = append(parts, p.Workload)
	}
	parts = append(parts, "scheduler "+p.Scheduler, "age "+state.Age(c.frame.Time, p.Created))
	return append([]string{name}, c.wrap(strings.Join(parts, dot))...)
}

// why explains the decision, or why there is no explanation.
func (s *podScreen) why(c *canvas, p *state.PodDetails) (lines []string) {
	for text := range strings.Lines(p.Explained) {
		lines = append(lines, c.wrap(strings.TrimRight(text, "\n"))...)
	}
	switch {
	case p.DecisionErr != nil:
		lines = append(lines, c.wrap(p.DecisionErr.Error())...)
		if hint := hintOf(p.DecisionErr); hint != "" {
			lines = append(lines, c.wrap(hint)...)
		}
	case p.Decision == nil:
		lines = append(lines, c.wrap("no scheduler that is asked knows a decision about this pod: another one placed it, or it was long ago")...)
	}
	return lines
}

// wrap breaks a text into lines of the window, between words. The lines are safe to print.
func (c *canvas) wrap(text string) []string { return c.indented(text, 0) }

// indented breaks a text into lines that begin with some spaces.
func (c *canvas) indented(text string, spaces int) []string {
	lines := strings.Split(ansi.Wrap(state.Printable(text), max(c.width-spaces, 8), ""), "\n")
	for i := range lines {
		lines[i] = strings.Repeat(" ", spaces) + strings.TrimRight(lines[i], " ")
	}
	return lines
}
