package view

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"gnnsched/cmd/internal/top/query"
	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// nodeScreen shows one node: its figures, the scheduler's last decisions for it, and its pods. Enter opens it.
type nodeScreen struct {
	node      string
	here      *state.Node       // nil if the node is gone
	shown     []state.ListedPod // the pods that pass the filter
	total     int
	decisions []state.Decision
}

func (*nodeScreen) describe() description { return description{name: "node", heading: 2} }

// open implements opened.
func (s *nodeScreen) open(to target) bool {
	if to.node == "" {
		return false
	}
	s.node = to.node
	return true
}

func (s *nodeScreen) asks() state.Ask { return state.Ask{Node: s.node, Decisions: true} }

func (s *nodeScreen) update(c *canvas, f query.Filter) {
	s.here, s.decisions, s.shown, s.total = nil, nil, nil, 0
	if i := slices.IndexFunc(c.frame.Nodes, func(n state.Node) bool { return n.Name == s.node }); i >= 0 {
		s.here = &c.frame.Nodes[i]
	}
	for _, r := range c.details.Decisions {
		if r.Node == s.node {
			s.decisions = append(s.decisions, r)
		}
	}
	if c.details.Node == s.node {
		s.shown, s.total = query.Select(f, c.details.Pods, podRow), len(c.details.Pods)
	}
}

func (*nodeScreen) press(*canvas, tea.KeyPressMsg)    {}
func (s *nodeScreen) order(*canvas) string            { return "pods by name" }
func (s *nodeScreen) size(*canvas) (shown, total int) { return len(s.shown), s.total }
func (s *nodeScreen) name(row int) string             { return s.shown[row].Namespace + "/" + s.shown[row].Name }
func (s *nodeScreen) opens(_ *canvas, row int) target { return podTarget(s.name(row)) }

func (s *nodeScreen) empty(*canvas) string {
	if s.total > 0 {
		return "no pod passes the filter"
	}
	return "no pod is on this node"
}

// Lines of the heading besides the decisions: the node, the decisions' title or why there are none, and the pods' titles.
const nodeHeading = 3

// headingLines gives the decisions a third of a high window.
func (s *nodeScreen) headingLines(c *canvas) int {
	n := min(len(s.decisions), s.room(c))
	if n > 0 {
		n += len(c.silent())
	}
	return nodeHeading + n
}

// room is the number of decisions that the window has room for.
func (*nodeScreen) room(c *canvas) int { return max((c.height-10)/3, 0) }

func (s *nodeScreen) draw(c *canvas, from, to int) []string {
	lines := []string{s.figures(c)}
	if n := min(len(s.decisions), s.room(c)); n > 0 {
		last := s.decisions[:n]
		lines = append(lines, c.silent()...)
		lines = append(lines, c.textTable(decisionColumns(c, last, false), n, 0, n)...)
	} else {
		lines = append(lines, s.noDecisions(c))
	}
	return append(lines, c.textTable(podColumns(c, s.shown, state.PodsAsk{}), len(s.shown), from, to)...)
}

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
	var all []string
	for _, h := range p.Held {
		all = append(all, h.Claim)
	}
	return orDash(strings.Join(slices.Compact(all), ", "))
}

// noDecisions explains why no decisions are shown.
func (s *nodeScreen) noDecisions(c *canvas) string {
	text := "the scheduler's last decisions chose other nodes"
	switch silent := c.silent(); {
	case len(silent) > 0:
		return silent[0]
	case len(s.decisions) > 0:
		text = fmt.Sprintf("%d decisions: the window is too low for them", len(s.decisions))
	case c.details.Node != s.node:
		text = ""
	}
	return c.st.Dim.Render(c.st.Fit(text, c.width))
}

// figures sums up the node.
func (s *nodeScreen) figures(c *canvas) string {
	if s.here == nil {
		return c.st.Warn.Render(c.st.Fit(state.Printable(s.node)+" is not in the cluster any more", c.width))
	}
	n := s.here
	status := c.st.Good.Render(shortStatus(n))
	if !n.Ready || n.Cordoned {
		status = c.st.Warn.Render(shortStatus(n))
	}
	amount := func(name string, u state.Usage, text string) string {
		return name + " " + c.st.Alarm(u.Fraction()).Render(state.Percent(u.Fraction())) + c.st.Dim.Render(" "+text)
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
