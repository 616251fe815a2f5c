package view

import (
	tea "charm.land/bubbletea/v2"

	"gnnsched/cmd/internal/top/query"
	"gnnsched/cmd/internal/top/state"
)

// maxPending is the number of pending pods in a frame for this screen: enough to look at, and few enough to sort at every redraw.
const maxPending = 5000

// pendingScreen lists the pods that wait for a node, the oldest first, with the reason.
type pendingScreen struct {
	shown []state.PendingPod // the pods that pass the filter
}

func (*pendingScreen) describe() description {
	return description{name: "pending", heading: 1, open: bind("p", "pending pods", "p"), pending: maxPending}
}

func (s *pendingScreen) update(c *canvas, f query.Filter) {
	s.shown = query.Select(f, c.frame.Pending, query.PendingRow)
}

func (*pendingScreen) press(*canvas, tea.KeyPressMsg)      {}
func (*pendingScreen) order(*canvas) string                { return "oldest first" }
func (s *pendingScreen) name(row int) string               { return s.shown[row].Namespace + "/" + s.shown[row].Name }
func (s *pendingScreen) opens(_ *canvas, row int) target   { return podTarget(s.name(row)) }
func (s *pendingScreen) size(c *canvas) (shown, total int) { return len(s.shown), c.frame.PendingCount }

func (*pendingScreen) empty(c *canvas) string {
	if c.frame.PendingCount > 0 {
		return "no pending pod passes the filter"
	}
	return "no pod is pending"
}

func (s *pendingScreen) draw(c *canvas, from, to int) []string {
	w := s.columns(c)
	lines := []string{c.st.Dim.Render(w.row(c, "POD", "SCHEDULER", "AGE", "WHY"))}
	for i := range s.shown[from:to] {
		p := &s.shown[from+i]
		lines = append(lines, w.row(c, p.Namespace+"/"+p.Name, p.Scheduler, state.Age(c.frame.Time, p.Created), p.Why()))
	}
	return lines
}

// pendingColumns are the widths of the columns, in cells. A column of width 0 is left out.
type pendingColumns struct{ pod, scheduler, age, why int }

// columns fits the columns into the window. The reason gets the space that the others leave.
func (s *pendingScreen) columns(c *canvas) pendingColumns {
	w := pendingColumns{pod: len("POD"), scheduler: len("SCHEDULER"), age: 5}
	for i := range s.shown {
		p := &s.shown[i]
		w.pod = max(w.pod, len(p.Namespace)+1+len(p.Name))
		w.scheduler = max(w.scheduler, len(p.Scheduler))
	}
	w.scheduler = min(w.scheduler, 20)
	if c.width < 60 {
		w.scheduler = 0
	}
	w.pod = min(w.pod, max(c.width*2/5, 12), max(c.width, 1))
	w.why = max(c.width-w.pod-w.scheduler-w.age-3*len(c.gap()), 0)
	return w
}

func (w pendingColumns) row(c *canvas, pod, scheduler, age, why string) string {
	s := c.st.Fit(pod, w.pod)
	if w.scheduler > 0 {
		s += c.gap() + c.st.Fit(scheduler, w.scheduler)
	}
	return s + c.gap() + c.st.FitRight(age, w.age) + c.gap() + c.st.Fit(why, w.why)
}
