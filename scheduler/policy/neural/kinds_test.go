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

// variants are the shipped networks on the graph of kinds.
var variants = []string{"gnn", "dqn", "acgnn", "acdqn"}

func shipped(t *testing.T, variant string) *infer.Network {
	t.Helper()
	c := fatal.Value(checkpoint.Shipped(variant))(t)
	return fatal.Value(infer.New(c))(t)
}

// muted returns a shipped network with zeros for the weights that read the features of the given names; without names, all features of kinds,
// so that every place has one price.
func muted(t *testing.T, variant string, features ...string) *infer.Network {
	c := fatal.Value(checkpoint.Shipped(variant))(t)
	names := feature.List(feature.KindBase.Node)
	for _, prefix := range []string{"", checkpoint.ActorPrefix} {
		w := c.Weights[prefix+"node.weight"]
		for i := range w.Data {
			if len(features) == 0 || slices.Contains(features, names[i%len(names)].Name) {
				w.Data[i] = 0
			}
		}
	}
	return fatal.Value(infer.New(c))(t)
}

// worse returns how much more of the cluster waits with one network than with another, at least: the lower end of the 95 % interval, on
// held-out seeds of a scenario that nothing was trained on.
func worse(t *testing.T, scenario string, than, with *infer.Network) float64 {
	t.Helper()
	s := fatal.Value(eval.Find(scenario))(t)
	env := fatal.Value(sim.New(s.Config))(t)
	var differences []float64
	for seed := uint64(301); seed < 313; seed++ {
		var waiting [2]float64
		for i, net := range []*infer.Network{than, with} {
			o := fatal.Value(eval.Play(env, seed, neural.New("kinds", net, nil), nil))(t)
			waiting[i] = o.Waiting
		}
		differences = append(differences, waiting[1]-waiting[0])
	}
	mean, deviation := stat.MeanStdDev(differences, nil)
	return mean - 2.2*deviation/math.Sqrt(float64(len(differences)))
}

// What nodes send to kinds of pods decides: without it, more pods wait.
func TestMessagesOfKindsDecide(t *testing.T) {
	for _, variant := range []string{"gnn", "acgnn"} {
		silent := muted(t, variant, "free", "none_free", "places", "left", "per_expected", "breadth")
		if low := worse(t, "scarce", shipped(t, variant), silent); low <= 0 {
			t.Errorf("%s: without messages at least %.4f more of the cluster waits", variant, low)
		}
	}
}

// Every variant decides: with one price for all places, more pods wait.
func TestNetworksOfKindsDecide(t *testing.T) {
	for _, variant := range variants {
		if low := worse(t, "scarce-arch", shipped(t, variant), muted(t, variant)); low <= 0 {
			t.Errorf("%s: with one price at least %.4f more of the cluster waits", variant, low)
		}
	}
}

// A network gives the same scores whether it has seen the decisions before or not, and others than the rule price in some.
func TestKindsDecisions(t *testing.T) {
	for _, variant := range variants {
		decides(t, variant)
	}
}

func decides(t *testing.T, variant string) {
	t.Helper()
	s := fatal.Value(eval.Find("scarce-arch"))(t)
	env := fatal.Value(sim.New(s.Config))(t)
	fatal.If(t, env.Reset(1))
	net := shipped(t, variant)
	h := fatal.Value(heuristic.Find("price"))(t)
	kept, price, others := neural.New("kinds", net, nil), h.New(policy.Setting{}), 0
	for step := 0; !env.Done() && step < 400; step++ {
		rows := env.Candidates()
		scores, fresh, rule := make([]float32, len(rows)), make([]float32, len(rows)), make([]float32, len(rows))
		fatal.If(t, kept.Score(env.Snapshot(), env.Pending(), rows, scores))
		fatal.If(t, neural.New("kinds", net, nil).Score(env.Snapshot(), env.Pending(), rows, fresh))
		fatal.If(t, price.Score(env.Snapshot(), env.Pending(), rows, rule))
		for i := range scores {
			if d := math.Abs(float64(scores[i] - fresh[i])); d > 1e-3 {
				t.Fatalf("%s, step %d: a score is %v, of a fresh policy %v", variant, step, scores[i], fresh[i])
			}
		}
		choice := policy.Best(scores)
		if choice != policy.Best(rule) {
			others++
		}
		env.Step(choice)
	}
	if others == 0 {
		t.Errorf("%s: each decision is that of the rule price", variant)
	}
}
