//go:build torch

package learn

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/gnn/torch"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/sim"
)

// short is a training run of seconds.
func short(steps int) Config {
	c := DefaultConfig()
	c.Hidden, c.Steps, c.BatchSize, c.DQN.ReplayBufferSize, c.EvaluateEvery, c.EvaluateSeeds = 16, steps, 32, 2000, 1000, 4
	return c
}

func trainer(t *testing.T, c Config) (*Trainer, *HeldOut) {
	held, err := NewHeldOut(smallEnv(), c.EvaluateSeeds)
	if err != nil {
		t.Fatal(err)
	}
	return &Trainer{Job: Job{Config: c, Environment: smallEnv()}, Held: held}, held
}

// A short run ends well above chance and an untrained network, on workloads it never saw;
// and the same seed gives the same weights.
func TestTrainingLearnsAndRepeats(t *testing.T) {
	c := short(3000)
	var files [2]bytes.Buffer
	var got Score
	for i := range files {
		tr, held := trainer(t, c)
		before := torch.Live()
		best, score, err := tr.Train(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if left := torch.Live() - before; left != 0 {
			t.Errorf("%d tensors are left over", left)
		}
		delete(best.Manifest.Training, "seconds")
		if err := best.Write(&files[i]); err != nil {
			t.Fatal(err)
		}
		got = score
		untrained, err := infer.New(checkpoint.Random(c.architecture(), rand.New(rand.NewPCG(9, 9))))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []policy.Policy{neural.New("untrained", untrained), heuristic.NewRandom(rand.New(rand.NewPCG(1, 2)))} {
			s, err := held.Evaluate(p, false)
			if err != nil {
				t.Fatal(err)
			}
			if score.Cost > 0.8*s.Cost {
				t.Errorf("trained %v, %s %v", score, p.Name(), s)
			}
		}
	}
	if !bytes.Equal(files[0].Bytes(), files[1].Bytes()) {
		t.Error("the same seed gave other weights")
	}
	t.Logf("held-out score %+v", got)
}

// Interrupted training returns the best network so far with the reason.
func TestTrainingInterrupted(t *testing.T) {
	tr, _ := trainer(t, short(100_000))
	ctx, cancel := context.WithCancel(context.Background())
	tr.Progress = func(p Progress) { cancel() }
	best, _, err := tr.Train(ctx)
	if !errors.Is(err, context.Canceled) || best == nil || best.Validate() != nil {
		t.Errorf("best %v, error %v", best != nil, err)
	}
}

// Targets are R + discount · Q_target(s', argmax a_online(s')), and R alone at the end.
func TestTargets(t *testing.T) {
	c := short(10)
	r := rand.New(rand.NewPCG(1, 2))
	d, err := NewDQN(c, checkpoint.Random(c.architecture(), r))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Drop()
	other, err := torch.NewNetwork(checkpoint.Random(c.architecture(), r))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Drop()
	if err := d.target.CopyFrom(&other.Parameters); err != nil {
		t.Fatal(err)
	}
	next := episodeGraph(t)
	y, err := d.targets([]Transition{{Return: 2, Next: next, Discount: 0.5}, {Return: 3}})
	if err != nil {
		t.Fatal(err)
	}
	online, target := plain(t, d.online), plain(t, other)
	a, err := online.NewSession().Score(next, nil)
	if err != nil {
		t.Fatal(err)
	}
	choice := policy.Best(a.Scores)
	b, err := target.NewSession().Score(next, nil)
	if err != nil {
		t.Fatal(err)
	}
	mean := 0.0
	for _, v := range b.Scores {
		mean += float64(v) / float64(len(b.Scores))
	}
	want := 2 + 0.5*(float64(b.Value)+float64(b.Scores[choice])-mean)
	if math.Abs(float64(y[0])-want) > 1e-4 || y[1] != 3 {
		t.Errorf("targets %v, want %v and 3", y, want)
	}
}

// Updates on one batch bring its temporal differences down, and the margin loss the
// teacher's choice to the front.
func TestUpdatesFit(t *testing.T) {
	c := short(400)
	c.Imitation.Share, c.Imitation.Margin = 1, 0.5
	d, err := NewDQN(c, checkpoint.Random(c.architecture(), rand.New(rand.NewPCG(3, 4))))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Drop()
	g := episodeGraph(t)
	replay, rng := NewReplay(c.BatchSize, 0), rand.New(rand.NewPCG(5, 6))
	for range c.BatchSize {
		replay.Add(Transition{State: g, Action: 1, Teacher: 2, Return: 1})
	}
	first, err := d.Update(replay, rng, 0)
	if err != nil {
		t.Fatal(err)
	}
	var last Update
	for step := range 300 {
		if last, err = d.Update(replay, rng, step); err != nil {
			t.Fatal(err)
		}
	}
	if last.Loss > first.Loss/10 {
		t.Errorf("loss %v at first, %v at last", first.Loss, last.Loss)
	}
	out, err := plain(t, d.online).NewSession().Score(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	if policy.Best(out.Scores) != 2 {
		t.Errorf("the teacher's choice does not lead: %v", out.Scores)
	}
}

func plain(t *testing.T, n *torch.Network) *infer.Network {
	c, err := n.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	net, err := infer.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return net
}

// episodeGraph is the graph of some decision with at least three candidates.
func episodeGraph(t *testing.T) *graph.Graph {
	env, err := sim.New(smallEnv())
	if err != nil {
		t.Fatal(err)
	}
	if err := env.Reset(7); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		env.Step(0)
	}
	if len(env.Candidates()) < 3 {
		t.Fatal("too few candidates")
	}
	l := neural.New("x", plainRandom(t))
	return l.Graph(env.Snapshot(), env.Pending(), env.Candidates()).Clone()
}

func plainRandom(t *testing.T) *infer.Network {
	net, err := infer.New(checkpoint.Random(short(1).architecture(), rand.New(rand.NewPCG(1, 1))))
	if err != nil {
		t.Fatal(err)
	}
	return net
}
