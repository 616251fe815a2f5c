package sim

import (
	"math"
	"slices"

	"gnnsched/internal/cluster"
)

// lossAt returns after how many arrivals nodes are lost.
func (a *arrivalList) lossAt() int {
	if a.fill > 0 {
		return a.fill
	}
	return len(a.pods) / 2
}

// drawLost draws the nodes that are lost, by row: the fraction Lose of the available ones, rounded,
// but at least one is lost and at least one stays.
func (c *Config) drawLost(seed uint64, nodes []*cluster.Node) []bool {
	lost := make([]bool, len(nodes))
	var rows []int
	for i, n := range nodes {
		if n.Available() {
			rows = append(rows, i)
		}
	}
	count := max(int(math.Round(c.Lose*float64(len(rows)))), 1)
	rng := stream(seed, streamLoss)
	for _, i := range rng.Perm(len(rows))[:max(min(count, len(rows)-1), 0)] {
		lost[rows[i]] = true
	}
	return lost
}

// loseNodes removes nodes when it is time to, and reports whether it did. Their pods wait again.
func (e *Env) loseNodes() bool {
	if e.lost || e.cfg.Lose == 0 || e.clock < e.arrivals.lossAt() {
		return false
	}
	e.lost = true
	lost := e.cfg.drawLost(e.seed, e.snapshot.Nodes)
	newRow := make([]int32, len(lost)) // by old row; -1 if the node is lost
	var nodes []*cluster.Node
	for i, n := range e.snapshot.Nodes {
		newRow[i] = -1
		if !lost[i] {
			newRow[i] = int32(len(nodes))
			nodes = append(nodes, n)
		}
	}
	e.snapshot.Nodes = nodes
	e.evict(newRow)
	e.track()
	e.usage.track(e.snapshot.Nodes, e.on)
	return true
}

// evict moves pods to the new rows of their nodes. Pods whose node is lost wait.
func (e *Env) evict(newRow []int32) {
	for pod, from := range e.on {
		if from < 0 {
			continue
		}
		if e.on[pod] = newRow[from]; newRow[from] < 0 {
			e.placed--
			e.evicted++
			e.waiting = append(e.waiting, int32(pod))
		}
	}
	slices.Sort(e.waiting)
	e.at = 0
	stay := slices.Clone(e.running)
	e.running = e.running[:0]
	for _, d := range stay {
		if d.node = newRow[d.node]; d.node >= 0 {
			e.running.push(d)
		}
	}
}
