//go:build torch

package dqn

import (
	"math"
	"math/rand/v2"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/gnn/torch"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/learn/learntest"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/policy"
)

// short returns the settings of a run of seconds.
func short(steps int) settings {
	c := settings{run.Settings{
		Hidden: 16, Steps: steps, Gamma: 0.5, LearningRate: 5e-4, BatchSize: 32, ClipNorm: 5,
		Reward:    run.Reward{Kind: run.PlacementReward, Scale: 10},
		Imitation: run.Imitation{Share: 1, Margin: 0.1, MarginWeight: 1},
	}, Defaults()}
	c.ReplayBufferSize = 2000
	return c
}

var architecture = checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 16}

// weights returns a network with random weights.
func weights(seed uint64) *checkpoint.Checkpoint { return learntest.Weights(architecture, seed) }

func plain(t *testing.T, n *torch.Network) *infer.Network {
	t.Helper()
	c, err := n.Checkpoint()
	fatal.If(t, err)
	return learntest.Network(t, c)
}

// Targets are R + discount · Q_target(s', argmax Q(s')), and only R at the end of an episode.
func TestTargets(t *testing.T) {
	c := short(10)
	d, err := newLearner(c, weights(1))
	fatal.If(t, err)
	defer d.Drop()
	other, err := torch.NewNetwork(weights(2))
	fatal.If(t, err)
	defer other.Drop()
	fatal.If(t, d.Slow.CopyFrom(&other.Parameters))
	next := learntest.Graph(t)
	y, err := d.targets([]transition{{ret: 2, next: pack(next, nil), discount: 0.5}, {ret: 3}})
	fatal.If(t, err)
	net, target := plain(t, d.Net), plain(t, other)
	a, err := net.NewSession().Score(next, nil)
	fatal.If(t, err)
	choice := policy.Best(a.Scores)
	b, err := target.NewSession().Score(next, nil)
	fatal.If(t, err)
	mean := 0.0
	for _, v := range b.Scores {
		mean += float64(v) / float64(len(b.Scores))
	}
	want := 2 + 0.5*(float64(b.Value)+float64(b.Scores[choice])-mean)
	if math.Abs(float64(y[0])-want) > 1e-4 || y[1] != 3 {
		t.Errorf("targets %v, want %v and 3", y, want)
	}
}

// Updates on one batch lower its temporal differences, and the margin loss gives the teacher's choice the
// highest score.
func TestUpdatesFit(t *testing.T) {
	c := short(400)
	c.Imitation.Share, c.Imitation.Margin = 1, 0.5
	d, err := newLearner(c, weights(3))
	fatal.If(t, err)
	defer d.Drop()
	g := learntest.Graph(t)
	m, rng := sized(c.BatchSize, 1<<30, 0), rand.New(rand.NewPCG(5, 6))
	for range c.BatchSize {
		m.add(transition{state: pack(g, nil), action: 1, teacher: 2, ret: 1})
	}
	var f run.Figures
	loss := func(step int) float64 {
		fatal.If(t, d.update(m, rng, step, &f))
		f.Report(step, nil)
		return f.Last(tagTDLoss)
	}
	first, last := loss(0), 0.0
	for step := range 300 {
		last = loss(step)
	}
	if last > first/10 {
		t.Errorf("loss %v at first, %v at last", first, last)
	}
	out, err := plain(t, d.Net).NewSession().Score(g, nil)
	fatal.If(t, err)
	if policy.Best(out.Scores) != 2 {
		t.Errorf("the teacher's choice does not lead: %v", out.Scores)
	}
}
