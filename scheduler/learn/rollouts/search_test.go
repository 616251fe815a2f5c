package rollouts

import (
	"math/rand/v2"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/each"
)

// Generations find the lowest point of a bowl, although each loss has noise as large as what there is to win.
func TestMove(t *testing.T) {
	c, rng := EvolutionDefaults(), rand.New(rand.NewPCG(1, 2))
	best := []float64{0.3, -0.2, 0, 0.5}
	s := search{make([]float64, len(best)), make([]float64, len(best))}
	far := func(weights []float64) (sum float64) {
		for i, w := range weights {
			sum += (w - best[i]) * (w - best[i])
		}
		return sum
	}
	before := far(s.Slow)
	for range 300 {
		noise, tries := s.tries(rng, c)
		losses := each.Map(tries, func(w []float64) float64 { return far(w) + 0.05*rng.NormFloat64() })
		s.move(noise, losses, 1, c.Averaging)
	}
	if after := far(s.Slow); after > before/10 {
		t.Errorf("the weights %v are %.3f from the best, %.3f at the start", s.Slow, after, before)
	}
}

// Networks that all lose the same say nothing.
func TestMoveWithoutDifference(t *testing.T) {
	c := EvolutionDefaults()
	s := search{[]float64{1, 2}, []float64{1, 2}}
	noise, tries := s.tries(rand.New(rand.NewPCG(1, 2)), c)
	s.move(noise, make([]float64, len(tries)), 1, c.Averaging)
	if s.Mean[0] != 1 || s.Slow[1] != 2 {
		t.Errorf("the weights moved to %v", s)
	}
}

// Only the named parameters change, and the network before stays as it was.
func TestWith(t *testing.T) {
	a := checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.DQN, Hidden: 8, Features: []string{"base", "rule"}, Residual: true}
	c := checkpoint.Random(a, rand.New(rand.NewPCG(1, 2)))
	learned := EvolutionDefaults().learned(a)
	s := newSearch(c, learned)
	fingerprint := c.Fingerprint()
	weights := make([]float64, len(s.Mean))
	changed := with(c, learned, weights)
	if c.Fingerprint() != fingerprint {
		t.Error("the network that it began with changed")
	}
	same := with(changed, learned, s.Mean)
	if same.Fingerprint() != fingerprint || changed.Fingerprint() == fingerprint {
		t.Error("the weights of the named parameters are not those given")
	}
	if err := EvolutionDefaults().Check(checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.DQN, Hidden: 8}); err == nil {
		t.Error("a network without a residual has nothing to learn")
	}
}
