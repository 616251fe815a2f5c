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
