package view

import (
	"fmt"
	"slices"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	tea "charm.land/bubbletea/v2"

	"gnnsched/cmd/internal/top/query"
	"gnnsched/cmd/internal/top/state"
)

// workloadsScreen lists the controllers of pods with the sums of their pods, the one with the most pods first.
type workloadsScreen struct {
	shown []state.Workload // the workloads that pass the filter
}

func (*workloadsScreen) describe() description {
	return description{
		name: "workloads", also: []string{"deployments", "statefulsets", "daemonsets", "jobs"}, heading: 1,
		open: bind("w", "pods by workload", "w"),
	}
}

func (*workloadsScreen) asks() state.Ask { return state.Ask{Workloads: true} }

func (s *workloadsScreen) update(c *canvas, f query.Filter) {
	s.shown = query.Select(f, c.details.Workloads, func(w *state.Workload) query.Row {
		return query.Row{Texts: []string{workloadName(w)}, Usage: func(field string) state.Usage {
			switch field {
			case "cpu":
				return state.Usage{Requested: w.CPU}
			case "memory":
				return state.Usage{Requested: w.Memory}
			case "gpu":
				return state.Usage{Requested: w.GPU}
			}
			return state.Usage{Requested: int64(w.Bound + w.Pending)}
		}}
	})
}

// workloadName is the namespace and the controller. Pods without a controller are one workload of their namespace.
func workloadName(w *state.Workload) string {
	if w.Name == "" {
		return w.Namespace + " (no controller)"
	}
	return w.Namespace + "/" + w.Name
}

func (*workloadsScreen) press(*canvas, tea.KeyPressMsg) {}
func (*workloadsScreen) order(*canvas) string           { return "most pods first" }
func (s *workloadsScreen) name(row int) string          { return workloadName(&s.shown[row]) }
func (s *workloadsScreen) opens(_ *canvas, row int) target {
	w := &s.shown[row]
	return target{pods: state.PodsAsk{Asked: true, Namespace: w.Namespace, Workload: w.Name}}
}

func (s *workloadsScreen) size(c *canvas) (shown, total int) {
	return len(s.shown), len(c.details.Workloads)
}

func (*workloadsScreen) empty(c *canvas) string {
	if len(c.details.Workloads) > 0 {
		return "no workload passes the filter"
	}
	return "no pods in this cluster"
}

func (s *workloadsScreen) draw(c *canvas, from, to int) []string {
	of := func(cell func(w *state.Workload) string) func(int) string {
		return func(row int) string { return cell(&s.shown[row]) }
	}
	waits := func(row int) lipgloss.Style {
		if s.shown[row].Pending > 0 {
			return c.st.Warn
		}
		return c.st.Dim
	}
	cols := []textColumn{
		{title: "WORKLOAD", middle: true, cell: of(workloadName)},
		{title: "BOUND", right: true, cell: of(func(w *state.Workload) string { return fmt.Sprint(w.Bound) })},
		{title: "PENDING", right: true, cell: of(func(w *state.Workload) string { return fmt.Sprint(w.Pending) }), style: waits},
		{title: "NODES", right: true, cell: of(func(w *state.Workload) string { return fmt.Sprint(w.Nodes) })},
		{title: "CPU", right: true, cell: of(func(w *state.Workload) string { return state.Cores(w.CPU) })},
		{title: "MEMORY", right: true, cell: of(func(w *state.Workload) string { return state.Bytes(w.Memory) })},
	}
	each := func(sum func(w *state.Workload) int64, write func(int64) string) func(int) string {
		return of(func(w *state.Workload) string { return write(sum(w) / int64(max(w.Bound+w.Pending, 1))) })
	}
	if c.frame.HasGPU() {
		cols = append(cols, textColumn{title: "GPU", right: true, cell: of(func(w *state.Workload) string { return state.Devices(w.GPU) })})
	}
	return c.textTable(append(cols,
		textColumn{title: "CPU/POD", right: true, extra: true, cell: each(func(w *state.Workload) int64 { return w.CPU }, state.Cores)},
		textColumn{title: "MEMORY/POD", right: true, extra: true, cell: each(func(w *state.Workload) int64 { return w.Memory }, state.Bytes)},
	), len(s.shown), from, to)
}

// zonesScreen lists the zones with the sums of their workers.
type zonesScreen struct {
	shown []zoneSum // sums of the nodes that pass the filter
}

// zoneSum is the sum over the workers of a zone.
type zoneSum struct {
	zone              string
	nodes, ready      int
	cpu, memory, gpu  state.Usage
	pods              state.Usage
	usedCPU, usedFrom int64 // millicores that are used, and allocatable on the nodes that are measured
	low, high         float64
}

func (*zonesScreen) describe() description {
	return description{
		name: "zones", heading: 1, open: bind("z", "zones", "z"),
		notes: []note{{title: "Zones", lines: []string{"  sums over the workers; LOW and HIGH: CPU of the emptiest and the fullest of them"}}},
	}
}

func (s *zonesScreen) update(c *canvas, f query.Filter) {
	s.shown = nil
	for _, n := range query.Select(f, workers(c.frame.Nodes), query.NodeRow) {
		i := slices.IndexFunc(s.shown, func(z zoneSum) bool { return z.zone == n.Zone })
		if i < 0 {
			i = len(s.shown)
			s.shown = append(s.shown, zoneSum{zone: n.Zone, low: n.CPU.Fraction()})
		}
		s.shown[i].add(&n)
	}
	slices.SortFunc(s.shown, func(a, b zoneSum) int { return state.CompareNatural(a.zone, b.zone) })
}

// workers returns the nodes that ordinary pods may run on, or all if there is none.
func workers(nodes []state.Node) []state.Node {
	if slices.ContainsFunc(nodes, func(n state.Node) bool { return n.Worker }) {
		return slices.DeleteFunc(slices.Clone(nodes), func(n state.Node) bool { return !n.Worker })
	}
	return slices.Clone(nodes)
}

func (z *zoneSum) add(n *state.Node) {
	plus := func(u *state.Usage, v state.Usage) {
		u.Requested, u.Allocatable = u.Requested+v.Requested, u.Allocatable+v.Allocatable
	}
	z.nodes++
	if n.Ready {
		z.ready++
	}
	plus(&z.cpu, n.CPU)
	plus(&z.memory, n.Memory)
	plus(&z.gpu, n.GPU)
	plus(&z.pods, n.Pods)
	if n.Used != nil {
		z.usedCPU, z.usedFrom = z.usedCPU+n.Used.CPU, z.usedFrom+n.CPU.Allocatable
	}
	z.low, z.high = min(z.low, n.CPU.Fraction()), max(z.high, n.CPU.Fraction())
}

func (*zonesScreen) press(*canvas, tea.KeyPressMsg)    {}
func (*zonesScreen) order(*canvas) string              { return "by name" }
func (s *zonesScreen) name(row int) string             { return s.shown[row].zone }
func (s *zonesScreen) opens(_ *canvas, row int) target { return target{zone: s.shown[row].zone} }
func (s *zonesScreen) size(*canvas) (shown, total int) { return len(s.shown), len(s.shown) }
func (*zonesScreen) empty(*canvas) string              { return "no node passes the filter" }

func (s *zonesScreen) draw(c *canvas, from, to int) []string {
	of := func(cell func(z *zoneSum) string) func(int) string {
		return func(row int) string { return cell(&s.shown[row]) }
	}
	usage := func(title string, bar int, u func(z *zoneSum) state.Usage) textColumn {
		return textColumn{
			title: title,
			cell: of(func(z *zoneSum) string {
				f := u(z).Fraction()
				return ansi.Strip(c.st.Bar(bar, f, false)) + c.st.FitRight(state.Percent(f), percentWidth)
			}),
			style: func(row int) lipgloss.Style { return c.st.Level(u(&s.shown[row]).Fraction()) },
		}
	}
	percent := func(title string, f func(z *zoneSum) float64) textColumn {
		return textColumn{title: title, right: true, cell: of(func(z *zoneSum) string { return state.Percent(f(z)) })}
	}
	bar := niceBar
	if c.width < 100 {
		bar = smallBar
	}
	cols := []textColumn{
		{title: "ZONE", cell: of(func(z *zoneSum) string { return orDash(z.zone) })},
		{title: "READY", right: true, cell: of(func(z *zoneSum) string { return fmt.Sprintf("%d/%d", z.ready, z.nodes) })},
		usage("CPU", bar, func(z *zoneSum) state.Usage { return z.cpu }),
		percent("LOW", func(z *zoneSum) float64 { return z.low }),
		percent("HIGH", func(z *zoneSum) float64 { return z.high }),
		usage("MEMORY", bar, func(z *zoneSum) state.Usage { return z.memory }),
	}
	if c.frame.HasGPU() {
		cols = append(cols, usage("GPU", bar, func(z *zoneSum) state.Usage { return z.gpu }))
	}
	used := of(func(z *zoneSum) string {
		if z.usedFrom == 0 {
			return "-"
		}
		return state.Percent(state.Usage{Requested: z.usedCPU, Allocatable: z.usedFrom}.Fraction())
	})
	return c.textTable(append(cols,
		textColumn{title: "PODS", right: true, cell: of(func(z *zoneSum) string { return fmt.Sprint(z.pods.Requested) })},
		textColumn{title: "CPU USED", right: true, extra: true, cell: used},
		textColumn{
			title: "CORES", right: true, extra: true,
			cell: of(func(z *zoneSum) string { return state.Cores(z.cpu.Requested) + "/" + state.Cores(z.cpu.Allocatable) }),
		},
		textColumn{title: "BYTES", right: true, extra: true, cell: of(func(z *zoneSum) string {
			return state.Bytes(z.memory.Requested) + "/" + state.Bytes(z.memory.Allocatable)
		})},
	), len(s.shown), from, to)
}

// eventsScreen lists the cluster's events, the newest first.
type eventsScreen struct {
	shown []state.Event // the events that pass the filter
}

func (*eventsScreen) describe() description {
	return description{name: "events", heading: 1, open: bind("e", "events", "e")}
}

func (*eventsScreen) asks() state.Ask { return state.Ask{Events: true} }

func (s *eventsScreen) update(c *canvas, f query.Filter) {
	s.shown = query.Select(f, c.details.Events, func(e *state.Event) query.Row {
		return query.Row{Texts: []string{e.Type, e.Reason, e.Object, e.From, e.Message}}
	})
}

func (*eventsScreen) press(*canvas, tea.KeyPressMsg)      {}
func (*eventsScreen) order(*canvas) string                { return "newest first" }
func (s *eventsScreen) opens(_ *canvas, row int) target   { return eventTarget(&s.shown[row]) }
func (s *eventsScreen) size(c *canvas) (shown, total int) { return len(s.shown), len(c.details.Events) }

func (*eventsScreen) empty(c *canvas) string {
	switch {
	case c.details.EventsErr != nil:
		return state.Printable(c.details.EventsErr.Error())
	case len(c.details.Events) > 0:
		return "no event passes the filter"
	}
	return "no events in this cluster"
}

func (s *eventsScreen) draw(c *canvas, from, to int) []string {
	of := func(cell func(e *state.Event) string) func(int) string {
		return func(row int) string { return cell(&s.shown[row]) }
	}
	warns := func(row int) lipgloss.Style {
		if s.shown[row].Type != "Normal" {
			return c.st.Warn
		}
		return c.st.Plain
	}
	return c.textTable([]textColumn{
		{title: "AGE", right: true, cell: of(func(e *state.Event) string { return state.Age(c.frame.Time, e.Time) })},
		{title: "REASON", cell: of(func(e *state.Event) string { return e.Reason }), style: warns},
		{title: "OBJECT", middle: true, cell: of(func(e *state.Event) string { return e.Object })},
		{title: "COUNT", right: true, extra: true, cell: of(func(e *state.Event) string { return fmt.Sprint(e.Count) })},
		{title: "FROM", extra: true, cell: of(func(e *state.Event) string { return e.From })},
		{title: "MESSAGE", cell: of(func(e *state.Event) string { return state.Excluded(e.Message) })},
	}, len(s.shown), from, to)
}
