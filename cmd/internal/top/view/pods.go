package view

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/query"
	"gnnsched/cmd/internal/top/state"
)

// podsScreen lists pods with their nodes and requests: all pods, or the pods of the workload that Enter opened.
type podsScreen struct {
	ask   state.PodsAsk
	shown []state.ListedPod // the pods that pass the filter
	total int
}

func newPodsScreen() *podsScreen { return &podsScreen{ask: state.PodsAsk{Asked: true}} }

func (*podsScreen) describe() description {
	return description{
		name: "pods", heading: 1, open: bind("P", "pods", "P"),
		notes: []note{{title: "Pods", lines: []string{"  those that hold resources or wait for a node; pods that have finished are left out"}}},
	}
}

func (s *podsScreen) asks() state.Ask { return state.Ask{Pods: s.ask} }

// open implements opened. Without a workload, the screen lists all pods.
func (s *podsScreen) open(to target) bool {
	s.ask = state.PodsAsk{Asked: true, Namespace: to.pods.Namespace, Workload: to.pods.Workload}
	return to.pods.Asked
}

func (s *podsScreen) update(c *canvas, f query.Filter) {
	s.shown, s.total = nil, 0
	if c.asked == s.asks() {
		s.shown, s.total = query.Select(f, c.details.Pods, podRow), len(c.details.Pods)
	}
}

// podRow lets the filter read the fields of a pod.
func podRow(p *state.ListedPod) query.Row {
	return query.Row{
		Texts: []string{p.Namespace + "/" + p.Name, p.Status, p.Node, p.Workload, p.Scheduler},
		Usage: func(field string) state.Usage {
			switch field {
			case "cpu":
				return state.Usage{Requested: p.CPU}
			case "memory":
				return state.Usage{Requested: p.Memory}
			case "gpu":
				return state.Usage{Requested: p.GPU}
			}
			return state.Usage{Requested: 1}
		},
	}
}

func (*podsScreen) press(*canvas, tea.KeyPressMsg)    {}
func (s *podsScreen) size(*canvas) (shown, total int) { return len(s.shown), s.total }
func (s *podsScreen) name(row int) string             { return s.shown[row].Namespace + "/" + s.shown[row].Name }
func (s *podsScreen) opens(_ *canvas, row int) target { return podTarget(s.name(row)) }

func (s *podsScreen) order(*canvas) string {
	if s.ask.Namespace == "" {
		return "pods by name"
	}
	if _, name, ok := strings.Cut(s.ask.Workload, "/"); ok {
		return "pods of " + state.Printable(name)
	}
	return "pods without a controller"
}

func (s *podsScreen) empty(*canvas) string {
	switch {
	case s.total > 0:
		return "no pod passes the filter"
	case s.ask.Namespace != "":
		return "the workload has no pods any more"
	}
	return "no pods in this cluster"
}

func (s *podsScreen) draw(c *canvas, from, to int) []string {
	return c.textTable(podColumns(c, s.shown, s.ask), len(s.shown), from, to)
}

// podColumns are the columns of a list of pods: of one node or of one workload they leave that out.
func podColumns(c *canvas, list []state.ListedPod, ask state.PodsAsk) []textColumn {
	of := func(cell func(p *state.ListedPod) string) func(int) string {
		return func(row int) string { return cell(&list[row]) }
	}
	unwell := func(row int) lipgloss.Style {
		if p := &list[row]; p.Node == "" || p.Status != "Running" {
			return c.st.Warn
		}
		return c.st.Plain
	}
	has := func(of func(p state.ListedPod) bool) bool { return slices.ContainsFunc(list, of) }
	ofNode, ofWorkload := !ask.Asked, ask.Namespace != ""
	cols := []textColumn{
		{title: "POD", middle: true, cell: of(func(p *state.ListedPod) string { return p.Namespace + "/" + p.Name })},
		{title: "STATUS", cell: of(func(p *state.ListedPod) string { return orDash(p.Status) }), style: unwell},
	}
	if !ofNode {
		cols = append(cols, textColumn{title: "NODE", cell: of(func(p *state.ListedPod) string { return orDash(p.Node) })})
	}
	workload := textColumn{
		title: "WORKLOAD", middle: true, extra: !ofNode, cell: of(func(p *state.ListedPod) string { return orDash(p.Workload) }),
	}
	if ofNode {
		cols = append(cols, workload)
	}
	cols = append(cols,
		textColumn{title: "CPU", right: true, cell: of(func(p *state.ListedPod) string { return state.Cores(p.CPU) })},
		textColumn{title: "MEMORY", right: true, cell: of(func(p *state.ListedPod) string { return state.Bytes(p.Memory) })},
	)
	if c.frame.HasGPU() && (!ofNode || has(func(p state.ListedPod) bool { return p.GPU > 0 })) {
		cols = append(cols, textColumn{title: "GPU", right: true, cell: of(func(p *state.ListedPod) string { return state.Devices(p.GPU) })})
	}
	if has(func(p state.ListedPod) bool { return len(p.Held) > 0 || p.Devices != 0 }) {
		cols = append(cols, textColumn{title: "DEVICE", middle: true, extra: !ofNode, cell: of(devicesOf)})
	}
	if has(func(p state.ListedPod) bool { return len(p.Held) > 0 }) {
		cols = append(cols, textColumn{title: "CLAIM", middle: true, extra: !ofNode, cell: of(claimsOf)})
	}
	cols = append(cols, textColumn{
		title: "AGE", right: true, cell: of(func(p *state.ListedPod) string { return state.Age(c.frame.Time, p.Created) }),
	})
	if !ofNode && !ofWorkload {
		cols = append(cols, workload)
	}
	return append(cols, textColumn{title: "SCHEDULER", extra: true, cell: of(func(p *state.ListedPod) string { return p.Scheduler })})
}

// podScreen shows one pod: its figures, why it waits, why it got its node, and its events. Enter opens it from a list of pods, with
// the newest decision about it, or from a decision, with that one.
type podScreen struct {
	ask state.PodAsk
}

func (*podScreen) describe() description { return description{name: "pod", overlay: true} }

func (s *podScreen) asks() state.Ask { return state.Ask{Pod: s.ask} }

// open implements opened.
func (s *podScreen) open(to target) bool {
	if to.pod.Name == "" {
		return false
	}
	s.ask = to.pod
	return true
}

func (*podScreen) update(*canvas, query.Filter)   {}
func (*podScreen) press(*canvas, tea.KeyPressMsg) {}
func (s *podScreen) order(*canvas) string         { return "pod" }
func (*podScreen) empty(*canvas) string           { return "" }
func (s *podScreen) size(c *canvas) (shown, total int) {
	n := len(s.lines(c))
	return n, n
}

func (s *podScreen) draw(c *canvas, from, to int) []string { return s.lines(c)[from:to] }

// lines are all lines of the screen; none until the details are there.
func (s *podScreen) lines(c *canvas) []string {
	p := c.details.Pod
	if p == nil || c.asked != s.asks() {
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
		lines = append(lines, c.st.FitRight(state.Age(c.frame.Time, e.Time), 5)+"  "+state.Printable(e.Reason))
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
	return append([]string{name}, c.wrap(strings.Join(parts, c.st.Dot))...)
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
