package learn

import (
	"encoding/json"
	"fmt"

	"gnnsched/gnn/checkpoint"
	"gnnsched/scheduler/objective"
)

// OnlineJob is the run that c came from, to go on with on a scheduler's stream: how to learn, what a
// pod that waits costs (Environment.WaitCost), and on what to judge a network before the scheduler
// gets it (Evaluation). It has no teacher, and the learning rates that the run ended with,
// or of a network that none has trained those that one begins with; its other schedules stand still
// where they began. Where c does not say, it is the variant's default, for the
// checkpoint's objective.
func OnlineJob(c *checkpoint.Checkpoint) (Job, error) {
	a := c.Manifest.Architecture
	if a.Graph != checkpoint.ClusterGraph {
		return Job{}, fmt.Errorf("a network of the graph %q does not learn while it schedules, only those of whole clusters do", a.Graph)
	}
	j, err := NewJob(onlineVariant(a))
	if err != nil {
		return j, err
	}
	if o, err := objective.Parse(c.Manifest.Objective); err == nil { // an untrained one has none
		j.Environment.Objective = o
	}
	variant := j.Variant
	if len(c.Manifest.Config) > 0 {
		if err := json.Unmarshal(c.Manifest.Config, &j); err != nil {
			return j, fmt.Errorf("training configuration in the checkpoint: %w", err)
		}
	}
	j.Variant, j.Hidden, j.Imitation = variant, a.Hidden, Imitation{}
	if _, trained := c.Manifest.Training["step"]; trained {
		falls := j.learningRate(j.Steps) / j.LearningRate
		for _, rate := range []*float64{&j.LearningRate, &j.PPO.ActorLearningRate, &j.PPO.CriticLearningRate} {
			*rate *= falls
		}
	}
	j.PPO.Envs, j.PPO.Group = 1, 1 // the cluster
	return j, nil
}

func onlineVariant(a checkpoint.Architecture) string {
	variant := "dqn"
	if a.Encoder == checkpoint.GNN {
		variant = "gnn"
	}
	if a.Head == checkpoint.ActorCritic {
		variant = "ac" + variant
	}
	return variant
}
