package trial

import (
	"context"
	"errors"
	"slices"
	"testing"

	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/learn/cem"
	"gnnsched/scheduler/policy/partition"
)

func brief() config {
	c := defaultConfig()
	c.MIG.Machines = 2
	c.Generations, c.Population, c.Episodes = 8, 16, 8
	return c
}

// After a moment's training, the values leave less idle than FGD, with which it begins, on workloads that it has not seen. The same
// configuration gives the same values, and another seed gives others.
func TestTrain(t *testing.T) {
	c, generations := brief(), 0
	v, weights, err := train(t.Context(), c, func(cem.Generation) { generations++ })
	fatal.If(t, err)
	if again, _, err := train(t.Context(), c, nil); err != nil || *again != *v || generations != c.Generations {
		t.Errorf("%d generations, two runs differ: %v, %v", generations, *again != *v, err)
	}
	other := c
	other.Seed = 2
	if _, w, err := train(t.Context(), other, nil); err != nil || slices.Equal(w, weights) {
		t.Errorf("another seed gives the same weights: %v", err)
	}
	var ours, fgd float64
	first := make([]float64, len(mig.Features))
	first[0] = 1 // FGD
	for seed := uint64(1 << 40); seed < 1<<40+60; seed++ {
		for values, sum := range map[*partition.Values]*float64{v: &ours, partition.Weighted(first): &fgd} {
			loss, err := c.loss(t.Context(), values, seed)
			fatal.If(t, err)
			*sum += loss / 60
		}
	}
	if ours >= fgd {
		t.Errorf("%.4f is idle, with FGD %.4f", ours, fgd)
	}
	t.Logf("%.4f is idle, with FGD %.4f", ours, fgd)
}

func TestTrainRefuses(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := train(ctx, brief(), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	for _, edit := range []func(*config){func(c *config) { c.Seed = 0 }, func(c *config) { c.Population = 3 },
		func(c *config) { c.Generations = 0 }} {
		c := brief()
		edit(&c)
		if _, _, err := train(t.Context(), c, nil); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}
