//go:build torch

package value

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/sim"
)

// smallKinds returns a configuration that trains in seconds.
func smallKinds() Config {
	c := KindDefaults()
	c.Iterations, c.Episodes, c.Updates, c.Imitation, c.EvaluateEvery, c.EvaluateWorkloads = 2, 2, 20, 1, 1, 2
	c.Scenarios = []string{"scarce8"}
	return c
}

// Each variant on the graph of kinds trains, and the same seed gives the same weights.
func TestTrainKinds(t *testing.T) {
	for _, variant := range []string{"gnn", "dqn", "acgnn", "acdqn"} {
		config, err := smallKinds().As(variant)
		fatal.If(t, err)
		if config.Name() != variant {
			t.Errorf("%s is called %s", variant, config.Name())
		}
		var first *checkpoint.Checkpoint
		for range 2 {
			trainer := Trainer{Config: config}
			c, score, err := trainer.Train(context.Background())
			fatal.If(t, err)
			fatal.If(t, neural.Try(c))
			if score.Total <= 0 || math.IsInf(score.Total, 0) || c.Manifest.Objective != "waiting" {
				t.Errorf("%s: score %v, objective %s", variant, score.Total, c.Manifest.Objective)
			}
			if first == nil {
				first = c
			} else if c.Fingerprint() != first.Fingerprint() {
				t.Errorf("%s: the second run has other weights", variant)
			}
		}
	}
}

// The targets are the logarithms of what each kind's pods wait for, counted anew from the pods that wait at each decision.
func TestTargetsOfKinds(t *testing.T) {
	c := smallKinds()
	task, err := newKindTask(c)
	fatal.If(t, err)
	env, err := sim.New(task.learn[0])
	fatal.If(t, err)
	linear, err := ruled("linear")
	fatal.If(t, err)
	r := &kindRecorder{config: c, rng: rand.New(rand.NewPCG(1, 1)), encoder: newKindEncoder(c), policy: linear,
		waits: map[*cluster.Kind][]float64{}}
	var waiting []float64 // of all kinds, by decision; the pending pod counts, for it may have waited
	_, err = eval.Episode(env, 5, func(env *sim.Env) (eval.Choice, error) {
		waiting = append(waiting, 100*env.WaitingCost(append(env.Waiting(), env.Next())))
		return r.decide(env)
	})
	fatal.If(t, err)
	taken := r.end()
	if len(taken) == 0 || slices.Max(waiting) == 0 {
		t.Fatalf("%d snapshots, at most %v waits", len(taken), slices.Max(waiting))
	}
	ahead := int(c.Horizon * float64(r.fill))
	for i, s := range taken {
		var got, want float64
		for _, target := range s.Targets {
			got += math.Exp(float64(target)) - neural.KindOffset
		}
		for _, w := range waiting[r.at[i]+1 : r.at[i]+ahead+1] {
			want += w / float64(ahead)
		}
		if got > want+1e-3 { // a kind that comes later has no target in this snapshot
			t.Errorf("snapshot %d: the kinds wait for %v, all pods for %v", i, got, want)
		}
	}
}

// A configuration of kinds without known scenarios or a horizon, or with another encoder, is refused.
func TestKindConfig(t *testing.T) {
	for _, text := range []string{"scenarios: []", "scenarios: [nope]", "horizon: 0", "encoder: linear"} {
		if _, err := KindDefaults().Read("a.yaml", []byte(text)); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
	c, err := KindDefaults().Read("a.yaml", []byte("scenarios: [../../eval/scenarios/scarce8.yaml, jobs]"))
	fatal.If(t, err)
	task, err := newKindTask(c)
	if err != nil || len(task.learn) != 2 {
		t.Errorf("%+v, %v", task, err)
	}
}
