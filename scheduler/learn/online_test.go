//go:build torch

package learn

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/gnn/torch"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/sim"
)

// onlineStream is what a scheduler that chooses by chance sends of so many placements.
func onlineStream(t *testing.T, steps int) *bytes.Buffer {
	t.Helper()
	env, err := sim.New(smallEnv())
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := experience.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	rng, see, number := rand.New(rand.NewPCG(1, 2)), neural.New("sees", plainRandom(t)), uint64(0)
	for episode := uint64(1); steps > 0; episode++ {
		if err := env.Reset(episode); err != nil {
			t.Fatal(err)
		}
		number++ // a gap: nobody bootstraps from one episode to the next
		for ; !env.Done() && steps > 0; steps-- {
			number++
			candidates := env.Candidates()
			s := experience.Step{Number: number, State: see.Graph(env.Snapshot(), env.Pending(), candidates).Clone(), Action: rng.IntN(len(candidates)), Before: env.Cost()}
			s.After = s.Before - env.Step(s.Action)
			if err := w.Write(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	return &b
}

func onlineShort() Config {
	c := short(1)
	c.Imitation.Share, c.Gamma, c.LearningRate = 0, 0.5, 1e-3
	return c
}

func onlineScore(t *testing.T, c *checkpoint.Checkpoint) Score {
	t.Helper()
	net, err := infer.New(c)
	if err != nil {
		t.Fatal(err)
	}
	_, held := trainer(t, onlineShort())
	s, err := held.Evaluate(neural.New("x", net), false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What a scheduler does by chance is enough to learn from; and what is saved is saved often,
// also where the stream ends in the middle of a step.
func TestOnlineLearns(t *testing.T) {
	c := onlineShort()
	start := checkpoint.Random(c.architecture(), rand.New(rand.NewPCG(1, 1)))
	start.Manifest.Training = map[string]float64{"step": 7, "onlineSteps": 100}
	before := torch.Live()
	var saved []*checkpoint.Checkpoint
	var progress OnlineProgress
	o := Online{
		Config: c, Progress: func(p OnlineProgress) { progress = p },
		Save: func(c *checkpoint.Checkpoint) error { saved = append(saved, c); return c.Validate() },
	}
	b := onlineStream(t, 3000)
	b.Truncate(b.Len() - 5)
	r, err := experience.NewReader(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Learn(r, start); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	if left := torch.Live() - before; left != 0 {
		t.Errorf("%d tensors are left over", left)
	}
	const updates = (3000 - 128) / 4 // about
	if len(saved) < updates/16-5 || progress.Steps != 2999 || progress.Lost == 0 || progress.Updates < updates-50 {
		t.Errorf("saved %d times, %+v", len(saved), progress)
	}
	last := saved[len(saved)-1]
	if m := last.Manifest.Training; m["onlineSteps"] != 3099 || m["step"] != 7 {
		t.Errorf("figures %v", m)
	}
	untrained, learned := onlineScore(t, start), onlineScore(t, last)
	t.Logf("untrained %v, learned %v", untrained, learned)
	if learned.Cost > 0.8*untrained.Cost {
		t.Errorf("untrained %v, learned %v", untrained, learned)
	}
}

// After a gap in the numbers no transition reaches over it.
func TestOnlineGaps(t *testing.T) {
	g := episodeGraph(t)
	c := onlineShort()
	c.DQN.NStep, c.Reward = 2, Reward{Kind: PlacementReward, Scale: 1 / float64(g.Nodes())}
	d := &onlineDQN{config: c, replay: NewReplay(10, 0)}
	o := Online{Config: c, learner: d}
	for _, n := range []uint64{1, 2, 3, 5, 6, 8, 9, 10} {
		if err := o.take(experience.Step{Number: n, State: g, Before: float64(n)}); err != nil {
			t.Fatal(err)
		}
	}
	var returns []float64
	for _, tr := range d.replay.transitions[:d.replay.Len()] {
		returns = append(returns, tr.Return)
	}
	if len(returns) != 2 || returns[0] != 1+0.5*2 || returns[1] != 8+0.5*9 || o.count.Lost != 2 {
		t.Errorf("returns %v, %d lost", returns, o.count.Lost)
	}
}
