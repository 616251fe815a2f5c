package learn

import (
	"encoding/json"
	"fmt"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/objective"
)

// onlineHalfLife is the half-life, in placements, with which learning from a stream discounts rewards by default.
const onlineHalfLife = 30

// onlineJob returns the job with which the network of c continues to learn from a running scheduler:
// the job of its training, with changes. What its manifest does not say has the variant's default
// and the checkpoint's objective.
//
// The reward is the fall of the cost until the next decision, with a half-life as discount, unless the training
// had a half-life of its own: the shaped reward of the shipped networks needs the end of an episode, which a stream
// does not have. There is no teacher. A trained network's learning rates are those at the end of its training, and
// an untrained one's those at the start. All other schedules stay at their first value.
// Environment.WaitCost is the penalty for a pod that has to wait. On Evaluation, every network is
// judged before the scheduler gets it.
//
// A network that checkpoint.Checkpoint.CheckOnline refuses is an error.
func onlineJob(c *checkpoint.Checkpoint) (Job, error) {
	a := c.Manifest.Architecture
	if err := c.CheckOnline(); err != nil {
		return Job{}, exit.New(exit.Usage, err, "run it without --learn")
	}
	j, err := NewJob(onlineVariant(a))
	if err != nil {
		return j, err
	}
	if o, err := objective.Parse(c.Manifest.Objective); err == nil { // a network of random weights has none
		j.Environment.Objective = o
	}
	variant, method := j.Variant, j.Method
	if len(c.Manifest.Config) > 0 {
		if err := json.Unmarshal(c.Manifest.Config, &j); err != nil {
			return j, fmt.Errorf("training configuration in the checkpoint: %w", err)
		}
	}
	j.Variant, j.Method = variant, method // there are no rollouts on a cluster
	j.Hidden, j.Features = a.Hidden, a.Features
	j.Imitation = run.Imitation{}
	j.Judge = nil // a stream has no end at which to judge
	if j.HalfLife == 0 || j.Reward.Kind == run.ShapedReward {
		j.Reward.Kind, j.HalfLife = run.StepReward, onlineHalfLife
	}
	fall := 1.0 // of the learning rates
	if _, trained := c.Manifest.Training["step"]; trained {
		fall = j.LearningRateAt(j.Steps) / j.LearningRate
	}
	j.LearningRate *= fall
	j.PPO = j.PPO.Online(fall)
	return j, nil
}

// onlineVariant returns the variant with a network's encoder and head.
func onlineVariant(a checkpoint.Architecture) (name string) {
	for _, v := range variants {
		if v.head == a.Head && (v.encoder == checkpoint.GNN) == (a.Encoder == checkpoint.GNN) {
			name = v.name
		}
	}
	return name
}
