package learn

import (
	"maps"
	"slices"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/choice"
	"gnnsched/scheduler/learn/dqn"
	"gnnsched/scheduler/learn/ppo"
	"gnnsched/scheduler/learn/rollouts"
	"gnnsched/scheduler/learn/run"
)

// Config holds every hyperparameter of a training run. The zero value is not valid; start from
// defaultConfig. Its JSON form is stored in the checkpoint, and is the form of a job's YAML file.
type Config struct {
	run.Settings
	DQN      dqn.Config         `json:"dqn"`
	PPO      ppo.Config         `json:"ppo"`
	Rollouts rollouts.Config    `json:"rollouts"`
	ES       rollouts.Evolution `json:"es"`
	run.Selection
}

// Method is a way to learn, with its hyperparameters.
type Method interface {
	// Name returns the method's name in a sentence.
	Name() string
	// Check returns an error about a network that the method cannot train.
	Check(a checkpoint.Architecture) error
	// Validate reports the first hyperparameter out of range. batch is the run's batch size.
	Validate(batch int) error
}

// The names of the methods in a job.
const (
	byDQN      = "dqn"
	byPPO      = "ppo"
	byRollouts = "rollouts"
	byES       = "es"
)

// methods returns the methods by the names that a job gives them. Every method is in this list.
func (c Config) methods() map[string]Method {
	return map[string]Method{byDQN: c.DQN, byPPO: c.PPO, byRollouts: c.Rollouts, byES: c.ES}
}

// Chosen returns the method that the run learns by; nil if there is none of its name.
func (c Config) Chosen() Method { return c.methods()[c.Method] }

// variants are the networks that can be trained. Those of encoder gnn send messages.
var variants = []struct {
	name    string
	encoder checkpoint.Encoder
	head    checkpoint.Head
}{
	{"gnn", checkpoint.GNN, checkpoint.DQN}, {"dqn", checkpoint.MLP, checkpoint.DQN},
	{"acgnn", checkpoint.GNN, checkpoint.ActorCritic}, {"acdqn", checkpoint.MLP, checkpoint.ActorCritic},
}

// variantNames returns the names of the networks that can be trained.
func variantNames() (names []string) {
	for _, v := range variants {
		names = append(names, v.name)
	}
	return names
}

// Architecture returns the network of a variant, with hidden layers of the width.
func Architecture(variant string, hidden int) checkpoint.Architecture {
	a := checkpoint.Architecture{Hidden: hidden}
	for _, v := range variants {
		if v.name == variant {
			a.Encoder, a.Head = v.encoder, v.head
		}
	}
	return a
}

// Architecture returns the network that the run trains.
func (c Config) Architecture() checkpoint.Architecture {
	a := Architecture(c.Variant, c.Hidden)
	a.Features, a.Graph = c.Features, checkpoint.GraphOf(c.Features)
	a.Residual = c.Residual != ""
	return a
}

// defaultConfig returns the hyperparameters that a variant starts from. The shipped networks are trained
// with the files in the folder runs.
func defaultConfig(variant string) (Config, error) {
	c := Config{
		Settings: run.Settings{
			Variant: variant, Method: byDQN, Hidden: 32, Seed: 1, Steps: 60_000,
			Gamma: 0.5, LearningRate: 5e-4, BatchSize: 128, ClipNorm: 5,
			Reward:    run.Reward{Kind: run.PlacementReward, Scale: 10},
			Imitation: run.Imitation{Teacher: "greedy-balance", Share: 1, Margin: 0.1, MarginWeight: 1},
		},
		DQN: dqn.Defaults(), PPO: ppo.Defaults(), Rollouts: rollouts.Defaults(), ES: rollouts.EvolutionDefaults(),
		Selection: run.Selection{EvaluateEvery: 5_000, EvaluateSeeds: 100, Unscheduled: 1},
	}
	if err := checkVariant(variant); err != nil {
		return c, err
	}
	if c.Architecture().Head == checkpoint.ActorCritic {
		c.Method, c.Steps, c.EvaluateEvery = byPPO, 1_500_000, 50_000
		c.BatchSize, c.LearningRate = 1024, 2e-3
		c.Gamma, c.Reward.Kind = 0.99, run.ShapedReward
		c.Imitation.Share, c.Imitation.Warmup = 0.05, 0.02
	}
	return c, nil
}

func checkVariant(variant string) error {
	if !slices.Contains(variantNames(), variant) {
		return choice.Unknown("variant", variant, variantNames())
	}
	return nil
}

// Validate reports the first value out of range.
func (c Config) Validate() error {
	if err := checkVariant(c.Variant); err != nil {
		return err
	}
	if err := c.Architecture().Validate(); err != nil {
		return err
	}
	if err := c.Settings.Validate(); err != nil {
		return err
	}
	m := c.Chosen()
	if m == nil {
		return choice.Unknown("method", c.Method, slices.Sorted(maps.Keys(c.methods())))
	}
	if err := m.Check(c.Architecture()); err != nil {
		return err
	}
	if err := m.Validate(c.BatchSize); err != nil {
		return err
	}
	return c.Selection.Validate()
}
