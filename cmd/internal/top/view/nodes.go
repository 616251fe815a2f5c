package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/choice"
	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// nodesScreen lists the nodes with their requested and used CPU and memory, and with their GPUs.
type nodesScreen struct {
	list[state.Node]
	sort                 state.Sort
	left, right, reverse key.Binding
}

func newNodesScreen(sort state.Sort) *nodesScreen {
	s := &nodesScreen{
		sort: sort, left: bind("<", "sort by the column before", "left", "<"), right: bind(">", "sort by the next column", "right", ">"),
		reverse: bind("r", "reverse the order", "r"),
	}
	about := description{
		name: "nodes", hints: [][2]string{{"< >", "sort"}, {"r", "reverse"}}, keys: []key.Binding{s.left, s.right, s.reverse},
		notes: []note{{title: "Figures", lines: []string{
			"  CPU, MEM, GPU  requested, of what is allocatable; at the top: all workers",
			"  CPU USED       what metrics.k8s.io says; a dash: the node is not measured",
			"  EACH DEVICE    per cent that pods request; a dot: idle; +4: four more",
			"  CPU spread     standard deviation of the workers' CPU share",
			"  bound/s        pods bound per second in the last 10 s, by scheduler",
		}}},
	}
	s.list = list[state.Node]{
		about: about, noun: "node", none: always("no nodes in this cluster"), texts: (*state.Node).Texts, id: nodeName, to: nodeTarget,
		rows: func(c *canvas) []state.Node {
			all := slices.Clone(c.frame.Nodes)
			s.sort.Apply(all)
			return all
		},
		columns: s.cells,
	}
	return s
}

// press sorts.
func (s *nodesScreen) press(c *canvas, k tea.KeyPressMsg) {
	cols := slices.DeleteFunc(state.Columns(), func(col state.Column) bool { return col == state.ByGPU && !c.frame.HasGPU() })
	at := max(slices.Index(cols, s.sort.Column), 0)
	switch {
	case key.Matches(k, s.reverse):
		s.sort.Desc = !s.sort.Desc
	case key.Matches(k, s.left):
		s.sort = state.By(cols[(at+len(cols)-1)%len(cols)])
	case key.Matches(k, s.right):
		s.sort = state.By(cols[(at+1)%len(cols)])
	}
}

func (s *nodesScreen) order(*canvas) string {
	return "by " + string(s.sort.Column) + " " + s.arrow()
}

// arrow is the sign for the direction of the order.
func (s *nodesScreen) arrow() string {
	if s.sort.Desc {
		return down
	}
	return up
}

// Widths in cells of a percentage, and of a bar before it in windows of increasing width.
const (
	percentWidth = 5
	smallBar     = 6
	niceBar      = 12
)

// cells returns the columns. The one that orders the rows has an arrow.
func (s *nodesScreen) cells(c *canvas) []column[state.Node] {
	text := func(title string, extra int, cell func(*state.Node) string) column[state.Node] {
		return column[state.Node]{title: title, extra: extra, most: 24, cell: cell, style: c.faint}
	}
	figure := func(title string, extra int, cell func(*state.Node) string) column[state.Node] {
		col := text(title, extra, cell)
		col.right = true
		return col
	}
	status := text("STATUS", 0, shortStatus)
	status.style = c.statusStyle
	by := map[state.Column]int{}
	var cols []column[state.Node]
	add := func(wanted bool, column state.Column, col column[state.Node]) {
		if wanted {
			by[column] = len(cols)
			cols = append(cols, col)
		}
	}
	gpus, used := c.frame.HasGPU(), c.frame.Totals.Used != nil
	name := text("NAME", 0, nodeName)
	name.most = max(c.width/4, 24)
	add(true, state.ByName, name)
	add(true, state.ByStatus, status)
	add(true, state.ByRole, text("ROLE", 4, (*state.Node).Role))
	add(true, state.ByAge, figure("AGE", 6, func(n *state.Node) string { return state.Age(c.frame.Time, n.Created) }))
	add(true, state.ByVersion, text("VERSION", 7, func(n *state.Node) string { return orDash(n.Version) }))
	add(true, state.ByPods, figure("PODS", 2, podsText))
	add(true, state.ByCPU, c.usage("CPU", 0, func(n *state.Node) state.Usage { return n.CPU }))
	add(used, "", figure("CPU USED", 3, c.usedText((*state.Node).UsedCPU)))
	add(true, "", figure("CORES", 8, cpuText))
	add(true, state.ByMemory, c.usage("MEMORY", 0, func(n *state.Node) state.Usage { return n.Memory }))
	add(used, "", figure("MEM USED", 3, c.usedText((*state.Node).UsedMemory)))
	add(true, "", figure("BYTES", 8, memoryText))
	add(gpus, state.ByGPU, c.usage("GPU", 1, func(n *state.Node) state.Usage { return n.GPU }))
	add(gpus, "", figure("GIVEN", 3, func(n *state.Node) string {
		if n.GPU == (state.Usage{}) {
			return "-"
		}
		return gpuText(n)
	}))
	add(gpus, "", text("MODEL", 3, func(n *state.Node) string { return orDash(n.GPUModel) }))
	add(gpus, "", c.devices())
	if at, shown := by[s.sort.Column]; shown {
		cols[at].title, cols[at].strong = cols[at].title+s.arrow(), true
	}
	return cols
}

// usage is a column with a bar, if the window is wide enough, and a percentage.
func (c *canvas) usage(title string, extra int, of func(*state.Node) state.Usage) column[state.Node] {
	bar := niceBar
	if c.width < 60 {
		bar = 0
		title = title[:3]
	} else if c.width < 120 {
		bar = smallBar
	}
	return column[state.Node]{title: title, extra: extra, right: bar == 0, width: bar + percentWidth, draw: func(n *state.Node) string {
		u := of(n)
		if u == (state.Usage{}) { // the node does not have the resource
			return c.st.Dim.Render(c.st.fitRight("-", bar+percentWidth))
		}
		f, faint := u.Fraction(), !n.Worker
		return c.st.Bar(bar, f, faint) + c.st.alarm(f).Faint(faint).Render(c.st.fitRight(state.Percent(f), percentWidth))
	}}
}

// usedText writes the used share of a resource, or a dash for a node that is not measured.
func (c *canvas) usedText(of func(*state.Node) state.Usage) func(*state.Node) string {
	return func(n *state.Node) string {
		if n.Used == nil {
			return "-"
		}
		return state.Percent(of(n).Fraction())
	}
}

// devices is a column with the requested share of each GPU, and the number of those for which there is no room.
func (c *canvas) devices() column[state.Node] {
	const each, most = 4, 8 // cells and devices
	return column[state.Node]{title: "% OF EACH DEVICE", extra: 5, width: each * most, draw: func(n *state.Node) string {
		shown, text := n.Devices, ""
		if len(shown) > most {
			shown = shown[:most-1]
		}
		for _, used := range shown {
			if used == 0 {
				text += c.st.Dim.Render(c.st.fitRight(idle, each))
			} else {
				text += c.st.fitRight(state.DevicePercent(used), each)
			}
		}
		if more := len(n.Devices) - len(shown); more > 0 {
			text += c.st.Dim.Render(c.st.fitRight(fmt.Sprintf("+%d", more), each))
		}
		return c.st.Fit(text, each*most)
	}}
}

// amounts writes what is requested and what is allocatable: "12.8/64".
func amounts(u state.Usage, write func(int64) string) string {
	return write(u.Requested) + "/" + write(u.Allocatable)
}

func cpuText(n *state.Node) string    { return amounts(n.CPU, state.Cores) }
func memoryText(n *state.Node) string { return amounts(n.Memory, state.Bytes) }
func gpuText(n *state.Node) string    { return amounts(n.GPU, state.Devices) }
func podsText(n *state.Node) string {
	return fmt.Sprintf("%d/%d", n.Pods.Requested, n.Pods.Allocatable)
}
func nodeName(n *state.Node) string { return n.Name }

// shortStatus is the status in a word that fits a narrow column: "Cordoned" for kubectl's
// "Ready,SchedulingDisabled", and "Moving" where pods are moved.
func shortStatus(n *state.Node) string {
	if n.Ready && strings.HasSuffix(n.Status, state.Moving) {
		return "Moving"
	}
	if n.Cordoned && n.Ready {
		return "Cordoned"
	}
	status, _, _ := strings.Cut(n.Status, ",")
	return status
}

// faint dims nodes on which ordinary pods do not run.
func (c *canvas) faint(n *state.Node) lipgloss.Style { return c.st.Plain.Faint(!n.Worker) }

func (c *canvas) statusStyle(n *state.Node) lipgloss.Style {
	switch {
	case !n.Ready:
		return c.st.Bad
	case n.Cordoned:
		return c.st.Warn
	}
	return c.faint(n)
}

// nodeScreen shows one node: its figures, the scheduler's last decisions for it, and its pods. Enter opens it.
type nodeScreen struct {
	list[state.ListedPod]
	here      *state.Node // nil if the node is gone
	decisions []state.Decision
}

func newNodeScreen() *nodeScreen {
	s := &nodeScreen{}
	s.list = list[state.ListedPod]{
		about: description{name: "node"}, ask: state.Ask{Decisions: true}, sorted: "pods by name",
		noun: "pod", none: always("no pod is on this node"), id: podName, to: listedTarget, rows: s.pods,
		above: s.aboutNode, texts: (*state.ListedPod).Texts,
		columns: func(c *canvas) []column[state.ListedPod] { return podColumns(c, s.shown, true) },
	}
	return s
}

// open implements screen.
func (s *nodeScreen) open(to target) bool {
	if to.node == "" {
		return false
	}
	s.ask.Node = to.node
	return true
}

func (s *nodeScreen) pods(c *canvas) []state.ListedPod {
	s.here, s.decisions = nil, nil
	if i := slices.IndexFunc(c.frame.Nodes, func(n state.Node) bool { return n.Name == s.ask.Node }); i >= 0 {
		s.here = &c.frame.Nodes[i]
	}
	for _, r := range c.details.Decisions {
		if r.Node == s.ask.Node {
			s.decisions = append(s.decisions, r)
		}
	}
	if c.details.Node != s.ask.Node {
		return nil
	}
	return c.details.Pods
}

// aboutNode returns the node's figures and, in up to a third of a high window, its last decisions, or why there are none.
func (s *nodeScreen) aboutNode(c *canvas) []string {
	lines := []string{s.figures(c)}
	n := min(len(s.decisions), max((c.height-10)/3, 0))
	if n == 0 {
		return append(lines, s.noDecisions(c))
	}
	last := s.decisions[:n]
	lines = append(lines, c.silent()...)
	return append(lines, drawTable(c, decisionColumns(c, last, false), last, 0, n)...)
}

func orDash(s string) string { return cmp.Or(s, "-") }

// devicesOf names the GPUs of a pod: by its claims, or else by the numbers in its annotation. A part of a card is followed by its
// percentage.
func devicesOf(p *state.ListedPod) string {
	var all []string
	for _, h := range p.Held {
		name := h.Device
		if h.Milli < cluster.DeviceMilli {
			name += " " + state.DevicePercent(h.Milli) + "%"
		}
		all = append(all, name)
	}
	if len(p.Held) == 0 && p.Devices != 0 {
		all = append(all, kube.FormatDevices(p.Devices))
	}
	return orDash(strings.Join(all, ", "))
}

// claimsOf names the claims that gave a pod its devices.
func claimsOf(p *state.ListedPod) string {
	return orDash(strings.Join(slices.Compact(choice.Names(p.Held, func(h state.Held) string { return h.Claim })), ", "))
}

// noDecisions explains why no decisions are shown.
func (s *nodeScreen) noDecisions(c *canvas) string {
	text := "the scheduler's last decisions chose other nodes"
	switch silent := c.silent(); {
	case len(silent) > 0:
		return silent[0]
	case len(s.decisions) > 0:
		text = fmt.Sprintf("%d decisions: the window is too low for them", len(s.decisions))
	case c.details.Node != s.ask.Node:
		text = ""
	}
	return c.st.Dim.Render(c.st.Fit(text, c.width))
}

// figures sums up the node.
func (s *nodeScreen) figures(c *canvas) string {
	if s.here == nil {
		return c.st.Warn.Render(c.st.Fit(state.Printable(s.ask.Node)+" is not in the cluster any more", c.width))
	}
	n := s.here
	status := c.st.Good.Render(shortStatus(n))
	if !n.Ready || n.Cordoned {
		status = c.st.Warn.Render(shortStatus(n))
	}
	amount := func(name string, u state.Usage, text string) string {
		return name + " " + c.st.alarm(u.Fraction()).Render(state.Percent(u.Fraction())) + c.st.Dim.Render(" "+text)
	}
	parts := []string{c.st.Bold.Render(n.Name), status, amount("CPU", n.CPU, cpuText(n)), amount("memory", n.Memory, memoryText(n))}
	if n.GPU != (state.Usage{}) {
		parts = append(parts, amount("GPU", n.GPU, gpuText(n)+" "+n.GPUModel))
	}
	if n.Used != nil {
		parts = append(parts, "used "+state.Cores(n.Used.CPU)+" CPU "+state.Bytes(n.Used.Memory))
	}
	parts = append(parts, podsText(n)+" pods", orDash(n.Zone), n.Role(), n.Version, state.Age(c.frame.Time, n.Created))
	for _, t := range n.Taints {
		parts = append(parts, c.st.Dim.Render(t))
	}
	return c.st.Fit(c.st.Join(parts, c.width), c.width)
}
