//go:build torch

package learn

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/gnn/torch"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/sim"
)

// live is the stream of a scheduler that draws from its network's probabilities and loads what is
// saved, lag placements later. Each step is made when it is asked for.
type live struct {
	t     *testing.T
	env   *sim.Env
	rng   *rand.Rand
	steps int // still to make
	lag   int
	since int // placements since next was saved

	acting, next *checkpoint.Checkpoint
	policy       *neural.Policy
	scores       []float32
	number, seed uint64

	out    bytes.Buffer
	writer *experience.Writer
}

func newLive(t *testing.T, c *checkpoint.Checkpoint, steps, lag int) *live {
	t.Helper()
	l := &live{t: t, rng: rand.New(rand.NewPCG(1, 2)), steps: steps, lag: lag}
	var err error
	if l.env, err = sim.New(smallEnv()); err != nil {
		t.Fatal(err)
	}
	if l.writer, err = experience.NewWriter(&l.out); err != nil {
		t.Fatal(err)
	}
	l.load(c)
	return l
}

func (l *live) save(c *checkpoint.Checkpoint) error {
	l.next, l.since = c, 0
	return c.Validate()
}

func (l *live) load(c *checkpoint.Checkpoint) {
	net, err := infer.New(c)
	if err != nil {
		l.t.Fatal(err)
	}
	l.acting, l.next, l.policy = c, nil, neural.New("live", net)
}

func (l *live) Read(b []byte) (int, error) {
	if l.out.Len() == 0 {
		if l.steps == 0 {
			return 0, io.EOF
		}
		l.place()
	}
	return l.out.Read(b)
}

func (l *live) place() {
	for l.number == 0 || l.env.Done() {
		l.seed++
		l.number++ // a gap: nobody bootstraps from one episode to the next
		if err := l.env.Reset(l.seed); err != nil {
			l.t.Fatal(err)
		}
	}
	if l.since++; l.next != nil && l.since > l.lag {
		l.load(l.next)
	}
	l.steps--
	l.number++
	rows := l.env.Candidates()
	l.scores = slices.Grow(l.scores[:0], len(rows))[:len(rows)]
	if err := l.policy.Score(l.env.Snapshot(), l.env.Pending(), rows, l.scores); err != nil {
		l.t.Fatal(err)
	}
	choice, log := policy.Sample(l.rng, l.scores)
	s := experience.Step{
		Number: l.number, State: l.policy.Graph(l.env.Snapshot(), l.env.Pending(), rows).Clone(), Action: choice, Before: l.env.Cost(),
		Network: l.acting.Fingerprint(), Log: float64(log),
	}
	s.After = s.Before - l.env.Step(choice)
	if err := l.writer.Write(s); err != nil {
		l.t.Fatal(err)
	}
}

func onlinePPOConfig(t *testing.T, variant string) Config {
	t.Helper()
	c := tiny(t, variant)
	c.Hidden, c.Gamma, c.LearningRate, c.BatchSize, c.Imitation, c.Reward.Kind = 16, 0, 3e-3, 64, Imitation{}, PlacementReward
	c.PPO.Envs, c.PPO.Group, c.PPO.Rollout, c.PPO.TargetKL = 1, 1, 128, 0
	return c
}

// PPO learns from what the scheduler does with each network that it is given, soon or late, and
// from nothing that another network did.
func TestOnlinePPOLearns(t *testing.T) {
	for _, variant := range []string{"acgnn", "acdqn"} {
		t.Run(variant, func(t *testing.T) {
			c := onlinePPOConfig(t, variant)
			start := checkpoint.Random(c.architecture(), rand.New(rand.NewPCG(1, 1)))
			before, saved := torch.Live(), 0
			const steps, lag = 12_000, 20
			scheduler := newLive(t, start, steps, lag)
			var progress OnlineProgress
			o := Online{
				Config: c, Progress: func(p OnlineProgress) { progress = p },
				Save: func(c *checkpoint.Checkpoint) error { saved++; return scheduler.save(c) },
			}
			r, err := experience.NewReader(scheduler)
			if err == nil {
				err = o.Learn(r, start)
			}
			if err != nil {
				t.Fatal(err)
			}
			if left := torch.Live() - before; left != 0 {
				t.Errorf("%d tensors are left over", left)
			}
			if stale := progress.Stale; progress.Steps < steps-128-lag-1 || saved < steps/(128+lag+20) || stale < saved*lag || stale > saved*(lag+2) {
				t.Errorf("saved %d times, %+v", saved, progress)
			}
			last := scheduler.acting
			if scheduler.next != nil {
				last = scheduler.next
			}
			untrained, learned := onlineScore(t, start), onlineScore(t, last)
			t.Logf("untrained %v, learned %v, %+v", untrained, learned, progress)
			if learned.Cost > 0.8*untrained.Cost {
				t.Errorf("untrained %v, learned %v", untrained, learned)
			}
		})
	}
}

// The trainer's network gives what the scheduler chose the probability that the scheduler recorded.
func TestOnlinePPOTakesTheRecordedProbabilities(t *testing.T) {
	c := onlinePPOConfig(t, "acgnn")
	c.PPO.Epochs, c.BatchSize = 1, 128 // one look, before any step
	start := checkpoint.Random(c.architecture(), rand.New(rand.NewPCG(1, 1)))
	scheduler := newLive(t, start, 1000, 3)
	worst := 0.0
	o := Online{Config: c, Save: scheduler.save, Progress: func(p OnlineProgress) { worst = max(worst, math.Abs(p.Figures["approx_kl"])) }}
	r, err := experience.NewReader(scheduler)
	if err == nil {
		err = o.Learn(r, start)
	}
	if err != nil {
		t.Fatal(err)
	}
	if o.count.Updates < 4 || worst > 1e-9 {
		t.Errorf("after %d updates the divergence was %v at most", o.count.Updates, worst)
	}
}

// A missing step ends a stretch at the one before it, which its state is what came of; so does one
// of another network. What is known of neither is not learned from.
func TestOnlinePPOStretches(t *testing.T) {
	c := onlinePPOConfig(t, "acdqn")
	c.PPO.Rollout, c.Gamma, c.PPO.Lambda, c.Reward.Scale = 100, 0.5, 0.5, 1
	start := checkpoint.Random(c.architecture(), rand.New(rand.NewPCG(1, 1)))
	var f figures
	p, err := newOnlinePPO(c, start, rand.New(rand.NewPCG(1, 2)), &f)
	if err != nil {
		t.Fatal(err)
	}
	defer p.drop()
	if err := p.keep(start); err != nil {
		t.Fatal(err)
	}
	o := Online{Config: c, learner: p}
	states := map[uint64]*graph.Graph{}
	const other = 14 // of another network
	for _, n := range []uint64{1, 2, 3, 5, 6, 8, 10, 11, 12, 13, other, 15, 16} {
		s := experience.Step{Number: n, State: episodeGraph(t), Before: float64(n), Network: start.Fingerprint()}
		if n == other {
			s.Network++
		}
		states[n] = s.State
		if err := o.take(s); err != nil {
			t.Fatal(err)
		}
	}
	var got []uint64
	for _, g := range p.rollout.states[:p.filled] {
		for n, s := range states {
			if s == g {
				got = append(got, n)
			}
		}
	}
	if want := []uint64{1, 2, 5, 10, 11, 12, 13, 15}; !slices.Equal(got, want) {
		t.Fatalf("learns from %v, want %v", got, want)
	}
	for i, n := range got {
		after, ends := map[uint64]uint64{2: 3, 5: 6, 13: other}[n]
		if p.rollout.last[i] != ends || ends && p.cut[i] != states[after] {
			t.Errorf("step %d: ends its stretch %v, want %v", n, p.rollout.last[i], ends)
		}
		if want := float64(n) * float64(states[n].Nodes()); p.rollout.rewards[i] != want {
			t.Errorf("step %d is paid %v, want %v", n, p.rollout.rewards[i], want)
		}
	}
	if p.stale() != 1 || o.count.Lost != 3 {
		t.Errorf("%d of another network, %d lost", p.stale(), o.count.Lost)
	}
}
