package learn

import (
	"errors"
	"slices"
	"strings"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/choice"
	"gnnsched/scheduler/learn/dqn"
	"gnnsched/scheduler/learn/ppo"
	"gnnsched/scheduler/learn/rollouts"
	"gnnsched/scheduler/learn/run"
)

// Config holds every hyperparameter of a training run. The zero value is not valid; start from
// Defaults. Its JSON form is stored in the checkpoint, and is the form of a job's YAML file.
type Config struct {
	run.Settings
	DQN dqn.Config `json:"dqn"` // of the variants gnn and dqn
	PPO ppo.Config `json:"ppo"` // of the variants acgnn and acdqn
	// Rollouts are of all variants, if Method is rollouts.
	Rollouts rollouts.Config `json:"rollouts"`
	run.Selection
}

// Method is a way to learn, with its hyperparameters.
type Method interface {
	// Name returns the method's name in a sentence.
	Name() string
	// OnlineFlags returns the names of the hyperparameters' flags that matter in online learning.
	OnlineFlags() []string
	// Validate reports the first hyperparameter out of range. batch is the run's batch size.
	Validate(batch int) error
}

// methods returns the methods with the heads of the networks that they train. Every method is in
// this list.
func (c Config) methods() map[checkpoint.Head]Method {
	return map[checkpoint.Head]Method{checkpoint.DQN: c.DQN, checkpoint.ActorCritic: c.PPO}
}

// Method returns the method that trains the variant.
func (c Config) Method() Method {
	if c.ByRollouts {
		return c.Rollouts
	}
	return c.methods()[c.Architecture().Head]
}

// Variants returns the names of the networks that can be trained.
func Variants() []string { return []string{"gnn", "dqn", "acgnn", "acdqn"} }

// Architecture returns the network of a variant, with hidden layers of the width. The names of
// variants that send messages end in gnn, and those of actor-critics begin with ac.
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

// Architecture returns the network that the run trains.
func (c Config) Architecture() checkpoint.Architecture {
	a := Architecture(c.Variant, c.Hidden)
	a.Features, a.Graph = c.Features, checkpoint.GraphOf(c.Features)
	a.Residual = c.Residual != ""
	return a
}

// Defaults returns the hyperparameters that a variant starts from. The shipped networks are trained
// with the files in the folder runs.
func Defaults(variant string) (Config, error) {
	c := Config{
		Settings: run.Settings{
			Variant: variant, Hidden: 32, Seed: 1, Steps: 60_000,
			Gamma: 0.5, LearningRate: 5e-4, BatchSize: 128, ClipNorm: 5,
			Reward:    run.Reward{Kind: run.PlacementReward, Scale: 10},
			Imitation: run.Imitation{Teacher: "greedy-balance", Share: 1, Margin: 0.1, MarginWeight: 1},
		},
		DQN: dqn.Defaults(), PPO: ppo.Defaults(), Rollouts: rollouts.Defaults(),
		Selection: run.Selection{EvaluateEvery: 5_000, EvaluateSeeds: 100, Unscheduled: 1},
	}
	if err := checkVariant(variant); err != nil {
		return c, err
	}
	if c.Architecture().Head == checkpoint.ActorCritic {
		c.Steps, c.EvaluateEvery = 1_500_000, 50_000
		c.BatchSize, c.LearningRate = 1024, 2e-3
		c.Gamma, c.Reward.Kind = 0.99, run.ShapedReward
		c.Imitation.Share, c.Imitation.Warmup = 0.05, 0.02
	}
	return c, nil
}

func checkVariant(variant string) error {
	if !slices.Contains(Variants(), variant) {
		return choice.Unknown("variant", variant, Variants())
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
	if err := c.DQN.Validate(c.BatchSize); err != nil {
		return err
	}
	if err := c.PPO.Validate(c.BatchSize); err != nil {
		return err
	}
	if a := c.Architecture(); a.ReadsPeers() && a.Head == checkpoint.DQN && !c.ByRollouts {
		return errors.New("features: the replay memory of deep Q-learning does not hold the peers of pods; train by rollouts, train an actor-critic, or leave the set traffic out")
	}
	if c.ByRollouts {
		if err := c.Rollouts.Validate(c.BatchSize); err != nil {
			return err
		}
	}
	return c.Selection.Validate()
}
