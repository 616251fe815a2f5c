package sim

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
)

// The state at a load is the one at the end of an episode that ends there.
func TestGPULoads(t *testing.T) {
	loads := []float64{0.3, 0.6, 0.9, 1, 1.3, 2}
	played := func(t *rapid.T, seed uint64, factor float64) *GPUOutcome {
		cfg := openbConfig(new(testing.T), factor)
		cfg.OpenB.Loads = loads
		e, err := New(cfg)
		fatal.If(t, err)
		fatal.If(t, e.Reset(seed))
		for !e.Done() {
			e.Step(0)
		}
		return e.Outcome().GPU
	}
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		all := played(t, seed, 2).Loads
		if len(all) != len(loads) {
			t.Fatalf("%d loads of %d", len(all), len(loads))
		}
		for i, load := range loads {
			o := played(t, seed, load)
			if len(o.Loads) <= i {
				t.Fatalf("%d loads by %v", len(o.Loads), load)
			}
			whole := 0
			for class := classOne; class <= classEight; class++ {
				whole += all[i].Left[class]
			}
			if d := cmp.Diff(o.Loads[i], all[i]); d != "" || all[i].Allocation != o.Allocation || all[i].Left[classShare] != o.UnscheduledShare ||
				whole != o.UnscheduledWhole {
				t.Fatalf("at %v: %+v, want %+v", load, all[i], o)
			}
		}
	})
}

func TestClassOf(t *testing.T) {
	for class, gpus := range map[int][]int64{-1: {0}, classOne: {1}, classTwo: {2, 3}, classFour: {4, 7}, classEight: {8, 16}} {
		for _, n := range gpus {
			if got := classOf(cluster.Resources{GPU: n}); got != class {
				t.Errorf("%d GPUs: class %d, want %d", n, got, class)
			}
		}
	}
	if got := classOf(cluster.Resources{GPUMilli: 300}); got != classShare {
		t.Errorf("a share: class %d", got)
	}
}
