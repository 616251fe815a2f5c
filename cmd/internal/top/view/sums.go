package view

import (
	"fmt"
	"slices"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"gnnsched/cmd/internal/top/query"
	"gnnsched/cmd/internal/top/state"
)

// workloadsScreen lists the controllers of pods with the sums of their pods, the one with the most pods first.
func workloadsScreen() screen {
	return &list[state.Workload]{
		about: description{
			name: "workloads", also: []string{"deployments", "statefulsets", "daemonsets", "jobs"}, open: bind("w", "pods by workload", "w"),
		},
		ask: state.Ask{Workloads: true}, sorted: "most pods first", noun: "workload", none: always("no pods in this cluster"),
		id: workloadName, columns: workloadColumns,
		to: func(w *state.Workload) target {
			return target{pods: state.PodsAsk{Asked: true, Namespace: w.Namespace, Workload: w.Name}}
		},
		rows: func(c *canvas, f query.Filter) ([]state.Workload, int) {
			return selected(f, c.details.Workloads, func(w *state.Workload) query.Row {
				return query.Row{
					Texts: []string{workloadName(w)}, Amounts: query.Requested(w.CPU, w.Memory, w.GPU, int64(w.Bound+w.Pending)),
				}
			})
		},
	}
}

// workloadName is the namespace and the controller. Pods without a controller are one workload of their namespace.
func workloadName(w *state.Workload) string {
	if w.Name == "" {
		return w.Namespace + " (no controller)"
	}
	return w.Namespace + "/" + w.Name
}

func workloadColumns(c *canvas) []column[state.Workload] {
	number := func(title string, of func(w *state.Workload) int) column[state.Workload] {
		return column[state.Workload]{title: title, right: true, cell: func(w *state.Workload) string { return fmt.Sprint(of(w)) }}
	}
	amount := func(title string, of func(w *state.Workload) int64, write func(int64) string) column[state.Workload] {
		return column[state.Workload]{title: title, right: true, cell: func(w *state.Workload) string { return write(of(w)) }}
	}
	each := func(title string, of func(w *state.Workload) int64, write func(int64) string) column[state.Workload] {
		col := amount(title, func(w *state.Workload) int64 { return of(w) / int64(max(w.Bound+w.Pending, 1)) }, write)
		col.extra = true
		return col
	}
	cpu, memory := func(w *state.Workload) int64 { return w.CPU }, func(w *state.Workload) int64 { return w.Memory }
	pending := number("PENDING", func(w *state.Workload) int { return w.Pending })
	pending.style = func(w *state.Workload) lipgloss.Style {
		if w.Pending > 0 {
			return c.st.Warn
		}
		return c.st.Dim
	}
	cols := []column[state.Workload]{
		{title: "WORKLOAD", middle: true, cell: workloadName},
		number("BOUND", func(w *state.Workload) int { return w.Bound }), pending, number("NODES", func(w *state.Workload) int { return w.Nodes }),
		amount("CPU", cpu, state.Cores), amount("MEMORY", memory, state.Bytes),
	}
	if c.frame.HasGPU() {
		cols = append(cols, amount("GPU", func(w *state.Workload) int64 { return w.GPU }, state.Devices))
	}
	return append(cols, each("CPU/POD", cpu, state.Cores), each("MEMORY/POD", memory, state.Bytes))
}

// zonesScreen lists the zones with the sums of their workers that pass the filter.
func zonesScreen() screen {
	return &list[zoneSum]{
		about: description{
			name: "zones", open: bind("z", "zones", "z"),
			notes: []note{{title: "Zones", lines: []string{"  sums over the workers; LOW and HIGH: CPU of the emptiest and the fullest of them"}}},
		},
		sorted: "by name", noun: "node", rows: zoneSums, columns: zoneColumns,
		id: func(z *zoneSum) string { return z.zone }, to: func(z *zoneSum) target { return target{zone: z.zone} },
	}
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

func zoneSums(c *canvas, f query.Filter) (shown []zoneSum, total int) {
	for _, n := range query.Select(f, workers(c.frame.Nodes), query.NodeRow) {
		i := slices.IndexFunc(shown, func(z zoneSum) bool { return z.zone == n.Zone })
		if i < 0 {
			i = len(shown)
			shown = append(shown, zoneSum{zone: n.Zone, low: n.CPU.Fraction()})
		}
		shown[i].add(&n)
	}
	slices.SortFunc(shown, func(a, b zoneSum) int { return state.CompareNatural(a.zone, b.zone) })
	return shown, len(shown)
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

func zoneColumns(c *canvas) []column[zoneSum] {
	bar := niceBar
	if c.width < 100 {
		bar = smallBar
	}
	usage := func(title string, u func(z *zoneSum) state.Usage) column[zoneSum] {
		return column[zoneSum]{
			title: title,
			cell: func(z *zoneSum) string {
				f := u(z).Fraction()
				return ansi.Strip(c.st.Bar(bar, f, false)) + c.st.FitRight(state.Percent(f), percentWidth)
			},
			style: func(z *zoneSum) lipgloss.Style { return c.st.Level(u(z).Fraction()) },
		}
	}
	percent := func(title string, f func(z *zoneSum) float64) column[zoneSum] {
		return column[zoneSum]{title: title, right: true, cell: func(z *zoneSum) string { return state.Percent(f(z)) }}
	}
	amounts := func(title string, u func(z *zoneSum) state.Usage, write func(int64) string) column[zoneSum] {
		return column[zoneSum]{title: title, right: true, extra: true, cell: func(z *zoneSum) string {
			return write(u(z).Requested) + "/" + write(u(z).Allocatable)
		}}
	}
	cpu, memory := func(z *zoneSum) state.Usage { return z.cpu }, func(z *zoneSum) state.Usage { return z.memory }
	cols := []column[zoneSum]{
		{title: "ZONE", cell: func(z *zoneSum) string { return orDash(z.zone) }},
		{title: "READY", right: true, cell: func(z *zoneSum) string { return fmt.Sprintf("%d/%d", z.ready, z.nodes) }},
		usage("CPU", cpu), percent("LOW", func(z *zoneSum) float64 { return z.low }), percent("HIGH", func(z *zoneSum) float64 { return z.high }),
		usage("MEMORY", memory),
	}
	if c.frame.HasGPU() {
		cols = append(cols, usage("GPU", func(z *zoneSum) state.Usage { return z.gpu }))
	}
	used := func(z *zoneSum) string {
		if z.usedFrom == 0 {
			return "-"
		}
		return state.Percent(state.Usage{Requested: z.usedCPU, Allocatable: z.usedFrom}.Fraction())
	}
	return append(cols,
		column[zoneSum]{title: "PODS", right: true, cell: func(z *zoneSum) string { return fmt.Sprint(z.pods.Requested) }},
		column[zoneSum]{title: "CPU USED", right: true, extra: true, cell: used},
		amounts("CORES", cpu, state.Cores), amounts("BYTES", memory, state.Bytes),
	)
}

// eventsScreen lists the cluster's events, the newest first.
type eventsScreen struct{ list[state.Event] }

func newEventsScreen() *eventsScreen {
	return &eventsScreen{list[state.Event]{
		about: description{name: "events", open: bind("e", "events", "e")}, ask: state.Ask{Events: true}, sorted: "newest first",
		noun: "event", none: always("no events in this cluster"), to: eventTarget, columns: eventColumns,
		rows: func(c *canvas, f query.Filter) ([]state.Event, int) {
			return selected(f, c.details.Events, func(e *state.Event) query.Row {
				return query.Row{Texts: []string{e.Type, e.Reason, e.Object, e.From, e.Message}}
			})
		},
	}}
}

func (s *eventsScreen) empty(c *canvas) string {
	if err := c.details.EventsErr; err != nil {
		return state.Printable(err.Error())
	}
	return s.list.empty(c)
}

func eventColumns(c *canvas) []column[state.Event] {
	warns := func(e *state.Event) lipgloss.Style {
		if e.Type != "Normal" {
			return c.st.Warn
		}
		return c.st.Plain
	}
	return []column[state.Event]{
		{title: "AGE", right: true, cell: func(e *state.Event) string { return state.Age(c.frame.Time, e.Time) }},
		{title: "REASON", cell: func(e *state.Event) string { return e.Reason }, style: warns},
		{title: "OBJECT", middle: true, cell: func(e *state.Event) string { return e.Object }},
		{title: "COUNT", right: true, extra: true, cell: func(e *state.Event) string { return fmt.Sprint(e.Count) }},
		{title: "FROM", extra: true, cell: func(e *state.Event) string { return e.From }},
		{title: "MESSAGE", cell: func(e *state.Event) string { return state.Excluded(e.Message) }},
	}
}
