package live

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"gnnsched/internal/cluster"
)

// Waiter is a kind of pods of which some have no node at the end of an episode, and why.
type Waiter struct {
	Kind   string `json:"kind"`   // what they request and where they may run
	Pods   int    `json:"pods"`   // without a node
	Nodes  int    `json:"nodes"`  // on which they may run
	Others int    `json:"others"` // pods that run there and may run on other nodes, too
}

// waiters describes the kinds of some arrivals that have no node.
func (f *follower) waiters(left []int) (out []Waiter) {
	nodes := f.env.Snapshot().Nodes
	may := func(p *cluster.Pod, n *cluster.Node) bool {
		return n.Allows(p) == cluster.Fits && p.Requests.Within(n.Allocatable)
	}
	for _, arrival := range left {
		p := f.plan[arrival].Pod
		kind := cluster.KindText(p.Requests, p.Where())
		if at := slices.IndexFunc(out, func(w Waiter) bool { return w.Kind == kind }); at >= 0 {
			out[at].Pods++
			continue
		}
		w := Waiter{Kind: kind, Pods: 1}
		for _, n := range nodes {
			if may(p, n) {
				w.Nodes++
			}
		}
		for arrival, running := range f.running {
			row, known := f.rows[poolName(running.Spec.NodeName)]
			elsewhere := func(n *cluster.Node) bool { return !may(p, n) && may(f.plan[arrival].Pod, n) }
			if known && may(p, nodes[row]) && slices.ContainsFunc(nodes, elsewhere) {
				w.Others++
			}
		}
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b Waiter) int { return cmp.Or(b.Pods-a.Pods, cmp.Compare(a.Kind, b.Kind)) })
	return out
}

// waiting returns the rows of the table of waiting pods; nil if none waits.
func (r *Report) waiting() (rows [][]string) {
	for _, t := range r.Trials {
		for _, w := range t.Waiting {
			rows = append(rows, []string{t.Policy, strconv.FormatUint(t.Seed, 10), fmt.Sprintf("%d × %s", w.Pods, w.Kind),
				strconv.Itoa(w.Nodes), strconv.Itoa(w.Others)})
		}
	}
	if rows == nil {
		return nil
	}
	slices.SortStableFunc(rows, func(a, b []string) int {
		return cmp.Compare(slices.Index(r.policies(), a[0]), slices.Index(r.policies(), b[0]))
	})
	return slices.Insert(rows, 0, []string{"policy", "seed", "pods that wait", "their nodes", "pods there that may run elsewhere"})
}
