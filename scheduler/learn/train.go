//go:build torch

package learn

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// rewardScale, times the number of nodes, brings the reward of one placement to about one: a
// placement moves the cost of a cluster by the less the more nodes it has.
const rewardScale = 10

// syncEvery is how many updates the acting network may lag behind the learning one.
const syncEvery = 16

// Progress is how far a run is.
type Progress struct {
	Step, Steps int
	Epsilon     float64
	Loss        float64 // mean over the updates since the last report
	Return      float64 // mean undiscounted scaled return of the episodes since the last report
	Elapsed     time.Duration
	Best        float64 // lowest evaluation so far; NaN before the first
}

// Trainer runs deep Q-learning in the simulator.
type Trainer struct {
	Config    Config
	Env       sim.Config       // what to learn on
	Teacher   policy.Policy    // imitated at first
	Held      *HeldOut         // evaluates as the run goes
	Progress  func(Progress)   // called about every reportEvery steps; may be nil
	Evaluated func(int, Score) // called after every evaluation; may be nil

	env     *sim.Env
	rng     *rand.Rand
	dqn     *DQN
	replay  *Replay
	acting  *policy.Learned
	scores  []float32
	queue   nStep
	episode uint64
	updates int
	step    int

	losses, returns mean
	episodeReturn   float64
	start           time.Time
	best            *checkpoint.Checkpoint
	bestScore       Score
}

const reportEvery = 500

// Train runs until the steps are done or ctx ends, and returns the best network by
// evaluation. When ctx ends early it evaluates once more and returns the best so far with
// ctx's error.
func (t *Trainer) Train(ctx context.Context) (*checkpoint.Checkpoint, Score, error) {
	// libtorch orders the sums of a backward pass by counters that each thread has of its
	// own: a run that changes threads would not give the same weights twice.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := t.prepare(); err != nil {
		return nil, Score{}, err
	}
	defer t.dqn.Drop()
	for t.step < t.Config.Steps && ctx.Err() == nil {
		if err := t.place(); err != nil {
			return nil, Score{}, err
		}
		t.step++
		if t.step%t.Config.UpdateFrequency == 0 && t.replay.Len() >= max(t.Config.BatchSize, t.Config.ReplayBufferSize/20) {
			if err := t.learn(); err != nil {
				return nil, Score{}, err
			}
		}
		if t.step%t.Config.EvaluateEvery == 0 || t.step == t.Config.Steps {
			if err := t.evaluate(); err != nil {
				return nil, Score{}, err
			}
		}
		if t.step%reportEvery == 0 {
			t.report()
		}
	}
	if ctx.Err() != nil {
		if err := t.evaluate(); err != nil {
			return nil, Score{}, err
		}
	}
	return t.best, t.bestScore, ctx.Err()
}

func (t *Trainer) prepare() (err error) {
	if err := t.Config.Validate(); err != nil {
		return fmt.Errorf("training configuration: %w", err)
	}
	if t.env, err = sim.New(t.Env); err != nil {
		return fmt.Errorf("simulator: %w", err)
	}
	t.start = time.Now()
	t.rng = rand.New(rand.NewPCG(t.Config.Seed, 0x6c6561726e))
	c := checkpoint.Random(t.Config.architecture(), t.rng)
	if c.Manifest.Config, err = json.Marshal(t.Config); err != nil {
		return fmt.Errorf("encode the configuration: %w", err)
	}
	c.Manifest.Seed, c.Manifest.Objective = t.Config.Seed, t.Env.Objective.Name()
	if t.dqn, err = NewDQN(t.Config, c); err != nil {
		return err
	}
	t.replay = NewReplay(t.Config.ReplayBufferSize, t.Config.PriorityExponent)
	t.queue = nStep{n: t.Config.NStep, gamma: t.Config.Gamma}
	if err := t.sync(); err != nil {
		return err
	}
	return t.reset()
}

// reset starts the next training episode. Their seeds are apart from the held-out ones.
func (t *Trainer) reset() error {
	t.episode++
	t.queue.end(t.replay.Add)
	return t.env.Reset(t.Config.Seed<<32 + t.episode)
}

// place makes one placement: the network's, the teacher's or a random one.
func (t *Trainer) place() error {
	snapshot, pod, rows := t.env.Snapshot(), t.env.Pending(), t.env.Candidates()
	state := t.acting.Graph(snapshot, pod, rows).Clone()
	if tr, ok := t.queue.ready(state); ok {
		t.replay.Add(tr)
	}
	if cap(t.scores) < len(rows) {
		t.scores = make([]float32, 2*len(rows))
	}
	scores, teacher := t.scores[:len(rows)], -1
	part := t.Config.imitation(t.step)
	if part > 0 {
		if err := t.Teacher.Score(snapshot, pod, rows, scores); err != nil {
			return fmt.Errorf("teacher: %w", err)
		}
		teacher = policy.Best(scores)
	}
	var action int
	switch x := t.rng.Float64(); {
	case x < t.Config.epsilon(t.step)*(1-part):
		action = t.rng.IntN(len(rows))
	case teacher >= 0 && t.rng.Float64() < part:
		action = teacher
	default:
		if err := t.acting.Score(snapshot, pod, rows, scores); err != nil {
			return fmt.Errorf("acting network: %w", err)
		}
		action = policy.Best(scores)
	}
	t.queue.begin(state, action, teacher)
	scale := rewardScale * float64(len(snapshot.Nodes))
	r := scale * t.env.Step(action)
	t.queue.reward(r)
	t.episodeReturn += r
	if t.env.Done() {
		t.returns.add(t.episodeReturn)
		t.episodeReturn = 0
		return t.reset()
	}
	return nil
}

func (t *Trainer) learn() error {
	u, err := t.dqn.Update(t.replay, t.rng, t.step)
	if err != nil {
		return err
	}
	t.losses.add(u.Loss)
	if t.updates++; t.updates%syncEvery == 0 {
		return t.sync()
	}
	return nil
}

// sync lets the acting network catch up with the learning one.
func (t *Trainer) sync() error {
	c, err := t.dqn.Checkpoint()
	if err != nil {
		return err
	}
	net, err := infer.New(c)
	if err != nil {
		return fmt.Errorf("the weights went wrong, lower the learning rate: %w", err)
	}
	t.acting = policy.NewLearned("learning", net)
	return nil
}

// evaluate runs the network, exploration off, on the held-out seeds and keeps it if it is
// the best so far.
func (t *Trainer) evaluate() error {
	c, err := t.dqn.Checkpoint()
	if err != nil {
		return err
	}
	net, err := infer.New(c)
	if err != nil {
		return err
	}
	score, err := t.Held.Evaluate(policy.NewLearned("learning", net), false)
	if err != nil {
		return fmt.Errorf("evaluation: %w", err)
	}
	if t.best == nil || score.less(t.bestScore) {
		t.best, t.bestScore = c, score
		t.best.Manifest.Training = map[string]float64{
			"step": float64(t.step), "updates": float64(t.updates), "seconds": time.Since(t.start).Seconds(),
			"heldOutCost": score.Cost, "heldOutUnscheduled": score.Unscheduled,
		}
	}
	if t.Evaluated != nil {
		t.Evaluated(t.step, score)
	}
	return nil
}

func (t *Trainer) report() {
	if t.Progress == nil {
		return
	}
	t.Progress(Progress{
		Step: t.step, Steps: t.Config.Steps, Epsilon: t.Config.epsilon(t.step) * (1 - t.Config.imitation(t.step)),
		Loss: t.losses.take(), Return: t.returns.take(), Elapsed: time.Since(t.start), Best: t.bestScore.Cost,
	})
}

// mean collects values between two reports.
type mean struct{ n, sum, last float64 }

func (m *mean) add(x float64) { m.n, m.sum = m.n+1, m.sum+x }

// take returns the mean since the last call, the one before where there is none, and starts
// anew.
func (m *mean) take() float64 {
	if m.n > 0 {
		m.last = m.sum / m.n
	}
	m.n, m.sum = 0, 0
	return m.last
}
