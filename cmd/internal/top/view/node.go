package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/choice"
	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

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
