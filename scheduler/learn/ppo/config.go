package ppo

import (
	"fmt"

	"gnnsched/gnn/checkpoint"
	"gnnsched/scheduler/learn/run"
)

// Config holds the hyperparameters of proximal policy optimisation that other methods do not have.
type Config struct {
	Envs int `json:"envs"` // number of the simulator's clusters side by side
	// Group is how many environments play the same episodes. The advantage of a decision is then
	// relative to the mean over the group at the same time. That takes out most of the noise,
	// which comes from the arrivals that they share (Mao et al. 2019, input-driven environments).
	Group   int `json:"group"`   // number of these that play the same episodes, so that their advantages can be compared; 1 for no comparison
	Rollout int `json:"rollout"` // placements in each of these clusters between updates
	Epochs  int `json:"epochs"`  // number of passes over a rollout

	ActorLearningRate  float64 `json:"actorLearningRate" flag:"actor-learning-rate" usage:"learning rate of all but the critic's own layers; 0 for --learning-rate"`
	CriticLearningRate float64 `json:"criticLearningRate" flag:"critic-learning-rate" usage:"learning rate of the critic's own layers; 0 for --learning-rate"`
	// CriticApart keeps the critic's gradient out of the layers that it shares with the policy.
	// It is by far the larger one there, and Adam would scale the policy's steps down with it.
	CriticApart bool `json:"criticApart"` // keep the critic's gradient out of the layers that it shares with the policy

	Lambda    float64 `json:"lambda"`           // lambda of generalised advantage estimation
	Clip      float64 `json:"clip"`             // how far updates may move the probability of an action, as a ratio
	ValueClip float64 `json:"valueClip"`        // how far updates may move a value; 0 for no limit
	ValueCoef float64 `json:"valueCoefficient"` // weight of the critic's loss
	Entropy   float64 `json:"entropy"`          // bonus for the policy's entropy at the start; it falls linearly to 0
	TargetKL  float64 `json:"targetKL"`         // KL divergence from the rollout's policy at which its updates end; 0 for no limit
}

// Defaults returns the values that a run starts from.
func Defaults() Config {
	return Config{
		Envs: 32, Group: 8, Rollout: 128, Epochs: 4, CriticApart: true,
		Lambda: 0.97, Clip: 0.2, ValueCoef: 0.5, Entropy: 0.001, TargetKL: 0.02,
	}
}

// Name returns the method's name in a sentence.
func (Config) Name() string { return "the actor-critic" }

// Check returns an error about a network that is no actor-critic.
func (Config) Check(a checkpoint.Architecture) error {
	if a.Head != checkpoint.ActorCritic {
		return fmt.Errorf("method: PPO trains networks of the head %s, and this one has %s; choose dqn or rollouts",
			checkpoint.ActorCritic, a.Head)
	}
	return nil
}

// Online returns the hyperparameters for online learning: without several of the simulator's clusters, and
// with learning rates that have fallen by a factor.
func (c Config) Online(fall float64) Config {
	c.Envs, c.Group = 1, 1
	c.ActorLearningRate *= fall
	c.CriticLearningRate *= fall
	return c
}

// Validate reports the first value out of range.
func (c Config) Validate(int) error {
	if c.Group > 0 && c.Envs%c.Group != 0 {
		return fmt.Errorf("%d environments cannot be divided into groups of %d", c.Envs, c.Group)
	}
	return run.CheckRanges([]run.Range{
		{Name: "envs", Value: float64(c.Envs), Low: 1, High: 4096},
		{Name: "group", Value: float64(c.Group), Low: 1, High: float64(c.Envs)},
		{Name: "rollout", Value: float64(c.Rollout), Low: 1, High: 65536},
		{Name: "epochs", Value: float64(c.Epochs), Low: 1, High: 100},
		{Name: "actor learning rate", Value: c.ActorLearningRate, Low: 0, High: 1},
		{Name: "critic learning rate", Value: c.CriticLearningRate, Low: 0, High: 1},
		{Name: "lambda", Value: c.Lambda, Low: 0, High: 1},
		{Name: "clip", Value: c.Clip, Low: 1e-3, High: 1},
		{Name: "value clip", Value: c.ValueClip, Low: 0, High: 1e6},
		{Name: "value coefficient", Value: c.ValueCoef, Low: 0, High: 1e3},
		{Name: "entropy", Value: c.Entropy, Low: 0, High: 1e3},
		{Name: "target KL", Value: c.TargetKL, Low: 0, High: 1e3},
	})
}

// The tags of the figures that this method alone reports.
const (
	tagPolicyLoss = "losses/policy_loss"
	tagValueLoss  = "losses/value_loss"
	tagEntropy    = "losses/entropy"
	tagKL         = "losses/approx_kl"
	tagClipped    = "losses/clipfrac"
	tagExplained  = "losses/explained_variance"
	tagCloning    = "losses/imitation"
	tagAgreement  = "losses/imitation_agreement"
)
