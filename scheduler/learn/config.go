package learn

import (
	"fmt"
	"slices"
	"strings"

	"gnnsched/gnn/checkpoint"
)

// Config is every hyperparameter of a training run. The zero value is not useful; start from
// DefaultConfig or Defaults. Its JSON form is written into the checkpoint, and is the YAML of a
// training configuration; package flags makes the tags flag and usage a command's flags.
type Config struct {
	Variant string `json:"variant"` // of Variants: which network, learned how
	Hidden  int    `json:"hiddenLayers" flag:"hidden-layers" usage:"width of the hidden layers"`
	Seed    uint64 `json:"seed" flag:"seed" usage:"of everything random"`
	Steps   int    `json:"steps" flag:"steps" usage:"placements to learn from"`

	Gamma        float64 `json:"gamma" flag:"gamma" usage:"discount of the next placement's reward"`
	LearningRate float64 `json:"learningRate" flag:"learning-rate" usage:"of Adam at the start; falls linearly to a tenth"`
	BatchSize    int     `json:"batchSize" flag:"batch-size" usage:"decisions an update learns from"`
	ClipNorm     float64 `json:"clipNorm" flag:"clip-norm" usage:"limit of the gradient's norm"`

	Reward    Reward    `json:"reward"`
	Imitation Imitation `json:"imitation"`
	DQN       DQNConfig `json:"dqn"` // of the variants gnn and dqn
	PPO       PPOConfig `json:"ppo"` // of the variants acgnn and acdqn

	EvaluateEvery int     `json:"evaluateEvery" flag:"evaluate-every" usage:"placements between evaluations"`
	EvaluateSeeds int     `json:"evaluateSeeds" flag:"evaluate-seeds" usage:"held-out episodes an evaluation"`
	Unscheduled   float64 `json:"unscheduledCost" flag:"unscheduled-cost" usage:"what the fraction of pods left over weighs against the objective when the best network is chosen"`
}

// DQNConfig is what deep Q-learning has of its own.
type DQNConfig struct {
	// Exploration: a random node with probability epsilon. It falls linearly over EpsilonShare
	// of the steps, or where EpsilonDecay is set by that factor a placement.
	InitEpsilon  float64 `json:"initEpsilon" flag:"init-epsi" usage:"share of random placements at the start"`
	FinalEpsilon float64 `json:"finalEpsilon" flag:"final-epsi" usage:"share of random placements at the end"`
	EpsilonShare float64 `json:"epsilonShare" flag:"epsi-share" usage:"share of the steps over which exploration falls linearly"`
	EpsilonDecay float64 `json:"epsilonDecay" flag:"epsi-decay" usage:"factor of exploration a placement, instead of the linear fall; 0 for the latter"`

	NStep                 int     `json:"nStep" flag:"n-step" usage:"rewards summed before bootstrapping"`
	ReplayBufferSize      int     `json:"replayBufferSize" flag:"replay-buffer-size" usage:"transitions kept"`
	PriorityExponent      float64 `json:"priorityExponent" flag:"priority-exponent" usage:"of prioritised replay; 0 draws uniformly"`
	UpdateFrequency       int     `json:"updateFrequency" flag:"update-frequency" usage:"placements between updates"`
	TargetUpdateFrequency int     `json:"targetUpdateFrequency" flag:"target-update-frequency" usage:"updates between copies to the target network"`
}

// PPOConfig is what proximal policy optimisation has of its own.
type PPOConfig struct {
	Envs int `json:"envs" flag:"envs" usage:"simulated clusters side by side"`
	// Group is how many environments play the same episodes. What came of a decision is then
	// judged against what came of the others' at the same time: most of the noise is that of
	// the arrivals, which they share (Mao et al. 2019, input-driven environments).
	Group   int `json:"group" flag:"group" usage:"environments that play the same episodes, each judged against the others; 1 for none"`
	Rollout int `json:"rollout" flag:"rollout" usage:"placements in each between updates"`
	Epochs  int `json:"epochs" flag:"epochs" usage:"passes over a rollout"`

	ActorLearningRate  float64 `json:"actorLearningRate" flag:"actor-learning-rate" usage:"of all but the critic's own layers; 0 for the learning rate"`
	CriticLearningRate float64 `json:"criticLearningRate" flag:"critic-learning-rate" usage:"of the critic's own layers; 0 for the learning rate"`
	// CriticApart keeps the critic's gradient, by far the larger one, out of the layers that it
	// shares with the policy, where Adam would scale the policy's steps down with it.
	CriticApart bool `json:"criticApart" flag:"critic-apart" usage:"keep the critic's gradient out of the layers that it shares with the policy"`

	Lambda    float64 `json:"lambda" flag:"gae-lambda" usage:"of generalised advantage estimation"`
	Clip      float64 `json:"clip" flag:"clip" usage:"how far an update may move the probability of an action, as a ratio"`
	ValueClip float64 `json:"valueClip" flag:"value-clip" usage:"how far an update may move a value; 0 for no limit"`
	ValueCoef float64 `json:"valueCoefficient" flag:"value-coefficient" usage:"weight of the critic's loss"`
	Entropy   float64 `json:"entropy" flag:"entropy" usage:"bonus for the policy's entropy at the start; falls linearly to nothing"`
	TargetKL  float64 `json:"targetKL" flag:"target-kl" usage:"divergence from the rollout's policy that ends its updates; 0 for no limit"`
}

// Imitation is what a run takes from a heuristic that acts well already.
//
// In deep Q-learning the teacher's part fades from one to nothing over Share of the steps, both
// in acting and in the large-margin loss that prefers its choice (DQfD, Hester et al. 2018).
//
// In PPO the first Share of the steps is behaviour cloning on the states that a mix of teacher
// and learner visits, the learner's part growing (as in DAgger, Ross et al. 2011); then for
// Warmup of the steps the critic alone learns what the cloned policy is worth.
type Imitation struct {
	Teacher string  `json:"teacher" flag:"teacher" usage:"heuristic to imitate: a policy's name, or the file of a linear one"`
	Share   float64 `json:"share" flag:"imitation" usage:"share of the steps that imitate the teacher; 0 for none"`

	Margin       float64 `json:"margin" flag:"margin" usage:"by which the teacher's choice is to lead in deep Q-learning, in units of Q"`
	MarginWeight float64 `json:"marginWeight" flag:"margin-weight" usage:"of the margin loss at the start"`
	MarginFloor  float64 `json:"marginFloor" flag:"margin-floor" usage:"under which the weight of the margin loss never falls"`

	Warmup      float64 `json:"warmup" flag:"critic-warmup" usage:"share of the steps after cloning in which the critic alone learns"`
	Coefficient float64 `json:"coefficient" flag:"imitation-coefficient" usage:"weight of cloning in PPO's loss at the start of PPO; falls linearly to nothing"`
}

// Variants are the kinds of network that can be trained.
var Variants = []string{"gnn", "dqn", "acgnn", "acdqn"}

// DefaultConfig is what a GNN-DQN is trained with where nobody says otherwise. The shipped
// networks are trained with the files in the folder runs.
func DefaultConfig() Config {
	return Config{
		Variant: "gnn", Hidden: 32, Seed: 1, Steps: 60_000,
		Gamma: 0.5, LearningRate: 5e-4, BatchSize: 128, ClipNorm: 5,
		Reward:    Reward{Kind: PlacementReward, Scale: 10},
		Imitation: Imitation{Teacher: "greedy-balance", Share: 1, Margin: 0.1, MarginWeight: 1},
		DQN: DQNConfig{
			InitEpsilon: 0.5, FinalEpsilon: 0.05, EpsilonShare: 0.5, NStep: 1, ReplayBufferSize: 20_000,
			PriorityExponent: 0.6, UpdateFrequency: 4, TargetUpdateFrequency: 200,
		},
		PPO: PPOConfig{
			Envs: 32, Group: 8, Rollout: 128, Epochs: 4, CriticApart: true,
			Lambda: 0.97, Clip: 0.2, ValueCoef: 0.5, Entropy: 0.001, TargetKL: 0.02,
		},
		EvaluateEvery: 5_000, EvaluateSeeds: 100, Unscheduled: 1,
	}
}

// Defaults are the settings that a variant starts from.
func Defaults(variant string) (Config, error) {
	c := DefaultConfig()
	c.Variant = variant
	if !slices.Contains(Variants, variant) {
		return c, fmt.Errorf("variant %q is not known; there are %s", variant, strings.Join(Variants, ", "))
	}
	if c.head() == checkpoint.ActorCritic {
		c.Steps, c.BatchSize, c.Gamma, c.LearningRate = 1_500_000, 1024, 0.99, 2e-3
		c.Reward.Kind, c.Imitation.Share, c.Imitation.Warmup = ShapedReward, 0.05, 0.02
		c.EvaluateEvery = 50_000
	}
	return c, nil
}

// Validate reports the first value out of range.
func (c Config) Validate() error {
	if !slices.Contains(Variants, c.Variant) {
		return fmt.Errorf("variant %q is not known; there are %s", c.Variant, strings.Join(Variants, ", "))
	}
	if err := c.architecture().Validate(); err != nil {
		return err
	}
	if err := c.Reward.validate(); err != nil {
		return err
	}
	if p := c.PPO; p.Group > 0 && p.Envs%p.Group != 0 {
		return fmt.Errorf("%d environments cannot be divided into groups of %d", p.Envs, p.Group)
	}
	for _, r := range c.ranges() {
		if !(r.value >= r.low && r.value <= r.high) {
			return fmt.Errorf("%s is %v, want %v to %v", r.name, r.value, r.low, r.high)
		}
	}
	return nil
}

type valueRange struct {
	name             string
	value, low, high float64
}

func (c Config) ranges() []valueRange {
	d, p, i := c.DQN, c.PPO, c.Imitation
	return []valueRange{
		{"seed", float64(c.Seed), 0, maxSeed},
		{"steps", float64(c.Steps), 1, 1e9},
		{"gamma", c.Gamma, 0, 1},
		{"learning rate", c.LearningRate, 1e-9, 1},
		{"batch size", float64(c.BatchSize), 1, 65536},
		{"clip norm", c.ClipNorm, 1e-6, 1e6},
		{"imitation's share", i.Share, 0, 1},
		{"margin", i.Margin, 0, 1e3},
		{"margin weight", i.MarginWeight, 0, 1e3},
		{"margin floor", i.MarginFloor, 0, 1e3},
		{"critic's warm-up", i.Warmup, 0, 1},
		{"imitation coefficient", i.Coefficient, 0, 1e3},
		{"initial epsilon", d.InitEpsilon, 0, 1},
		{"final epsilon", d.FinalEpsilon, 0, 1},
		{"epsilon share", d.EpsilonShare, 0, 1},
		{"epsilon decay", d.EpsilonDecay, 0, 1},
		{"n-step", float64(d.NStep), 1, 1000},
		{"replay buffer size", float64(d.ReplayBufferSize), float64(d.least(c.BatchSize)), 1e7},
		{"priority exponent", d.PriorityExponent, 0, 1},
		{"update frequency", float64(d.UpdateFrequency), 1, 1e6},
		{"target update frequency", float64(d.TargetUpdateFrequency), 1, 1e6},
		{"envs", float64(p.Envs), 1, 4096},
		{"group", float64(p.Group), 1, float64(p.Envs)},
		{"rollout", float64(p.Rollout), 1, 65536},
		{"epochs", float64(p.Epochs), 1, 100},
		{"actor learning rate", p.ActorLearningRate, 0, 1},
		{"critic learning rate", p.CriticLearningRate, 0, 1},
		{"lambda", p.Lambda, 0, 1},
		{"clip", p.Clip, 1e-3, 1},
		{"value clip", p.ValueClip, 0, 1e6},
		{"value coefficient", p.ValueCoef, 0, 1e3},
		{"entropy", p.Entropy, 0, 1e3},
		{"target KL", p.TargetKL, 0, 1e3},
		{"evaluate every", float64(c.EvaluateEvery), 1, 1e9},
		{"evaluate seeds", float64(c.EvaluateSeeds), 2, 1000},
		{"unscheduled cost", c.Unscheduled, 0, 1e6},
	}
}

// least is how small a memory may be that gives batches: a variant without one may say what it
// likes.
func (d DQNConfig) least(batch int) int { return min(batch, 65536) }

// maxSeed keeps the seeds of training episodes, which are made of it, below the held-out
// ones.
const maxSeed = 1<<30 - 1

// Architecture returns the network of a variant, with hidden layers of the width.
func Architecture(variant string, hidden int) checkpoint.Architecture {
	a := checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.DQN, Hidden: hidden}
	if strings.HasSuffix(variant, "gnn") {
		a.Encoder = checkpoint.GNN
	}
	if strings.HasPrefix(variant, "ac") {
		a.Head = checkpoint.ActorCritic
	}
	return a
}

func (c Config) architecture() checkpoint.Architecture { return Architecture(c.Variant, c.Hidden) }

func (c Config) head() checkpoint.Head { return c.architecture().Head }
