//go:build torch

package torch

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/internal/fatal"
)

// A run that continues from exported moments and weights gives the same weights as an uninterrupted one.
func TestAdamGoesOn(t *testing.T) {
	run := func(stop int) []Array {
		n := newNetwork(t, 7, 4, 8)
		adam, err := newAdam(&n.params, adamConfig{LearningRate: 1e-2, beta1: 0.9, beta2: 0.999})
		fatal.If(t, err)
		for i := range 20 {
			if i == stop {
				weights, moments := export(t, &n.params), adam.Export()
				n = newNetwork(t, 8, 4, 8)
				if adam, err = newAdam(&n.params, adamConfig{LearningRate: 1e-2, beta1: 0.9, beta2: 0.999}); err != nil {
					t.Fatal(err)
				}
				fatal.If(t, n.params.Import(weights))
				fatal.If(t, adam.Import(moments))
			}
			step(t, n, adam, uint64(i))
		}
		return export(t, &n.params)
	}
	if d := cmp.Diff(run(-1), run(9)); d != "" {
		t.Errorf("unbroken (-) and broken (+) runs differ:\n%s", d)
	}
}

func TestAdamRefusesOthersMoments(t *testing.T) {
	a, b := newNetwork(t, 1, 3, 4), newNetwork(t, 1, 3, 5)
	from, err := newAdam(&a.params, usualAdam())
	fatal.If(t, err)
	to, err := newAdam(&b.params, usualAdam())
	fatal.If(t, err)
	if to.Import(from.Export()) == nil || to.Import(nil) == nil {
		t.Error("moments of another network were taken")
	}
}
