package heuristic

import (
	"math/rand/v2"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy"
)

var random = Heuristic{
	Name:        "random",
	About:       "any node, with equal probability",
	New:         func(s policy.Setting) policy.Policy { return NewRandom(rand.New(rand.NewPCG(s.Seed, randomStream))) },
	NotImitable: hasState,
}

// randomStream separates the random numbers of this policy from others of the same seed.
const randomStream = 0x72616e64

// uniform scores at random, so that every candidate is equally likely to win.
type uniform struct{ rng *rand.Rand }

// NewRandom returns the policy that chooses nodes, and devices with room for a share, with equal
// probability. It draws from rng, which must not be used elsewhere at the same time.
func NewRandom(rng *rand.Rand) policy.DeviceChooser { return &uniform{rng} }

// Name implements policy.Policy.
func (*uniform) Name() string { return "random" }

// Score implements policy.Policy.
func (r *uniform) Score(_ *cluster.Snapshot, _ *cluster.Pod, _ []int32, scores []float32) error {
	for i := range scores {
		scores[i] = r.rng.Float32()
	}
	return nil
}

// Devices implements policy.DeviceChooser.
func (r *uniform) Devices(n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet {
	on := n.ChooseDevices(pod.Requests)
	if pod.Requests.GPUMilli == 0 || on == 0 {
		return on
	}
	fitting := 0
	for i, used := range n.GPUs {
		if used+pod.Requests.GPUMilli > cluster.DeviceMilli {
			continue
		}
		if fitting++; r.rng.IntN(fitting) == 0 {
			on = cluster.Device(i)
		}
	}
	return on
}

var roundRobin = Heuristic{
	Name:        "round-robin",
	About:       "the nodes in turn",
	New:         func(policy.Setting) policy.Policy { return &inTurn{} },
	NotImitable: hasState,
}

// inTurn takes the nodes in turn, in the snapshot's order: the first candidate after the node that
// scored best last time, which it assumes was chosen. When nodes join or leave, it continues at the
// same place in the list, so it may skip a node or repeat one.
type inTurn struct{ next int }

// Name implements policy.Policy.
func (*inTurn) Name() string { return "round-robin" }

// Score implements policy.Policy. The score is minus the number of nodes until the candidate's
// turn.
func (r *inTurn) Score(s *cluster.Snapshot, _ *cluster.Pod, candidates []int32, scores []float32) error {
	nodes := len(s.Nodes)
	for i, v := range candidates {
		away := int(v) - r.next
		if away < 0 {
			away += nodes
		}
		scores[i] = float32(-away)
	}
	if best := policy.Best(scores); best >= 0 {
		r.next = (int(candidates[best]) + 1) % nodes
	}
	return nil
}
