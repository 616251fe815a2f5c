package view

import (
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/state"
)

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
