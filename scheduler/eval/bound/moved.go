package bound

import (
	"errors"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
)

// Movable returns an error if the episode of a seed has pods that Moved cannot move: it handles neither devices nor node selectors of pods.
func Movable(env *sim.Env, seed uint64) error {
	if err := env.Reset(seed); err != nil {
		return err
	}
	for _, a := range env.Plan() {
		if a.Pod.Requests.TotalGPUMilli() > 0 || len(a.Pod.NodeSelector) > 0 || len(a.Pod.Tolerations) > 0 {
			return errors.New("the scenario has pods with GPUs, node selectors or tolerations, which cannot be moved here")
		}
	}
	return nil
}

// Moved returns the objective's cost after pods on the nodes were moved freely: a descent moves one pod or swaps two at a time, beginning
// with the present placement. Nodes that are not available keep their pods. The nodes are not changed, and pods must not use devices.
func Moved(nodes []*cluster.Node, mix objective.Mix) float64 {
	d := descent{}
	for _, n := range nodes {
		c := *n
		c.Groups = slices.Clone(n.Groups)
		d.nodes = append(d.nodes, &c)
		if c.Available() {
			d.rows = append(d.rows, len(d.nodes)-1)
		}
	}
	d.tracker = mix.Track(d.nodes)
	for range maxSweeps {
		if !d.sweep() {
			break
		}
	}
	return d.tracker.Cost()
}

const (
	maxSweeps = 100
	least     = 1e-9 // smallest reduction of the cost that counts
)

// descent moves pods between copies of nodes.
type descent struct {
	nodes   []*cluster.Node
	rows    []int // of the available ones
	tracker objective.Tracker
}

// sweep tries to improve the place of one pod of each group on each node, and reports whether any
// moved.
func (d *descent) sweep() (moved bool) {
	for _, from := range d.rows {
		for _, g := range slices.Clone(d.nodes[from].Groups) {
			moved = d.improve(from, g.Each) || moved
		}
	}
	return moved
}

// improve makes the best move or swap of a pod with the given requests on a node. It reports whether there
// is one.
func (d *descent) improve(from int, pod cluster.Resources) bool {
	to, other, cost := from, cluster.Resources{}, d.tracker.Cost()-least
	d.remove(from, pod)
	for _, b := range d.rows {
		if b == from {
			continue
		}
		if d.fits(b, pod) {
			d.add(b, pod)
			if c := d.tracker.Cost(); c < cost {
				to, other, cost = b, cluster.Resources{}, c
			}
			d.remove(b, pod)
		}
		for _, g := range slices.Clone(d.nodes[b].Groups) {
			if c, ok := d.swapped(from, pod, b, g.Each); ok && c < cost {
				to, other, cost = b, g.Each, c
			}
		}
	}
	if other != (cluster.Resources{}) {
		d.remove(to, other)
		d.add(from, other)
	}
	d.add(to, pod)
	return to != from
}

// swapped returns the cost after pod, which has left node from, and other on node b have changed places. It is
// not ok if they do not fit.
func (d *descent) swapped(from int, pod cluster.Resources, b int, other cluster.Resources) (cost float64, ok bool) {
	if other == pod {
		return 0, false
	}
	d.remove(b, other)
	if ok = d.fits(b, pod) && d.fits(from, other); ok {
		d.add(b, pod)
		d.add(from, other)
		cost = d.tracker.Cost()
		d.remove(from, other)
		d.remove(b, pod)
	}
	d.add(b, other)
	return cost, ok
}

func (d *descent) fits(row int, pod cluster.Resources) bool {
	return pod.Within(d.nodes[row].Free())
}

func (d *descent) add(row int, pod cluster.Resources) {
	d.nodes[row].AddOn(pod, 0)
	d.tracker.Update(row)
}

func (d *descent) remove(row int, pod cluster.Resources) {
	d.nodes[row].Remove(pod, 0)
	d.tracker.Update(row)
}
