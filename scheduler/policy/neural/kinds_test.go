package neural_test

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/infer"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/sim"
)

// unseen returns the shipped network with zeros for the weights of what nodes send: how many more pods of a kind fit.
func unseen(t *testing.T) *checkpoint.Checkpoint {
	c, err := checkpoint.Shipped("kinds-gnn")
	fatal.If(t, err)
	names, w := feature.List(feature.KindBase.Node), c.Weights["node.weight"]
	for _, name := range []string{"free", "none_free", "places", "left", "per_expected"} {
		j := slices.IndexFunc(names, func(f feature.Feature) bool { return f.Name == name })
		for i := j; i < len(w.Data); i += len(names) {
			w.Data[i] = 0
		}
	}
	return c
}

// What nodes send to kinds of pods decides: without it, more pods wait, on held-out seeds of a scenario that nothing was trained on, beyond
// the 95 % interval of the difference.
func TestMessagesOfKindsDecide(t *testing.T) {
	s, err := eval.Find("scarce-zones")
	fatal.If(t, err)
	env, err := sim.New(s.Config)
	fatal.If(t, err)
	c, err := checkpoint.Shipped("kinds-gnn")
	fatal.If(t, err)
	var differences []float64
	for seed := uint64(301); seed < 313; seed++ {
		var waiting [2]float64
		for i, c := range []*checkpoint.Checkpoint{c, unseen(t)} {
			net, err := infer.New(c)
			fatal.If(t, err)
			o, err := eval.Play(env, seed, neural.New("kinds", net, nil), nil)
			fatal.If(t, err)
			waiting[i] = o.Waiting
		}
		differences = append(differences, waiting[1]-waiting[0])
	}
	mean, deviation := stat.MeanStdDev(differences, nil)
	if low := mean - 2.2*deviation/math.Sqrt(float64(len(differences))); low <= 0 {
		t.Errorf("without messages %.4f more of the cluster waits, at least %.4f", mean, low)
	}
}

// The network gives the same scores whether it has seen the decisions before or not, and others than the rule price in some.
func TestKindsDecisions(t *testing.T) {
	s, err := eval.Find("scarce8")
	fatal.If(t, err)
	env, err := sim.New(s.Config)
	fatal.If(t, err)
	fatal.If(t, env.Reset(1))
	c, err := checkpoint.Shipped("kinds-gnn")
	fatal.If(t, err)
	net, err := infer.New(c)
	fatal.If(t, err)
	h, err := heuristic.Find("price")
	fatal.If(t, err)
	kept, price, others := neural.New("kinds", net, nil), h.New(policy.Setting{}), 0
	for step := 0; !env.Done() && step < 400; step++ {
		rows := env.Candidates()
		scores, fresh, rule := make([]float32, len(rows)), make([]float32, len(rows)), make([]float32, len(rows))
		fatal.If(t, kept.Score(env.Snapshot(), env.Pending(), rows, scores))
		fatal.If(t, neural.New("kinds", net, nil).Score(env.Snapshot(), env.Pending(), rows, fresh))
		fatal.If(t, price.Score(env.Snapshot(), env.Pending(), rows, rule))
		for i := range scores {
			if d := math.Abs(float64(scores[i] - fresh[i])); d > 1e-3 {
				t.Fatalf("step %d: a score is %v, of a fresh policy %v", step, scores[i], fresh[i])
			}
		}
		choice := policy.Best(scores)
		if choice != policy.Best(rule) {
			others++
		}
		env.Step(choice)
	}
	if others == 0 {
		t.Error("each decision is that of the rule price")
	}
}
