package value

import (
	"slices"

	"gnnsched/internal/cluster"
)

// ends is the distribution of the amount of arrivals, over the cluster's GPUs, at which an episode may end. It is
// uniform from first to 1 and from 1 to last, and the share below is under 1.
type ends struct{ first, last, below float64 }

// after returns the share of the ends that come after so many arrivals.
func (e ends) after(load float64) float64 {
	if load > e.last {
		return 0
	}
	from, part := e.first, 1.0 // the ends at 1 and more
	if e.first < 1 {
		if from, part = 1, 1-e.below; load < 1 {
			return 1 - e.below*max(load-e.first, 0)/(1-e.first)
		}
	}
	if e.last <= from {
		return part
	}
	return part * (e.last - max(load, from)) / (e.last - from)
}

// arrival is a pod of an episode that is over.
type arrival struct {
	load float64 // what has been requested with it, over the cluster's GPUs
	gpus float64
	row  int32 // of its node; -1: it was lost
	kind int   // index of its price
}

// event is the outcome of an arrival.
type event struct {
	pod  *cluster.Pod
	load float64 // what has been requested with it, over the cluster's GPUs
	gpus float64
	row  int32 // of its node; -1: it was lost
}

// episodeOf returns the arrivals of an episode that is over, and the price of each kind of pod.
//
// The price of a kind is the share of the ends at which a pod of this kind would find no node. For
// no pod leaves: a request that fits nowhere never fits again, and none that asks for at least as
// much. So the price is the share of the ends after the first loss of such a pod. At the other
// ends another node would have served the pod as well.
func episodeOf(events []event, e ends) (pods []arrival, prices []float64) {
	var kinds []*cluster.Pod
	var lost []float64 // load at the first loss of the kind
	known := map[*cluster.Pod]int{}
	for _, a := range events {
		p := arrival{load: a.load, gpus: a.gpus, row: a.row}
		kind, found := known[a.pod]
		if !found {
			kind = slices.IndexFunc(kinds, func(k *cluster.Pod) bool { return asMuch(k, a.pod) && asMuch(a.pod, k) })
			if kind < 0 {
				kind = len(kinds)
				kinds, lost = append(kinds, a.pod), append(lost, never)
			}
			known[a.pod] = kind
		}
		if p.kind = kind; p.row < 0 && p.gpus > 0 {
			lost[kind] = min(lost[kind], p.load)
		}
		pods = append(pods, p)
	}
	for _, k := range kinds {
		first := never
		for i, other := range kinds {
			if lost[i] < first && asMuch(k, other) {
				first = lost[i]
			}
		}
		prices = append(prices, e.after(first))
	}
	return pods, prices
}

// never is a load that no episode reaches.
const never = 1e9

// asMuch tells whether a fits on no node on which b does not fit.
func asMuch(a, b *cluster.Pod) bool {
	if len(a.Tolerations) > 0 && !slices.Equal(a.Tolerations, b.Tolerations) {
		return false
	}
	x, y := a.Requests, b.Requests
	if x.MilliCPU < y.MilliCPU || x.Memory < y.Memory || x.GPU < y.GPU || x.TotalGPUMilli() < y.TotalGPUMilli() {
		return false
	}
	return len(b.GPUModels) == 0 || len(a.GPUModels) > 0 &&
		!slices.ContainsFunc(a.GPUModels, func(m string) bool { return !slices.Contains(b.GPUModels, m) })
}

// state holds the facts about a cluster at a decision that targets depend on.
type state struct {
	arrival int       // index of the pending pod
	all     float64   // idle devices of all nodes
	rows    []int32   // some of the nodes
	idle    []float64 // idle devices of each of them
}

// targets returns the target of each node of each state of an episode with partitions, in compute slices.
// The states have the order of their decisions.
//
// The target of a node is k times its idle devices, minus what it serves later, at its price, all over the share of the
// ends that are still to come. It is the same number k for all nodes of a state. It makes the targets of all nodes add up to the
// cost that is still to come, which is the mean over these ends of: the devices that pods have
// been refused, as long as fewer were requested than there are, and the idle devices from then
// on. A multiple of the idle devices is no matter for a choice, because every candidate takes the
// same amount from them.
//
// So a node counts with what the cluster would lose without it. With a share of the cost it would
// count too little: a pod of eight devices is lost to the last node that could have hosted it,
// however many others have a device left.
func targets(events []event, nodes int, e ends, states []state) [][]float32 {
	pods, prices := episodeOf(events, e)
	served := make([]float64, nodes) // after the state, at its price
	var all, full, lost float64      // all that is served, at its price and at the share of the ends over 1; the cost below 1
	out := make([][]float32, len(states))
	next := len(pods)
	for i := len(states) - 1; i >= 0; i-- {
		s := &states[i]
		for next > s.arrival {
			next--
			p := &pods[next]
			if p.row < 0 {
				lost += p.gpus * max(e.after(p.load)-e.after(1), 0)
				continue
			}
			served[p.row] += p.gpus * prices[p.kind]
			all += p.gpus * prices[p.kind]
			full += p.gpus * e.after(max(p.load, 1))
		}
		load := 0.0
		if s.arrival > 0 {
			load = pods[s.arrival-1].load
		}
		cost := lost + s.all*e.after(max(load, 1)) - full
		k := (cost + all) / max(s.all, 1e-9)
		left := max(e.after(load), 1e-9)
		for j, row := range s.rows {
			out[i] = append(out[i], float32((k*s.idle[j]-served[row])/left))
		}
	}
	return out
}

// idleTargets returns each node's idle devices at the episode's last end, the same for every state in which the node was seen.
func idleTargets(atEnd []*cluster.Node, states []state) [][]float32 {
	out := make([][]float32, len(states))
	for i, s := range states {
		for _, row := range s.rows {
			out[i] = append(out[i], float32(idle(atEnd[row])))
		}
	}
	return out
}
