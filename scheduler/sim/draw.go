package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"

	"gnnsched/scheduler/cluster"
	"gnnsched/workload"
)

// What of an episode is drawn from which stream of random numbers, so that a change to one
// leaves the others as they are.
const (
	streamCluster = 1 + iota
	streamInitial
	streamWorkload
	streamLifetimes
)

// stream is the stream's source. The generator of package workload uses the seed with small
// stream numbers; these are far from them.
func stream(seed, n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n<<32)) }

func (r IntRange) draw(rng *rand.Rand) int { return r.Min + rng.IntN(r.Max-r.Min+1) }

func (r FloatRange) draw(rng *rand.Rand) float64 { return r.Min + rng.Float64()*(r.Max-r.Min) }

// some draws as many of list as kinds says, keeping their order; all where it is zero.
func some[T any](rng *rand.Rand, kinds IntRange, list []T) []T {
	if kinds == (IntRange{}) {
		return list
	}
	rows := rng.Perm(len(list))[:kinds.draw(rng)]
	slices.Sort(rows)
	out := make([]T, len(rows))
	for i, r := range rows {
		out[i] = list[r]
	}
	return out
}

// weighted draws an index with probabilities proportional to weight.
func weighted[T any](rng *rand.Rand, list []T, weight func(T) float64) int {
	var total float64
	for _, x := range list {
		total += weight(x)
	}
	at := rng.Float64() * total
	for i, x := range list {
		if at -= weight(x); at < 0 {
			return i
		}
	}
	return len(list) - 1
}

// epoch makes the generations of nodes differ between any two episodes of a process, so that
// a policy that keeps what it derived from a node never takes one episode's for another's.
var epoch atomic.Int64

// drawNodes makes the cluster of an episode, with nothing running.
func (c *Config) drawNodes(seed uint64) []*cluster.Node {
	rng := stream(seed, streamCluster)
	generation := epoch.Add(1) << 32
	count, zones := c.Nodes.draw(rng), c.Zones.draw(rng)
	sizes := some(rng, c.SizeKinds, c.Sizes)
	nodes := make([]*cluster.Node, 0, count+1)
	if c.ControlPlane {
		nodes = append(nodes, &cluster.Node{
			Name: "control-plane-0", Allocatable: sizes[0].Allocatable, Generation: generation,
			Taints: []cluster.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: cluster.NoSchedule}},
		})
	}
	for i := range count {
		n := &cluster.Node{
			Name: "node-" + strconv.Itoa(i), Generation: generation,
			Allocatable: sizes[weighted(rng, sizes, func(s NodeSize) float64 { return s.Weight })].Allocatable,
			Groups:      make([]cluster.Group, 0, len(c.Shapes)),
		}
		if zones > 0 {
			n.Zone = fmt.Sprintf("zone-%d", rng.IntN(zones))
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// drawInitial puts pods on the nodes that stay for the whole episode.
func (c *Config) drawInitial(seed uint64, nodes []*cluster.Node, shapes []workload.Shape) {
	if c.Initial == 0 {
		return
	}
	rng := stream(seed, streamInitial)
	for _, n := range nodes {
		upTo := rng.Float64() * c.Initial
		for misses := 0; misses < 3; {
			s := shapes[weighted(rng, shapes, func(s workload.Shape) float64 { return s.Weight })]
			with := workload.LoadOf(n.Requested.Plus(s.Requests), n.Allocatable)
			p := cluster.Pod{Requests: s.Requests, NodeSelector: s.NodeSelector, Tolerations: s.Tolerations}
			if max(with.CPU, with.Memory, with.Pods) > upTo || n.Fit(&p) != cluster.Fits {
				misses++
				continue
			}
			n.Add(s.Requests)
		}
	}
}
