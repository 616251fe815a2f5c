package learn

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature/featuretest"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/learn/learntest"
	"gnnsched/scheduler/learn/run"
)

// Networks that read the peers of pods learn by rollouts or as actor-critics, and not from a running scheduler.
func TestPeersNeedGraphsThatHoldThem(t *testing.T) {
	for _, c := range []struct {
		variant, method string
		features        []string
		valid           bool
	}{
		{"gnn", byRollouts, []string{"base", "traffic"}, true},
		{"acgnn", byPPO, []string{"base", "traffic"}, true},
		{"gnn", byDQN, []string{"base", "traffic"}, false},
		{"dqn", byDQN, []string{"base", "whole"}, true},
	} {
		j, err := NewJob(c.variant)
		fatal.If(t, err)
		if j.Method, j.Features = c.method, c.features; (j.Validate() == nil) != c.valid {
			t.Errorf("%+v: %v", c, j.Validate())
		}
	}
	for _, a := range []checkpoint.Architecture{
		{Encoder: checkpoint.GNN, Head: checkpoint.ActorCritic, Hidden: 8, Features: []string{"base", "traffic"}},
		{Graph: checkpoint.GPUGraph, Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 8},
	} {
		if _, err := onlineJob(checkpoint.Random(a, rand.New(rand.NewPCG(1, 1)))); exit.Code(err) != exit.Usage {
			t.Errorf("learning from a running scheduler, %v: %v", a, err)
		}
	}
}

// A network continues with the job of its training, with the learning rates at its end. What its
// manifest does not say has the variant's default.
func TestOnlineJob(t *testing.T) {
	training := map[string]float64{"step": 7}
	made := func(a checkpoint.Architecture, objective, config string) Job {
		t.Helper()
		c := checkpoint.Random(a, rand.New(rand.NewPCG(1, 1)))
		c.Manifest.Objective, c.Manifest.Config, c.Manifest.Training = objective, []byte(config), training
		j, err := onlineJob(c)
		if err != nil || j.Validate() != nil {
			t.Fatal(err, j.Validate())
		}
		return j
	}
	j := made(checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.DQN, Hidden: 16}, "pack",
		`{"gamma": 0.75, "learningRate": 0.01, "imitation": {"share": 1}}`)
	if j.Gamma != 0.75 || j.Imitation.Share != 0 || j.Variant != "dqn" || j.Hidden != 16 || math.Abs(j.LearningRate-0.001) > 1e-9 ||
		j.Environment.Objective.Name() != "pack" {
		t.Errorf("%+v", j)
	}
	j = made(checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.ActorCritic, Hidden: 16}, "none",
		`{"ppo": {"actorLearningRate": 0.02, "entropy": 0.5}}`)
	if j.Variant != "acgnn" || math.Abs(j.PPO.ActorLearningRate-0.002) > 1e-9 || j.PPO.CriticLearningRate != 0 || j.PPO.Entropy != 0.5 ||
		j.PPO.Rollout != 128 || j.HalfLife != onlineHalfLife || j.Reward.Kind != run.StepReward || j.Environment.Objective.Name() != "balance" {
		t.Errorf("%+v", j)
	}

	j = made(checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.DQN, Hidden: 16}, "pack",
		`{"halfLife": 200, "reward": {"kind": "level", "scale": 3}}`)
	if j.HalfLife != 200 || j.Reward != (run.Reward{Kind: run.LevelReward, Scale: 3}) {
		t.Errorf("a network that was trained with a half-life goes on with %+v and %v", j.Reward, j.HalfLife)
	}

	slots := checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 8, Features: featuretest.Names}
	if j, err := onlineJob(&checkpoint.Checkpoint{Manifest: checkpoint.Manifest{Architecture: slots}}); err != nil ||
		!slices.Equal(j.Features, featuretest.Names) {
		t.Errorf("a network with other feature sets goes on with %v: %v", j.Features, err)
	}
	training = nil
	if j = made(checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.ActorCritic, Hidden: 16}, "none",
		"{}"); j.LearningRate != 2e-3 {
		t.Errorf("an untrained network learns with the rate %v", j.LearningRate)
	}
	trained, err := NewJob("acdqn")
	fatal.If(t, err)
	held := learntest.Env()
	trained.Environment.WaitCost, trained.HeldOut = 0.07, &held
	text, err := json.Marshal(trained)
	fatal.If(t, err)
	j = made(checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.ActorCritic, Hidden: 32}, "balance", string(text))
	if j.Environment.WaitCost != 0.07 {
		t.Errorf("waiting costs %v", j.Environment.WaitCost)
	}
	want, _ := json.Marshal(held)
	got, _ := json.Marshal(j.Evaluation())
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Error(d)
	}
}
