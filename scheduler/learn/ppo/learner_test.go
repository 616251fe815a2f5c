//go:build torch

package ppo

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/gnn/torch"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/learn/learntest"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/policy"
)

// tiny returns the settings of a run of a second or two, without a teacher.
func tiny() settings {
	c := settings{run.Settings{
		Hidden: 8, Steps: 1200, Seed: 1, Gamma: 0.99, LearningRate: 2e-3, BatchSize: 32, ClipNorm: 5,
		Reward: run.Reward{Kind: run.ShapedReward, Scale: 10},
	}, Defaults()}
	c.Envs, c.Group, c.Rollout = 4, 2, 24
	return c
}

func weights(c settings, e checkpoint.Encoder) *checkpoint.Checkpoint {
	return learntest.Weights(checkpoint.Architecture{Encoder: e, Head: checkpoint.ActorCritic, Hidden: c.Hidden}, 3)
}

func plain(t *testing.T, n *torch.Network) *infer.Network {
	t.Helper()
	c, err := n.Checkpoint()
	fatal.If(t, err)
	return learntest.Network(t, c)
}

func learnerOf(t *testing.T, c settings) *learner {
	t.Helper()
	p, err := newLearner(c, weights(c, checkpoint.MLP))
	fatal.If(t, err)
	t.Cleanup(p.Net.Drop)
	return p
}

// bandit returns a rollout that repeats one decision. Only action 1 has a reward. The teacher would
// take action 2.
func bandit(t *testing.T, p *learner, rng *rand.Rand, g *graph.Graph) rollout {
	t.Helper()
	out, err := plain(t, p.Net).NewSession().Score(g, nil)
	fatal.If(t, err)
	r := make(rollout, 64)
	for i := range r {
		s := &r[i]
		s.state, s.teacher, s.last, s.value = g, 2, true, float64(out.Value)
		if s.action, s.log = policy.Sample(rng, out.Scores); s.action == 1 {
			s.reward = 1
		}
	}
	r.estimate([]float64{0}, 0.9, 0.9)
	return r
}

// probability returns the probability of an action, and the value of the state.
func probability(t *testing.T, p *learner, g *graph.Graph, action int) (chance, value float64) {
	t.Helper()
	out, err := plain(t, p.Net).NewSession().Score(g, nil)
	fatal.If(t, err)
	total := 0.0
	for _, v := range out.Scores {
		total += math.Exp(float64(v))
	}
	return math.Exp(float64(out.Scores[action])) / total, float64(out.Value)
}

// Cloning raises the probability of the teacher's choice, the warm-up changes only the value, and PPO
// raises the probability of the action with the reward.
func TestPhasesOfPPO(t *testing.T) {
	c := tiny()
	c.Steps, c.Imitation = 300, run.Imitation{Share: 0.2, Warmup: 0.2}
	c.LearningRate, c.TargetKL, c.Entropy = 5e-3, 0, 0
	p, g, rng := learnerOf(t, c), learntest.Graph(t), rand.New(rand.NewPCG(5, 6))
	var f run.Figures
	learn := func(step int) {
		for range 10 {
			fatal.If(t, p.update(bandit(t, p, rng, g), rng, step, &f))
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
		t.Errorf("after the warm-up the value is %v, the mean reward is %v", value, pays)
	}
	for range 5 {
		learn(150)
	}
	if chance, _ := probability(t, p, g, 1); chance < 2*pays || chance < 0.2 {
		t.Errorf("PPO moved what pays from %v to %v", pays, chance)
	}
}

// The updates of a rollout end once the policy has moved too far.
func TestKLStops(t *testing.T) {
	c := tiny()
	c.LearningRate, c.Epochs, c.TargetKL = 0.05, 50, 0.01
	p, g, rng := learnerOf(t, c), learntest.Graph(t), rand.New(rand.NewPCG(5, 6))
	var f run.Figures
	fatal.If(t, p.update(bandit(t, p, rng, g), rng, 0, &f))
	looks, steps := f.Count(tagKL), p.Adam.Export()[0].Steps
	if looks < 2 || looks > 50 || steps != looks-1 {
		t.Errorf("%d measurements of the policy, %d steps; the last measurement must come before the step that it forbids", looks, steps)
	}
}

// If the critic is apart, the size of its gradient does not change the steps of the policy.
func TestCriticDoesNotClipThePolicy(t *testing.T) {
	learned := func(apart bool, weight float64) []float32 {
		c := tiny()
		c.LearningRate, c.TargetKL, c.Epochs, c.ClipNorm = 5e-3, 0, 3, 0.5
		c.CriticApart, c.ValueCoef = apart, weight
		p, g, rng := learnerOf(t, c), learntest.Graph(t), rand.New(rand.NewPCG(5, 6))
		var f run.Figures
		fatal.If(t, p.update(bandit(t, p, rng, g), rng, 0, &f))
		out, err := plain(t, p.Net).NewSession().Score(g, nil)
		fatal.If(t, err)
		return slices.Clone(out.Scores)
	}
	if a, b := learned(true, 0.5), learned(true, 500); !slices.Equal(a, b) {
		t.Errorf("a heavier critic moved the policy: %v, %v", a, b)
	}
	if a, b := learned(false, 0.5), learned(false, 500); slices.Equal(a, b) {
		t.Error("the two share layers, but the critic's weight makes no difference")
	}
}
