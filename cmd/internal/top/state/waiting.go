package state

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Why says on one line why the pod waits. It keeps from kube-scheduler's message what differs from pod to pod: the reasons,
// with the number of nodes that each excludes.
func (p *PendingPod) Why() string {
	switch {
	case p.Reason == "" && p.Message == "":
		return "no scheduler has tried it yet"
	case p.Message == "":
		return p.Reason
	}
	msg := Excluded(p.Message)
	if p.Reason == "Unschedulable" || p.Reason == "" {
		return msg
	}
	return p.Reason + ": " + msg
}

// Excluded keeps only the reasons of a kube-scheduler message, the most frequent first, because a narrow window cuts off the last ones.
// From a message about a binding it keeps the node. It returns other texts unchanged.
func Excluded(message string) string {
	message = strings.TrimPrefix(message, "(combined from similar events): ")
	if object, node, ok := strings.Cut(strings.TrimPrefix(message, "Successfully assigned "), " to "); ok &&
		strings.HasPrefix(message, "Successfully assigned ") && !strings.Contains(object, " ") {
		return "assigned to " + node // the event names the pod
	}
	all, text := exclusions(message)
	if all == nil {
		return text
	}
	slices.SortStableFunc(all, func(a, b exclusion) int { return cmp.Compare(b.nodes, a.nodes) })
	texts := make([]string, len(all))
	for i, x := range all {
		texts[i] = strconv.Itoa(x.nodes) + strings.ReplaceAll(" "+x.reason, " node(s)", "")
	}
	return strings.Join(texts, ", ")
}

// exclusion is a reason with the number of nodes that it excludes.
type exclusion struct {
	nodes  int
	reason string
}

// exclusions splits a kube-scheduler message, such as "0/13 nodes are available: 1 node(s) had a taint, 12 Insufficient cpu. preemption:
// …". For a text of another form it returns no exclusions and the part of the text to show.
func exclusions(message string) (all []exclusion, text string) {
	text, _, _ = strings.Cut(message, " preemption: ")
	_, rest, ok := strings.Cut(text, " nodes are available: ")
	if !ok {
		return nil, text
	}
	rest, _, _ = strings.Cut(rest, ". ") // the rest is not about nodes
	rest = strings.TrimSuffix(rest, ".")
	for part := range strings.SplitSeq(rest, ", ") {
		number, reason, _ := strings.Cut(part, " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, strings.ReplaceAll(rest, " node(s)", "")
		}
		all = append(all, exclusion{n, reason})
	}
	return all, rest
}

// Cause is a reason why pods wait.
type Cause struct {
	Reason string `json:"reason"`          // in kube-scheduler's words
	Pods   int    `json:"pods"`            // that wait for it, among other reasons
	Nodes  int    `json:"nodes,omitempty"` // the most that it excludes for one of these pods; 0 if it is not about nodes
}

// CausesOf counts the pods that wait for each reason, the reason of most pods first.
func CausesOf(pods []PendingPod) []Cause {
	byReason := map[string]*Cause{}
	count := func(reason string, nodes int) {
		x := byReason[reason]
		if x == nil {
			x = &Cause{Reason: reason}
			byReason[reason] = x
		}
		x.Pods, x.Nodes = x.Pods+1, max(x.Nodes, nodes)
	}
	for i := range pods {
		all, _ := exclusions(pods[i].Message)
		if all == nil {
			count(pods[i].Why(), 0)
		}
		for k, x := range all {
			if !slices.ContainsFunc(all[:k], func(before exclusion) bool { return before.reason == x.reason }) {
				count(x.reason, x.nodes)
			}
		}
	}
	out := make([]Cause, 0, len(byReason))
	for _, x := range byReason {
		out = append(out, *x)
	}
	slices.SortFunc(out, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(b.Nodes, a.Nodes), strings.Compare(a.Reason, b.Reason))
	})
	return out
}
