package ppo

import (
	"fmt"
	"math"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/internal/each"
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

// step is a placement that an update learns from.
type step struct {
	state   *graph.Graph
	action  int
	teacher int     // the teacher's choice; -1 for none
	log     float32 // log-probability of the action under the policy that took it
	value   float64 // of the state
	reward  float64

	last   bool         // whether the step is its episode's last: the episode ended, or was truncated
	beyond float64      // of a last step: the value of the state that the episode was left in, 0 if it ended
	after  *graph.Graph // that state, of a step of a running scheduler

	advantage float64
	target    float64 // advantage + value: the critic learns it
}

// rollout holds the steps that an update learns from. Those of one environment lie next to each other in the order of time, the first
// environment's first.
type rollout []step

// estimate computes advantages and targets. after holds, for each environment, the value of the state after its last step.
//
// The advantages are generalised advantage estimation (Schulman et al. 2016), A_t = Σ_k (γλ)^k δ_(t+k) with
// δ_t = r_t + γ V_(t+1) - V_t. The sum ends with the last step of an episode. There beyond takes the place of V_(t+1)
// (Pardo et al. 2018).
func (r rollout) estimate(after []float64, gamma, lambda float64) {
	steps := len(r) / len(after)
	for e, value := range after {
		next := 0.0
		for t := steps - 1; t >= 0; t-- {
			s := &r[e*steps+t]
			if s.last {
				value, next = s.beyond, 0
			}
			next = s.reward + gamma*value - s.value + gamma*lambda*next
			s.advantage, s.target = next, next+s.value
			value = s.value
		}
	}
}

// centre subtracts from every advantage the mean over its group of environments at the same time.
// group is the number of environments in a group, length the number of placements in each.
func (r rollout) centre(group, length int) {
	if group < 2 {
		return
	}
	for first := 0; first < len(r); first += group * length {
		for t := range length {
			mean := 0.0
			for e := range group {
				mean += r[first+e*length+t].advantage / float64(group)
			}
			for e := range group {
				r[first+e*length+t].advantage -= mean
			}
		}
	}
}

// column returns a value of every step at the indices.
func column[T any](r rollout, index []int, of func(*step) T) []T {
	return each.Map(index, func(at int) T { return of(&r[at]) })
}

// normalise brings the advantages to mean 0 and variance 1.
func (r rollout) normalise() {
	n := float64(len(r))
	mean, square := 0.0, 0.0
	for i := range r {
		mean += r[i].advantage / n
	}
	for i := range r {
		square += (r[i].advantage - mean) * (r[i].advantage - mean) / n
	}
	by := 1 / (math.Sqrt(square) + 1e-8)
	for i := range r {
		r[i].advantage = (r[i].advantage - mean) * by
	}
}

// explained returns the share of the variance of the targets that the values explain: 1 - Var(target-value)/Var(target). It is 0 if
// the values are constant, and if the targets are.
func (r rollout) explained() float64 {
	targets, rest := make([]float64, len(r)), make([]float64, len(r))
	for i, s := range r {
		targets[i], rest[i] = s.target, s.target-s.value
	}
	if v := variance(targets); v > 0 {
		return 1 - variance(rest)/v
	}
	return 0
}

// variance returns the mean squared distance from the mean.
func variance(x []float64) float64 {
	mean := each.Sum(x, func(v float64) float64 { return v / float64(len(x)) })
	return each.Sum(x, func(v float64) float64 { return (v - mean) * (v - mean) / float64(len(x)) })
}

// settings are the hyperparameters of a run by this method.
type settings struct {
	run.Settings
	Config
}

// phase is one of the parts of a run.
type phase int

const (
	cloning   phase = iota // behaviour cloning: the policy learns the teacher's choices
	warmingUp              // the critic learns the value of the cloned policy, which stays as it is
	improving              // PPO
)

var phaseNames = [...]string{"behaviour cloning", "critic warm-up", "PPO"}

// phase returns the phase at a step.
func (s settings) phase(step int) phase {
	switch at := float64(step) / float64(s.Steps); {
	case at < s.Imitation.Share:
		return cloning
	case at < s.Imitation.Share+s.Imitation.Warmup:
		return warmingUp
	}
	return improving
}

// left falls linearly from 1 at the first step of the last phase to 0 at the end of the run.
func (s settings) left(step int) float64 {
	from := min(s.Imitation.Share+s.Imitation.Warmup, 1) * float64(s.Steps)
	length := float64(s.Steps) - from
	if length <= 0 {
		return 0
	}
	return min(max((float64(s.Steps)-float64(step))/length, 0), 1)
}
