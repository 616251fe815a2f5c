//go:build torch

package learn

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/torch"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/sim"
)

// Without a teacher, PPO goes from an untrained network to one well below it and below chance,
// on workloads that it never saw, and the same seed gives the same weights.
func TestPPOImprovesAndRepeats(t *testing.T) {
	c := tiny(t, "acdqn")
	c.Hidden, c.Steps, c.EvaluateEvery, c.EvaluateSeeds = 16, 12_000, 6_000, 4
	c.Gamma, c.LearningRate, c.BatchSize, c.PPO.Envs, c.PPO.Rollout = 0, 3e-3, 128, 8, 64
	c.Imitation = Imitation{}
	var files [2][]byte
	for i := range files {
		tr, held := trainer(t, c)
		before := torch.Live()
		files[i] = finish(t, tr, context.Background())
		if left := torch.Live() - before; left != 0 {
			t.Errorf("%d tensors are left over", left)
		}
		random, err := held.Evaluate(heuristic.NewRandom(rand.New(rand.NewPCG(1, 2))), false)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("held-out score %+v, by chance %+v", tr.bestScore, random)
		if tr.bestScore.Cost > 0.8*random.Cost {
			t.Errorf("trained %v, by chance %v", tr.bestScore, random)
		}
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("the same seed gave other weights")
	}
}

func newPPO(t *testing.T, c Config) *PPO {
	t.Helper()
	p, err := NewPPO(c, checkpoint.Random(c.architecture(), rand.New(rand.NewPCG(3, 4))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.net.Drop)
	return p
}

// bandit is a rollout of one decision over and over, in which action 1 alone pays. The
// teacher would take action 2.
func bandit(t *testing.T, p *PPO, rng *rand.Rand, g *graph.Graph) *rollout {
	t.Helper()
	out, err := plain(t, p.net).NewSession().Score(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newRollout(64)
	for i := range r.states {
		r.states[i], r.teacher[i], r.last[i], r.values[i] = g, 2, true, float64(out.Value)
		r.actions[i], r.logs[i] = policy.Sample(rng, out.Scores)
		if r.rewards[i] = 0; r.actions[i] == 1 {
			r.rewards[i] = 1
		}
	}
	r.judge([]float64{0}, 0.9, 0.9)
	return r
}

// probability is that of an action, and the value of the state.
func probability(t *testing.T, p *PPO, g *graph.Graph, action int) (chance, value float64) {
	t.Helper()
	out, err := plain(t, p.net).NewSession().Score(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, v := range out.Scores {
		total += math.Exp(float64(v))
	}
	return math.Exp(float64(out.Scores[action])) / total, float64(out.Value)
}

// Each phase moves what it is to move: cloning the teacher's choice, the warm-up the value
// alone, PPO what pays.
func TestPhasesOfPPO(t *testing.T) {
	c := tiny(t, "acdqn")
	c.Steps, c.Imitation.Share, c.Imitation.Warmup, c.Imitation.Coefficient = 300, 0.2, 0.2, 0
	c.LearningRate, c.PPO.TargetKL, c.PPO.Entropy = 5e-3, 0, 0
	p, g, rng := newPPO(t, c), episodeGraph(t), rand.New(rand.NewPCG(5, 6))
	var f figures
	learn := func(step int) {
		for range 10 {
			if err := p.update(bandit(t, p, rng, g), rng, step, &f); err != nil {
				t.Fatal(err)
			}
		}
	}
	learn(0)
	cloned, _ := probability(t, p, g, 2)
	if cloned < 0.5 {
		t.Errorf("after cloning the teacher's choice has the probability %v", cloned)
	}
	learn(70)
	still, value := probability(t, p, g, 2)
	if still != cloned {
		t.Errorf("the warm-up moved the policy from %v to %v", cloned, still)
	}
	pays, _ := probability(t, p, g, 1)
	if math.Abs(value-pays) > 0.1 {
		t.Errorf("after the warm-up the value is %v, the policy is paid %v", value, pays)
	}
	for range 5 {
		learn(150)
	}
	if chance, _ := probability(t, p, g, 1); chance < 2*pays || chance < 0.2 {
		t.Errorf("PPO moved what pays from %v to %v", pays, chance)
	}
}

// A policy that has moved too far ends the updates of a rollout.
func TestKLStops(t *testing.T) {
	c := tiny(t, "acdqn")
	c.Imitation = Imitation{}
	c.LearningRate, c.PPO.Epochs, c.PPO.TargetKL = 0.05, 50, 0.01
	p, g, rng := newPPO(t, c), episodeGraph(t), rand.New(rand.NewPCG(5, 6))
	var f figures
	if err := p.update(bandit(t, p, rng, g), rng, 0, &f); err != nil {
		t.Fatal(err)
	}
	looks, steps := int(f.means[TagKL].n), p.adam.Export()[0].Steps
	if looks < 2 || looks > 50 || steps != looks-1 {
		t.Errorf("%d looks at the policy, %d steps; the last look is to come before the step that it forbids", looks, steps)
	}
}

// Where the critic is apart, however large its gradient, the policy takes the same steps.
func TestCriticDoesNotClipThePolicy(t *testing.T) {
	learned := func(apart bool, weight float64) []float32 {
		c := tiny(t, "acdqn")
		c.Imitation = Imitation{}
		c.LearningRate, c.PPO.TargetKL, c.PPO.Epochs, c.ClipNorm = 5e-3, 0, 3, 0.5
		c.PPO.CriticApart, c.PPO.ValueCoef = apart, weight
		p, g, rng := newPPO(t, c), episodeGraph(t), rand.New(rand.NewPCG(5, 6))
		var f figures
		if err := p.update(bandit(t, p, rng, g), rng, 0, &f); err != nil {
			t.Fatal(err)
		}
		out, err := plain(t, p.net).NewSession().Score(g, nil)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Clone(out.Scores)
	}
	if a, b := learned(true, 0.5), learned(true, 500); !slices.Equal(a, b) {
		t.Errorf("a heavier critic moved the policy: %v, %v", a, b)
	}
	if a, b := learned(false, 0.5), learned(false, 500); slices.Equal(a, b) {
		t.Error("the two share layers, but the critic's weight makes no difference")
	}
}

// Where one environment of a group ends, the others are cut: what comes after their last
// placement is worth what the network says, and only what has ended is worth nothing.
func TestCutEpisodesAreBootstrapped(t *testing.T) {
	c := tiny(t, "acgnn")
	c.Imitation = Imitation{}
	c.Steps, c.PPO.Envs, c.PPO.Group, c.PPO.Rollout, c.Gamma, c.PPO.Lambda = 1000, 4, 4, 2000, 0.5, 0
	env := smallEnv()
	env.Turnover, env.Load = 1, sim.FloatRange{Min: 0.97, Max: 0.99} // full: the environments do not end together
	start := checkpoint.Random(c.architecture(), rand.New(rand.NewPCG(3, 4)))
	var f figures
	made, err := newAgent(c, env, start, &f)
	if err != nil {
		t.Fatal(err)
	}
	p := made.(*ppoAgent)
	defer p.drop()
	if err := p.walk(0, p.walkers, 0); err != nil {
		t.Fatal(err)
	}
	r := p.rollout
	r.judge(p.after, c.Gamma, c.PPO.Lambda)
	ended, cut := 0, 0
	replay(t, c, env, r, func(i int, after *sim.Env) {
		worth := 0.0
		if after.Done() {
			ended++
		} else {
			cut++
			out, err := plain(t, p.learner.net).NewSession().Score(encode.New().Encode(after.Snapshot(), after.Pending(), after.Candidates()), nil)
			if err != nil {
				t.Fatal(err)
			}
			worth = float64(out.Value)
		}
		if want := r.rewards[i] + c.Gamma*worth; math.Abs(r.returns[i]-want) > 1e-4 {
			t.Errorf("placement %d: return %v, want %v", i, r.returns[i], want)
		}
	})
	if ended == 0 || cut == 0 {
		t.Fatalf("%d episodes ended, %d were cut: the test is about both", ended, cut)
	}
	if n := f.means[TagReturn].n; int(n) != ended+cut {
		t.Errorf("%v episodes were told of; %d ended, %d were cut", n, ended, cut)
	}
}

// replay plays the episodes of a rollout of one group again, and calls last after the last
// placement of each.
func replay(t *testing.T, c Config, env sim.Config, r *rollout, last func(i int, after *sim.Env)) {
	t.Helper()
	twin, seed := started(t, env), uint64(0)
	for i, action := range r.actions {
		if i%c.PPO.Rollout == 0 {
			seed = c.Seed << 32
		}
		if i%c.PPO.Rollout == 0 || r.last[i-1] {
			seed++
			if err := twin.Reset(seed); err != nil {
				t.Fatal(err)
			}
		}
		if twin.Step(action); r.last[i] {
			last(i, twin)
		}
	}
}
