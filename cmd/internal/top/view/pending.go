package view

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"gnnsched/cmd/internal/top/state"
)

// pendingLines is the heading and the given pending pods.
func (m *Model) pendingLines(visible []state.PendingPod) []string {
	st := &m.st
	const age = 5
	pod, scheduler := len("POD"), len("SCHEDULER")
	for i := range m.pending {
		p := &m.pending[i]
		pod, scheduler = max(pod, len(p.Namespace)+1+len(p.Name)), max(scheduler, len(p.Scheduler))
	}
	scheduler = min(scheduler, 20)
	if m.width < 60 {
		scheduler = 0
	}
	pod = min(pod, max(m.width*2/5, 12), max(m.width, 1))
	why := max(m.width-pod-scheduler-age-3*len(m.gap()), 0)
	row := func(name, by, old, reason string) string {
		s := st.fit(name, pod)
		if scheduler > 0 {
			s += m.gap() + st.fit(by, scheduler)
		}
		return s + m.gap() + st.fitRight(old, age) + m.gap() + st.fit(reason, why)
	}
	lines := []string{st.dim.Render(row("POD", "SCHEDULER", "AGE", "WHY"))}
	if len(m.pending) == 0 && m.rows() > 0 {
		text := "no pod is pending"
		if m.frame.PendingCount > 0 {
			text = "no pending pod passes the filter"
		}
		return append(lines, st.dim.Render(text))
	}
	for i := range visible {
		p := &visible[i]
		lines = append(lines, row(p.Namespace+"/"+p.Name, p.Scheduler, state.Age(m.frame.Time, p.Created), explanation(p)))
	}
	return lines
}

// explanation is why a pod waits, on one line: what kube-scheduler says of the nodes comes first,
// without the words that are the same for every pod.
func explanation(p *state.PendingPod) string {
	switch {
	case p.Reason == "" && p.Message == "":
		return "no scheduler has tried it yet"
	case p.Message == "":
		return p.Reason
	}
	msg, _, _ := strings.Cut(p.Message, " preemption: ")
	if _, rest, ok := strings.Cut(msg, " nodes are available: "); ok {
		rest, _, _ = strings.Cut(rest, ". ") // remarks that no node is the subject of
		msg = mostNodesFirst(strings.ReplaceAll(strings.TrimSuffix(rest, "."), " node(s)", ""))
	}
	if p.Reason == "Unschedulable" || p.Reason == "" {
		return msg
	}
	return p.Reason + ": " + msg
}

// mostNodesFirst reorders "1 had a taint, 12 Insufficient cpu": on a short line, what keeps
// the pod from most nodes matters.
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
			return reasons // not the form that we know
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
