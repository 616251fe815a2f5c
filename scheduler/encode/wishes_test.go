package encode_test

import (
	"math"
	"slices"
	"testing"

	"gnnsched/gnn/feature"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/wish"
	"gnnsched/scheduler/sim"
)

// The set wishes holds a placement's reduction of each term, as the greedy policy computes it from the term, and the same times the term's
// share.
func TestWishesHaveTheGains(t *testing.T) {
	layout, err := feature.NewLayout([]string{"base", "whole", "wishes"})
	fatal.If(t, err)
	column := func(name string) int {
		return slices.IndexFunc(feature.List(layout.Candidate), func(f feature.Feature) bool { return f.Name == name })
	}
	s, err := eval.Find("family-power")
	fatal.If(t, err)
	env, err := sim.New(s.Config)
	fatal.If(t, err)
	fatal.If(t, env.Reset(1))
	shares := feature.Wishes{0.5, 0.3, 0.2}
	encoder := encode.New(layout)
	encoder.Wish(shares)
	compared := map[string]int{}
	for step := 0; !env.Done() && step < 300; step++ {
		rows := env.Candidates()
		g := encoder.Encode(env.Snapshot(), env.Pending(), rows)
		available := 0
		for _, n := range env.Snapshot().Nodes {
			if n.Available() {
				available++
			}
		}
		for k, name := range wish.Terms() {
			if step%20 != 0 {
				break
			}
			h, err := heuristic.Find("greedy:" + name)
			fatal.If(t, err)
			falls := make([]float32, len(rows))
			fatal.If(t, h.New(policy.Setting{}).Score(env.Snapshot(), env.Pending(), rows, falls))
			for i, fall := range falls { // times all nodes
				want := float64(fall) * float64(available) / float64(len(env.Snapshot().Nodes)) * feature.WishTerms[k].Unit
				got := float64(g.CandidateRow(i)[column("gain_"+name)])
				if math.Abs(got-max(min(want, 4), -4)) > 2e-3 {
					t.Fatalf("step %d, candidate %d: gain_%s is %v, want %v", step, i, name, got, want)
				}
				if part := float64(g.CandidateRow(i)[column(name+"_gain")]); math.Abs(part-got*float64(shares[k])) > 1e-6 {
					t.Fatalf("%s_gain is %v, gain %v", name, part, got)
				}
				if got != 0 {
					compared[name]++
				}
			}
		}
		env.Step(step % len(rows))
	}
	for _, name := range wish.Terms() {
		if compared[name] < 5 {
			t.Errorf("%s: %d values were compared", name, compared[name])
		}
	}
}

// The objective changes the features of the cluster and of the candidates, and nothing in another layout.
func TestObjectiveIsAnInput(t *testing.T) {
	s, err := eval.Find("family-power")
	fatal.If(t, err)
	env, err := sim.New(s.Config)
	fatal.If(t, err)
	fatal.If(t, env.Reset(1))
	for _, c := range []struct {
		sets  []string
		reads bool
	}{{[]string{"base", "whole"}, false}, {[]string{"base", "wishes"}, true}} {
		layout, err := feature.NewLayout(c.sets)
		fatal.If(t, err)
		encode := func(w feature.Wishes) (cluster, candidates []float32) {
			e := encode.New(layout)
			e.Wish(w)
			g := e.Encode(env.Snapshot(), env.Pending(), env.Candidates())
			return g.ClusterX, g.CandidateX
		}
		cluster, candidates := encode(feature.Wishes{1, 0, 0})
		otherCluster, otherCandidates := encode(feature.Wishes{0, 1, 0})
		if layout.Wishes != c.reads || slices.Equal(cluster, otherCluster) == c.reads || slices.Equal(candidates, otherCandidates) == c.reads {
			t.Errorf("%v: the objective is read: %v", c.sets, layout.Wishes)
		}
	}
}
