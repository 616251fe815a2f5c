//go:build torch

package learn

import (
	"bytes"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/learn/learntest"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/sim"
)

// onlineStream returns the stream of a scheduler that chooses at random, over a number of placements.
func onlineStream(t *testing.T, steps int) *bytes.Buffer {
	t.Helper()
	env, err := sim.New(learntest.Env())
	fatal.If(t, err)
	var b bytes.Buffer
	w, err := experience.NewWriter(&b)
	fatal.If(t, err)
	rng, number := rand.New(rand.NewPCG(1, 2)), uint64(0)
	encoder := neural.New("encodes", learntest.Network(t, learntest.Weights(short(t, 1).Architecture(), 1)), nil).(*neural.GraphPolicy)
	for episode := uint64(1); steps > 0; episode++ {
		fatal.If(t, env.Reset(episode))
		number++ // a gap, so that no transition reaches into the next episode
		for ; !env.Done() && steps > 0; steps-- {
			number++
			candidates := env.Candidates()
			s := experience.Step{Number: number, Features: feature.Default().Hash(),
				State: encoder.Graph(env.Snapshot(), env.Pending(), candidates).Clone(), Action: rng.IntN(len(candidates)), Before: env.Cost()}
			s.After = s.Before - env.Step(s.Action)
			fatal.If(t, w.Write(s))
		}
	}
	return &b
}

// working is the stream of a scheduler that draws from its network's probabilities. It loads each
// saved network lag placements later. Each step is made when it is read.
type working struct {
	t     *testing.T
	env   *sim.Env
	rng   *rand.Rand
	steps int // still to make
	lag   int
	since int // placements since next was saved

	acting, next *checkpoint.Checkpoint
	policy       *neural.GraphPolicy
	scores       []float32
	number, seed uint64

	out    bytes.Buffer
	writer *experience.Writer
}

func newWorking(t *testing.T, c *checkpoint.Checkpoint, steps, lag int) *working {
	t.Helper()
	w := &working{t: t, rng: rand.New(rand.NewPCG(1, 2)), steps: steps, lag: lag}
	var err error
	if w.env, err = sim.New(learntest.Env()); err != nil {
		t.Fatal(err)
	}
	if w.writer, err = experience.NewWriter(&w.out); err != nil {
		t.Fatal(err)
	}
	w.load(c)
	return w
}

func (w *working) save(c *checkpoint.Checkpoint) error {
	w.next, w.since = c, 0
	return c.Validate()
}

func (w *working) load(c *checkpoint.Checkpoint) {
	w.acting, w.next = c, nil
	w.policy = neural.New("working", learntest.Network(w.t, c), nil).(*neural.GraphPolicy)
}

func (w *working) Read(b []byte) (int, error) {
	if w.out.Len() == 0 {
		if w.steps == 0 {
			return 0, io.EOF
		}
		w.place()
	}
	return w.out.Read(b)
}

func (w *working) place() {
	for w.number == 0 || w.env.Done() {
		w.seed++
		w.number++ // a gap, so that no transition reaches into the next episode
		if err := w.env.Reset(w.seed); err != nil {
			w.t.Fatal(err)
		}
	}
	if w.since++; w.next != nil && w.since > w.lag {
		w.load(w.next)
	}
	w.steps--
	w.number++
	rows := w.env.Candidates()
	w.scores = slices.Grow(w.scores[:0], len(rows))[:len(rows)]
	if err := w.policy.Score(w.env.Snapshot(), w.env.Pending(), rows, w.scores); err != nil {
		w.t.Fatal(err)
	}
	choice, log := policy.Sample(w.rng, w.scores)
	s := experience.Step{
		Features: feature.Default().Hash(),
		Number:   w.number, State: w.policy.Graph(w.env.Snapshot(), w.env.Pending(), rows).Clone(), Action: choice, Before: w.env.Cost(),
		Network: w.acting.Fingerprint(), Log: float64(log),
	}
	s.After = s.Before - w.env.Step(choice)
	if err := w.writer.Write(s); err != nil {
		w.t.Fatal(err)
	}
}
