package sim

import (
	"math"
	"slices"

	"gnnsched/internal/cluster"
)

// lossAt is after how many arrivals nodes go.
func (a *arrivals) lossAt() int {
	if a.fill > 0 {
		return a.fill
	}
	return len(a.pods) / 2
}

// drawLost says which rows of the nodes go: of the available ones the fraction that Lose says,
// rounded, but at least one goes and at least one stays.
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

// loseNodes takes nodes away once it is time to, and tells whether it did so now. What ran on
// them waits again.
func (e *Env) loseNodes() bool {
	if e.lost || e.cfg.Lose == 0 || e.clock < e.arrivals.lossAt() {
		return false
	}
	e.lost = true
	lost := e.cfg.drawLost(e.seed, e.snapshot.Nodes)
	row := make([]int32, len(lost)) // of each node, afterwards
	var nodes []*cluster.Node
	for i, n := range e.snapshot.Nodes {
		row[i] = -1
		if !lost[i] {
			row[i] = int32(len(nodes))
			nodes = append(nodes, n)
		}
	}
	e.snapshot.Nodes = nodes
	e.evict(row)
	e.follow()
	return true
}

// evict moves pods to the rows that their nodes have now; those without a node wait.
func (e *Env) evict(row []int32) {
	for pod, from := range e.on {
		if from < 0 {
			continue
		}
		if e.on[pod] = row[from]; row[from] < 0 {
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
		if d.node = row[d.node]; d.node >= 0 {
			e.running.push(d)
		}
	}
}
