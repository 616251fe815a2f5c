package tabular

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/tabular"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
)

// small returns a simulator of six nodes of two sizes, with the objective balance.
func small(t testing.TB) *sim.Env {
	t.Helper()
	pod := func(name string, milliCPU, gi int64) workload.Shape {
		return workload.Shape{Name: name, Weight: 1, Requests: cluster.Resources{MilliCPU: milliCPU, Memory: gi << 30, Pods: 1}}
	}
	env, err := sim.New(sim.Config{
		Nodes: sim.Exactly(6), Initial: 0.2, Load: sim.FloatRange{Min: 0.6, Max: 0.8}, Replicas: sim.IntRange{Min: 1, Max: 5},
		Sizes: []sim.NodeSize{
			{Weight: 1, Allocatable: cluster.Resources{MilliCPU: 16_000, Memory: 64 << 30, Pods: 110}},
			{Weight: 1, Allocatable: cluster.Resources{MilliCPU: 32_000, Memory: 128 << 30, Pods: 110}},
		},
		Shapes:    []workload.Shape{pod("cpu", 1000, 1), pod("even", 1000, 4), pod("memory", 500, 8)},
		Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func brief() tabular.Config {
	c := DefaultConfig()
	c.Steps = 5000
	return c
}

func train(t testing.TB, c tabular.Config) *tabular.Agent {
	t.Helper()
	a, err := Train(context.Background(), small(t), c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// After a moment's training the agent leaves clusters far more even than random placement does, on
// episodes that it has not seen.
func TestBeatsRandom(t *testing.T) {
	a, env := train(t, brief()), small(t)
	var ours, random float64
	for seed := uint64(1 << 62); seed < 1<<62+20; seed++ {
		for p, sum := range map[policy.Policy]*float64{a: &ours, heuristic.NewRandom(rand.New(rand.NewPCG(seed, 1))): &random} {
			o, err := eval.Play(env, seed, p, rand.New(rand.NewPCG(seed, 2)))
			if err != nil {
				t.Fatal(err)
			}
			*sum += o.Cost / 20
		}
	}
	if !(ours < random/2) {
		t.Errorf("cost %v, random's %v", ours, random)
	}
	t.Logf("cost %.4f, random's %.4f", ours, random)
}

// The same configuration gives the same table; another seed gives another.
func TestTrainingIsDeterministic(t *testing.T) {
	a, b := train(t, brief()), train(t, brief())
	if !slices.Equal(a.Values(), b.Values()) {
		t.Error("two runs differ")
	}
	c := brief()
	c.Seed = 2
	if slices.Equal(a.Values(), train(t, c).Values()) {
		t.Error("another seed gives the same table")
	}
}

func TestTrainingEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Train(ctx, small(t), brief()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := Train(context.Background(), small(t), tabular.Config{}); err == nil {
		t.Error("the zero configuration: no error")
	}
	env, err := sim.New(func() sim.Config {
		c := small(t).Config()
		c.Shapes = []workload.Shape{{Name: "whale", Weight: 1, Requests: cluster.Resources{MilliCPU: 64_000, Memory: 1 << 30, Pods: 1}}}
		return c
	}())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Train(context.Background(), env, brief()); err == nil {
		t.Error("pods that fit nowhere: no error")
	}
}

// A cell's value is the mean of its targets until 1/n falls below the smallest step size.
func TestLearnAverages(t *testing.T) {
	c := DefaultConfig()
	c.LearningRate = 0.25
	tr := &trainer{config: c, values: make([]float64, 8), visits: make([]int64, 8)}
	for i, want := range []float64{8, 6, 16. / 3, 5} { // targets 8, 4, 4, 4
		target := 4.0
		if i == 0 {
			target = 8
		}
		if tr.learn(7, target); math.Abs(tr.values[7]-want) > 1e-12 {
			t.Errorf("after %d targets: %v, want %v", i+1, tr.values[7], want)
		}
	}
	if tr.learn(7, 9); tr.values[7] != 6 {
		t.Errorf("the fifth: %v, want a quarter of the way from 5 to 9", tr.values[7])
	}
}

func TestDefaultConfigIsValid(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
}

func TestEpsilonFades(t *testing.T) {
	c := DefaultConfig()
	c.Steps, c.InitEpsilon, c.FinalEpsilon, c.EpsilonShare = 100, 1, 0.2, 0.5
	for step, want := range map[int]float64{0: 1, 25: 0.6, 50: 0.2, 99: 0.2} {
		if got := epsilon(c, step); math.Abs(got-want) > 1e-12 {
			t.Errorf("step %d: %v, want %v", step, got, want)
		}
	}
	if c.EpsilonShare = 0; math.Abs(epsilon(c, 0)-0.2) > 1e-12 {
		t.Errorf("without a share: %v", epsilon(c, 0))
	}
}
