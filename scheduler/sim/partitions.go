package sim

import (
	"math/bits"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
)

// PartitionOutcome describes the MIG partitions of an episode, from Given.WarmUp on. Times are in the episode's unit.
type PartitionOutcome struct {
	Allocation float64            `json:"allocation"` // of the compute slices, 0 to 1, mean over the time
	Waiting    float64            `json:"waiting"`    // pods, mean over the time
	Arrived    [mig.Count]int     `json:"arrived"`    // by profile
	Waited     [mig.Count]float64 `json:"waited"`     // sum over the pods; those that wait at the end waited until then
	Left       [mig.Count]int     `json:"left"`       // pods without a node at the end

	Load  float64            `json:"load,omitempty"`  // of an element of Loads
	Loads []PartitionOutcome `json:"loads,omitempty"` // when the arrivals had requested each of Given.Loads; no pod leaves, and nobody counts the waits
}

// partitions plays the MIG partitions of pods on nodes whose GPUs have memory slices.
type partitions struct {
	quiet
	from    float64          // end of the warm-up
	starts  []int8           // by arrival: the first memory slice of its partition; -1 until it is placed
	compute [][]int          // used compute slices, by row and device
	used    int              // their sum
	shown   cluster.Snapshot // to policies
	sums    PartitionOutcome // over the time until now
}

func newPartitions(e *Env) *partitions {
	p := &partitions{from: float64(e.arrivals.fill), starts: slices.Repeat([]int8{-1}, len(e.arrivals.pods))}
	if e.cfg.Given != nil {
		p.from += e.cfg.Given.WarmUp
	}
	return p
}

func (p *partitions) track(e *Env) {
	p.used, p.compute = 0, make([][]int, len(e.snapshot.Nodes))
	for row, n := range e.snapshot.Nodes {
		p.compute[row] = make([]int, len(n.Slices))
	}
	for pod, row := range e.on {
		if row >= 0 {
			p.count(e, int32(pod), row, 1)
		}
	}
}

func (p *partitions) copyFor(e *Env, old []part) part {
	c := reused[partitions](old)
	starts := append(c.starts[:0], p.starts...)
	*c = partitions{from: p.from, starts: starts, sums: p.sums, shown: c.shown}
	c.track(e)
	return c
}

// pends shows those GPUs of the candidates as full that have room by their thousandths, but no place for the pod's profile, as the
// scheduler's plugin does.
func (p *partitions) pends(e *Env) {
	profile := e.Pending().Partition
	if profile == mig.None {
		return
	}
	p.shown.Nodes = append(p.shown.Nodes[:0], e.snapshot.Nodes...)
	e.seen = &p.shown
	for _, row := range e.Candidates() {
		n := e.snapshot.Nodes[row]
		for i, used := range n.Slices {
			if n.GPUs[i]+profile.Milli() > cluster.DeviceMilli || profile.Fits(used) {
				continue
			}
			if p.shown.Nodes[row] == n {
				seen := *n
				seen.GPUs, seen.Version = slices.Clone(n.GPUs), cluster.NextVersion()
				p.shown.Nodes[row] = &seen
			}
			p.shown.Nodes[row].GPUs[i] = cluster.DeviceMilli
		}
	}
}

func (p *partitions) arrives(e *Env, pod int32) {
	if e.arrivals.at[pod] >= p.from {
		p.sums.Arrived[e.deployment(pod).pod.Partition]++
	}
}

func (p *partitions) placed(e *Env, pod, row int32) {
	if p.starts[pod] < 0 {
		p.sums.wait(e, p.from, pod)
	}
	p.starts[pod] = int8(e.start)
	p.change(e, pod, row, 1)
}

func (p *partitions) left(e *Env, pod, row int32) { p.change(e, pod, row, -1) }

// change adds the partition of a pod to the node of a row or, with sign -1, removes it.
func (p *partitions) change(e *Env, pod, row int32, sign int) {
	profile := e.deployment(pod).pod.Partition
	if profile == mig.None {
		return
	}
	n, gpu := e.snapshot.Nodes[row], p.count(e, pod, row, sign)
	n.Slices[gpu] ^= profile.On(int(p.starts[pod]))
	n.GPUs[gpu] = mig.Used(p.compute[row][gpu], n.Slices[gpu].Len()) // thousandths of several partitions are rounded together
}

// count counts the compute slices of a pod on the node of a row, and returns its device.
func (p *partitions) count(e *Env, pod, row int32, sign int) (gpu int) {
	compute := e.deployment(pod).pod.Partition.Compute()
	if compute == 0 {
		return 0
	}
	gpu = bits.TrailingZeros64(uint64(e.devices[pod]))
	p.compute[row][gpu] += sign * compute
	p.used += sign * compute
	return gpu
}

// wait adds the wait until now of a pod that arrived after the warm-up.
func (o *PartitionOutcome) wait(e *Env, from float64, pod int32) {
	if e.arrivals.at[pod] >= from {
		o.Waited[e.deployment(pod).pod.Partition] += e.now - e.arrivals.at[pod]
	}
}

func (p *partitions) pass(e *Env, until float64) {
	if span := until - max(e.now, p.from); span > 0 {
		p.sums.Allocation += span * p.allocation()
		p.sums.Waiting += span * float64(len(e.waiting))
	}
}

// allocation returns which part of the compute slices is in use.
func (p *partitions) allocation() float64 { return float64(p.used) / float64(p.all()) }

// all returns the number of compute slices.
func (p *partitions) all() (n int) {
	for _, gpus := range p.compute {
		n += len(gpus) * mig.Compute
	}
	return n
}

// loads returns the state at each of the ascending loads. No pod leaves, so one that runs has run since it arrived.
func (p *partitions) loads(e *Env, loads []float64) (out []PartitionOutcome) {
	var now PartitionOutcome
	asked, used, all := 0, 0, float64(p.all())
	for i := range e.arrivals.pods {
		profile := e.deployment(int32(i)).pod.Partition
		now.Arrived[profile]++
		if asked += profile.Compute(); e.on[i] >= 0 {
			used += profile.Compute()
		} else {
			now.Left[profile]++
		}
		for ; len(out) < len(loads) && float64(asked) >= loads[len(out)]*all; out = append(out, now) {
			now.Load, now.Allocation = loads[len(out)], float64(used)/all
		}
	}
	return out
}

func (p *partitions) report(e *Env, out *Outcome) {
	o := p.sums
	for _, pod := range e.waiting {
		o.Left[e.deployment(pod).pod.Partition]++
		o.wait(e, p.from, pod)
	}
	if time := e.now - p.from; time > 0 {
		o.Allocation, o.Waiting = o.Allocation/time, o.Waiting/time
	} else {
		o.Allocation, o.Waiting = p.allocation(), float64(len(e.waiting))
	}
	if g := e.cfg.Given; g != nil && len(g.Loads) > 0 {
		o.Loads = p.loads(e, g.Loads)
	}
	out.Partitions = &o
}
