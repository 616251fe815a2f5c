package policy

import (
	"math/rand/v2"

	"gnnsched/internal/cluster"
)

// Random scores at random: every candidate is as likely as any other, and so is every GPU
// device with room for a share.
type Random struct{ rng *rand.Rand }

// NewRandom returns a policy that draws from rng, which must not be used elsewhere at the
// same time.
func NewRandom(rng *rand.Rand) *Random { return &Random{rng} }

// Name implements Policy.
func (*Random) Name() string { return "random" }

// Devices implements DeviceChooser.
func (r *Random) Devices(n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet {
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

// Score implements Policy.
func (r *Random) Score(_ *cluster.Snapshot, _ *cluster.Pod, _ []int32, scores []float32) error {
	for i := range scores {
		scores[i] = r.rng.Float32()
	}
	return nil
}
