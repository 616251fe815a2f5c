package policy

import (
	"math/rand/v2"

	"gnnsched/scheduler/cluster"
)

// Random scores at random: every candidate is as likely as any other.
type Random struct{ rng *rand.Rand }

// NewRandom returns a policy that draws from rng, which must not be used elsewhere at the
// same time.
func NewRandom(rng *rand.Rand) *Random { return &Random{rng} }

// Name implements Policy.
func (*Random) Name() string { return "random" }

// Score implements Policy.
func (r *Random) Score(_ *cluster.Snapshot, _ *cluster.Pod, _ []int32, scores []float32) error {
	for i := range scores {
		scores[i] = r.rng.Float32()
	}
	return nil
}
