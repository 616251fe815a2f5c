package view

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	"gnnsched/cmd/internal/top/query"
	"gnnsched/cmd/internal/top/state"
)

// maxPending is how many pending pods a frame holds for this screen: enough to look at, and
// few enough to sort at every redraw.
const maxPending = 5000

// pendingScreen lists the pods that wait for a node, the oldest first, with the reason.
type pendingScreen struct {
	shown []state.PendingPod // those that pass the filter
}

func (*pendingScreen) describe() description {
	return description{name: "pending", heading: 1, open: bind("p", "pending pods", "p"), pending: maxPending}
}

func (s *pendingScreen) update(c *canvas, f query.Filter) {
	s.shown = query.Select(f, c.frame.Pending, pendingRow)
}

// pendingRow lets the filter read the fields of a pending pod. It has no usage: the pod is on no node.
func pendingRow(p *state.PendingPod) query.Row {
	return query.Row{Texts: []string{p.Namespace + "/" + p.Name, p.Scheduler, p.Reason, p.Message}}
}

func (*pendingScreen) press(*canvas, tea.KeyPressMsg)      {}
func (*pendingScreen) order(*canvas) string                { return "oldest first" }
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
		lines = append(lines, w.row(c, p.Namespace+"/"+p.Name, p.Scheduler, state.Age(c.frame.Time, p.Created), explanation(p)))
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

// explanation says on one line why a pod waits. It keeps from kube-scheduler's message what
// differs from pod to pod: the reasons, with the number of nodes that each excludes.
func explanation(p *state.PendingPod) string {
	switch {
	case p.Reason == "" && p.Message == "":
		return "no scheduler has tried it yet"
	case p.Message == "":
		return p.Reason
	}
	msg := excluded(p.Message)
	if p.Reason == "Unschedulable" || p.Reason == "" {
		return msg
	}
	return p.Reason + ": " + msg
}

// excluded keeps from a message of kube-scheduler the reasons, those that exclude most nodes first. It returns text of
// another form as it is.
func excluded(message string) string {
	msg, _, _ := strings.Cut(message, " preemption: ")
	if _, rest, ok := strings.Cut(msg, " nodes are available: "); ok {
		rest, _, _ = strings.Cut(rest, ". ") // what follows is not about nodes
		msg = mostNodesFirst(strings.ReplaceAll(strings.TrimSuffix(rest, "."), " node(s)", ""))
	}
	return msg
}

// mostNodesFirst sorts reasons such as "1 had a taint, 12 Insufficient cpu" by the number of
// nodes, because a narrow window cuts the last ones off. It returns text of another form as it is.
func mostNodesFirst(reasons string) string {
	type reason struct {
		nodes int
		text  string
	}
	var all []reason
	for text := range strings.SplitSeq(reasons, ", ") {
		number, _, _ := strings.Cut(text, " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			return reasons
		}
		all = append(all, reason{n, text})
	}
	slices.SortStableFunc(all, func(a, b reason) int { return cmp.Compare(b.nodes, a.nodes) })
	texts := make([]string, len(all))
	for i, r := range all {
		texts[i] = r.text
	}
	return strings.Join(texts, ", ")
}
