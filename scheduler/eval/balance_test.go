package eval

import (
	"math"
	"testing"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/sim"
)

// The more weight balance has, the more even nodes are; with much, linear decides.
func TestBalanceWeight(t *testing.T) {
	const seed = 7
	env := fatal.Value(sim.New(fatal.Value(Find("hetero70"))(t).Config))(t)
	imbalance := func(name string) float64 {
		h := fatal.Value(heuristic.Find(name))(t)
		return fatal.Value(Play(env, seed, h.New(policy.Setting{}), nil))(t).MeanCost
	}
	for _, name := range []string{"price", "gnn"} {
		little, some, much := imbalance("balance+"+name+":0.015"), imbalance("balance+"+name+":0.5"), imbalance("balance+"+name+":1e6")
		if !(little > some && some > much) || math.Abs(much-imbalance("linear")) > 0.01*much {
			t.Errorf("%s: imbalance %v, %v and %v with more and more weight on balance, %v under linear", name, little, some, much, imbalance("linear"))
		}
	}
	if usual, same := imbalance("price"), imbalance("balance+price:0.015"); usual != same {
		t.Errorf("imbalance %v without a weight, %v with the usual one", usual, same)
	}
}
