//go:build torch

package value

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature/featuretest"
	"gnnsched/gnn/torch"
	"gnnsched/internal/fatal"
	"gnnsched/workload/trace/openb"
)

func learnSmall(t *testing.T, c Config) (*checkpoint.Checkpoint, map[string]float64, []Pace) {
	t.Helper()
	var all []Pace
	trainer := Trainer{Config: c, Options: Options{Progress: func(p Pace) { all = append(all, p) }}}
	var w Workload
	trainer.Nodes, w = trace()
	trainer.Family = []Workload{w}
	best, score, err := trainer.Train(context.Background())
	fatal.If(t, err)
	return best, score.Figures, all
}

// With every encoder and head, updates lower the value's error and the actor's distance from the teacher,
// and later that from the values.
func TestLearner(t *testing.T) {
	before := torch.TensorCount()
	for _, e := range []checkpoint.Encoder{checkpoint.GNN, checkpoint.MLP, checkpoint.Linear} {
		for _, head := range []checkpoint.Head{checkpoint.DQN, checkpoint.ActorCritic} {
			t.Run(string(e+" "+checkpoint.Encoder(head)), func(t *testing.T) {
				c := small()
				c.Encoder, c.Head, c.Temperature = e, head, 0.1
				if e == checkpoint.MLP {
					c.Features = featuretest.Names
				}
				taken, _, _ := record(t, c)
				l, err := newLearner(c, checkpoint.Random(c.architecture(), rand.New(rand.NewPCG(1, 2))))
				fatal.If(t, err)
				defer l.Drop()
				for _, imitate := range []bool{true, false} {
					first, last := learnTwice(t, l, taken, imitate)
					// The second time, the value is learned already: its loss may only stay as low.
					if last.value > 1.2*first.value || imitate && last.value > first.value || c.actor() && last.actor >= first.actor {
						t.Errorf("imitating %v: losses from %+v to %+v", imitate, first, last)
					}
				}
			})
		}
	}
	if after := torch.TensorCount(); after != before {
		t.Errorf("%d tensors are left over", after-before)
	}
}

// learnTwice takes 300 updates on the same snapshots and returns the sums of the losses of the first twenty
// and of the last twenty.
func learnTwice(t *testing.T, l *learner, taken []snapshot, imitate bool) (first, last losses) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	var all []*snapshot
	for i := range taken {
		all = append(all, &taken[i])
	}
	for i := range 300 {
		sum, err := l.update(rng, all, 1e-2, 0.1, imitate)
		fatal.If(t, err)
		switch {
		case i < 20:
			first.value, first.actor = first.value+sum.value, first.actor+sum.actor
		case i >= 280:
			last.value, last.actor = last.value+sum.value, last.actor+sum.actor
		}
	}
	return first, last
}

// The same seed gives the same network, bit by bit, although episodes are played side by side.
func TestSeedDecides(t *testing.T) {
	c := small()
	c.Head = checkpoint.ActorCritic
	best, score, all := learnSmall(t, c)
	if err := best.Validate(); err != nil || len(all) != c.Iterations || score["heldOutAllocation"] < 0.6 {
		t.Fatalf("%v, %d iterations, allocation %v", err, len(all), score)
	}
	again, _, _ := learnSmall(t, c)
	for name, w := range best.Weights {
		for i, v := range w.Data {
			if again.Weights[name].Data[i] != v {
				t.Fatalf("%s[%d] is %v, then %v", name, i, v, again.Weights[name].Data[i])
			}
		}
	}
}

// An interrupted run returns the best network so far and an error, also before the first evaluation.
func TestInterrupted(t *testing.T) {
	nodes, w := trace()
	ctx, cancel := context.WithCancel(context.Background())
	trainer := Trainer{Config: small(), Nodes: nodes, Family: []Workload{w}}
	trainer.Evaluated = func(Evaluation) { cancel() }
	for range 2 {
		if best, _, err := trainer.Train(ctx); best == nil || !errors.Is(err, context.Canceled) {
			t.Errorf("network %v, error %v", best, err)
		}
		trainer = Trainer{Config: small(), Nodes: nodes, Family: []Workload{w}}
	}
}

func TestWorkloadWithoutGPU(t *testing.T) {
	nodes, w := trace()
	for i := range w.Pods {
		w.Pods[i].GPUs, w.Pods[i].GPUMilli = 0, 0
	}
	trainer := Trainer{Config: small(), Nodes: nodes, Family: []Workload{w}}
	if _, _, err := trainer.Train(context.Background()); !errors.Is(err, openb.ErrNoGPU) {
		t.Errorf("%v", err)
	}
}

// A run begins with the weights that it is given. Weights of another architecture are refused.
func TestTrainFromWeights(t *testing.T) {
	nodes, w := eights()
	c := small()
	c.Imitation, c.Iterations, c.EvaluateEvery = 0, 2, 1
	c.LearningRate = 1e-9 // so that the best network is the one to begin with
	start := checkpoint.Random(c.architecture(), rand.New(rand.NewPCG(7, 8)))
	trainer := Trainer{Config: c, Nodes: nodes, Family: []Workload{w}, Start: start}
	best, _, err := trainer.Train(context.Background())
	fatal.If(t, err)
	for name, x := range best.Weights {
		for i, v := range x.Data {
			if math.Abs(float64(v-start.Weights[name].Data[i])) > 1e-4 {
				t.Fatalf("%s[%d] began with %v and is %v", name, i, start.Weights[name].Data[i], v)
			}
		}
	}
	c.Encoder = checkpoint.MLP
	trainer = Trainer{Config: c, Nodes: nodes, Family: []Workload{w}, Start: start}
	if _, _, err := trainer.Train(context.Background()); err == nil || !strings.Contains(err.Error(), "architecture") {
		t.Errorf("%v", err)
	}
}
