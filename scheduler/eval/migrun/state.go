package migrun

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/scheduler/policy"
)

// place is where a partition lies.
type place struct {
	node, gpu, start int
}

// state is a cluster under a policy.
type state struct {
	machines Machines
	policy   policy.Policy
	ties     *rand.Rand // nil: the first of equal nodes
	nodes    []*cluster.Node
	compute  [][]int // used compute slices, by node and GPU
	used     int     // compute slices of the cluster
	shown    cluster.Snapshot
	rows     []int32
	scores   []float32
}

func newState(m Machines, p policy.Policy, ties *rand.Rand) *state {
	s := &state{machines: m, policy: p, ties: ties, nodes: m.nodes()}
	for range s.nodes {
		s.compute = append(s.compute, make([]int, m.GPUs))
	}
	s.shown.Nodes = slices.Clone(s.nodes)
	return s
}

// place gives the pod of an arrival a node, a GPU and a start; not ok if it fits nowhere.
func (s *state) place(a arrival) (at place, ok bool, err error) {
	s.rows = s.rows[:0]
	for i := range s.machines.Each {
		row := a.model*s.machines.Each + i
		if slices.ContainsFunc(s.nodes[row].Slices, a.profile.Fits) {
			s.rows = append(s.rows, int32(row))
		}
	}
	if len(s.rows) == 0 {
		return place{}, false, nil
	}
	defer s.show(a.profile)()
	pod := s.machines.pod(a)
	s.scores = slices.Grow(s.scores[:0], len(s.rows))[:len(s.rows)]
	if err := s.policy.Score(&s.shown, &pod, s.rows, s.scores); err != nil {
		return place{}, false, fmt.Errorf("score nodes: %w", err)
	}
	row := int(s.rows[s.choose()])
	if at, err = s.on(row, &pod); err != nil {
		return place{}, false, err
	}
	s.add(at, a.profile)
	return at, true, nil
}

// on returns where the policy puts a pod on the node of a row.
func (s *state) on(row int, pod *cluster.Pod) (place, error) {
	on := policy.Devices(s.policy, s.shown.Nodes[row], pod)
	gpu := bits.TrailingZeros64(uint64(on))
	if on.Len() != 1 || gpu >= s.machines.GPUs {
		return place{}, fmt.Errorf("%s chose the devices %b for a partition", s.policy.Name(), on)
	}
	used := s.nodes[row].Slices[gpu]
	start := policy.Start(s.policy, used, pod.Partition)
	if start < 0 || !slices.Contains(pod.Partition.Starts(), start) || used&pod.Partition.On(start) != 0 {
		return place{}, fmt.Errorf("%s put %d compute slices at %d on a GPU with the memory slices %08b in use", s.policy.Name(), pod.Partition.Compute(), start, used)
	}
	return place{row, gpu, start}, nil
}

// show makes the candidates show those GPUs as full that have room by their thousandths, but no place for the profile, as the
// scheduler's plugin does. The returned function undoes it.
func (s *state) show(p mig.Profile) (undo func()) {
	for _, row := range s.rows {
		n := s.nodes[row]
		var seen *cluster.Node
		for i, used := range n.Slices {
			if n.GPUs[i]+p.Milli() > cluster.DeviceMilli || p.Fits(used) {
				continue
			}
			if seen == nil {
				c := *n
				seen = &c
				seen.GPUs, seen.Version = slices.Clone(n.GPUs), cluster.NextVersion()
			}
			seen.GPUs[i] = cluster.DeviceMilli
		}
		if seen != nil {
			s.shown.Nodes[row] = seen
		}
	}
	return func() {
		for _, row := range s.rows {
			s.shown.Nodes[row] = s.nodes[row]
		}
	}
}

// choose returns the index of the best score.
func (s *state) choose() int {
	best, equal := policy.Best(s.scores), 0
	if s.ties == nil {
		return best
	}
	top := s.scores[best]
	for i, v := range s.scores {
		if v == top {
			if equal++; s.ties.IntN(equal) == 0 {
				best = i
			}
		}
	}
	return best
}

// add adds a partition at a place.
func (s *state) add(at place, p mig.Profile) {
	n := s.nodes[at.node]
	n.AddOn(requests(p), cluster.Device(at.gpu))
	s.change(at, p, 1)
}

// remove removes a partition from its place.
func (s *state) remove(at place, p mig.Profile) {
	n := s.nodes[at.node]
	n.GPUs[at.gpu] = cluster.DeviceMilli // thousandths of several partitions are rounded together
	n.Remove(requests(p), cluster.Device(at.gpu))
	s.change(at, p, -1)
}

func (s *state) change(at place, p mig.Profile, sign int) {
	n := s.nodes[at.node]
	n.Slices[at.gpu] ^= p.On(at.start)
	s.compute[at.node][at.gpu] += sign * p.Compute()
	s.used += sign * p.Compute()
	n.GPUs[at.gpu] = mig.Used(s.compute[at.node][at.gpu], n.Slices[at.gpu].Len())
}

// allocation returns which part of the compute slices is in use.
func (s *state) allocation() float64 { return float64(s.used) / float64(s.machines.compute()) }
