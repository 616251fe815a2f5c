package state

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"gnnsched/scheduler/decision"
)

// Placed sums up the bound pods of one scheduler. It comes from the API, so it also covers schedulers that cannot be asked for their
// decisions, such as a stock kube-scheduler.
type Placed struct {
	Scheduler string
	Bound     int
	Nodes     int        // different nodes that the pods are on
	Most      int        // pods on the node with the most of them
	Last      []Decision // the pods that were bound last, the newest first; at most lastPlaced
}

// lastPlaced is the number of pods in a Placed.
const lastPlaced = 300

// Placed returns the bound pods of each scheduler, the one with the most pods first.
func (c *Cluster) Placed() []Placed {
	all := c.placements()
	out := make([]Placed, 0, len(all))
	for _, pods := range all {
		p := Placed{Scheduler: pods[0].Profile, Bound: len(pods)}
		on := map[string]int{}
		for i := range pods {
			on[pods[i].Node]++
			p.Most = max(p.Most, on[pods[i].Node])
		}
		p.Nodes = len(on)
		slices.SortFunc(pods, func(a, b placement) int {
			return cmp.Or(cmp.Compare(b.bound, a.bound), strings.Compare(a.Namespace, b.Namespace), CompareNatural(a.Name, b.Name))
		})
		for i := range pods[:min(len(pods), lastPlaced)] {
			p.Last = append(p.Last, pods[i].decision())
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b Placed) int {
		return cmp.Or(cmp.Compare(b.Bound, a.Bound), strings.Compare(a.Scheduler, b.Scheduler))
	})
	return out
}

// placement is a pod on a node.
type placement struct {
	Profile, Namespace, Name, Node string
	bound                          int64 // Unix time in nanoseconds; 0 if it is not known
}

func (p *placement) decision() Decision {
	d := Decision{Counted: true, Record: decision.Record{
		Profile: p.Profile, Namespace: p.Namespace, Pod: p.Name, Node: p.Node, Outcome: decision.Bound,
	}}
	if p.bound != 0 {
		d.Time = time.Unix(0, p.bound)
	}
	return d
}

// placements returns the bound pods by scheduler. It does no more, because it holds the lock.
func (c *Cluster) placements() map[*schedulerSum][]placement {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[*schedulerSum][]placement{}
	for k, p := range c.pods {
		if p.node != nil {
			all[p.scheduler] = append(all[p.scheduler], placement{p.scheduler.name, k.namespace.Value(), k.name, p.node.Name, p.bound})
		}
	}
	return all
}
