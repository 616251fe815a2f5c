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
	"gnnsched/scheduler/policy/neural"
)

// Progress is how far a run is.
type Progress struct {
	Step, Steps int
	Phase       string // what it does now, in a word or two
	Epsilon     float64
	Loss        float64       // mean over the updates since the last report
	Return      float64       // mean undiscounted scaled return of the episodes since the last report
	Elapsed     time.Duration // over all processes that the run took
	Speed       float64       // steps a second in this process, evaluations included
	Best        float64       // lowest evaluation so far (Score.Total); 0 before the first
}

// Trainer runs reinforcement learning in the simulator.
type Trainer struct {
	Job
	Held      *HeldOut                           // evaluates as the run goes
	State     string                             // file for what a killed run goes on from, written at every evaluation; empty for none
	Resume    *State                             // goes on with this run, which had the same configuration; nil for a new one
	Recorder  Recorder                           // gets the run's figures; may be nil
	Progress  func(Progress)                     // called about every reportEvery steps; may be nil
	Evaluated func(int, Score)                   // called after every evaluation; may be nil
	Improved  func(*checkpoint.Checkpoint) error // gets the best network so far whenever there is a new one; may be nil

	agent   agent
	figures figures
	step    int

	start, reported time.Time
	before          time.Duration // that earlier processes took
	from            int           // step that this process began with
	reportedStep    int
	best            *checkpoint.Checkpoint
	bestScore       Score
}

const reportEvery = 500

// Train runs until the steps are done or ctx ends, and returns the best network by
// evaluation. When ctx ends early it evaluates where it has not yet, saves its state, and
// returns the best so far with ctx's error.
func (t *Trainer) Train(ctx context.Context) (*checkpoint.Checkpoint, Score, error) {
	// libtorch orders the sums of a backward pass by counters that each thread has of its
	// own: a run that changes threads would not give the same weights twice.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := t.prepare(); err != nil {
		return nil, Score{}, err
	}
	defer t.agent.drop()
	for t.step < t.Config.Steps && ctx.Err() == nil {
		if err := t.round(); err != nil {
			return nil, Score{}, err
		}
	}
	t.report()
	if err := t.save(); err != nil {
		return nil, Score{}, err
	}
	if t.best == nil {
		if err := t.evaluate(); err != nil {
			return nil, Score{}, err
		}
	}
	return t.best, t.bestScore, ctx.Err()
}

func (t *Trainer) prepare() error {
	if err := t.Job.Validate(); err != nil {
		return fmt.Errorf("training configuration: %w", err)
	}
	t.start = time.Now()
	t.reported = t.start
	c := checkpoint.Random(t.Config.architecture(), rand.New(rand.NewPCG(t.Config.Seed, 0x6c6561726e)))
	var err error
	if c.Manifest.Config, err = json.Marshal(t.Job); err != nil {
		return fmt.Errorf("encode the configuration: %w", err)
	}
	c.Manifest.Seed, c.Manifest.Objective = t.Config.Seed, t.Environment.Objective.Name()
	if t.agent, err = newAgent(t.Config, t.Environment, c, &t.figures); err != nil {
		return err
	}
	if t.Resume != nil {
		if err := t.goOn(t.Resume); err != nil {
			t.agent.drop()
			return err
		}
	}
	t.from, t.reportedStep = t.step, t.step
	return nil
}

// round lets the agent act and learn, and evaluates where it is time to.
func (t *Trainer) round() error {
	placed, err := t.agent.round(t.step, t.Config.Steps-t.step)
	if err != nil {
		return err
	}
	before := t.step
	t.step += placed
	due := t.step/t.Config.EvaluateEvery > before/t.Config.EvaluateEvery || t.step >= t.Config.Steps
	if due || t.step/reportEvery > before/reportEvery {
		t.report()
	}
	if !due {
		return nil
	}
	if err := t.evaluate(); err != nil {
		return err
	}
	return t.save()
}

// evaluate runs the network, exploration off, on the held-out seeds and keeps it if it is
// the best so far.
func (t *Trainer) evaluate() error {
	c, err := t.agent.checkpoint()
	if err != nil {
		return err
	}
	net, err := infer.New(c)
	if err != nil {
		return err
	}
	score, err := t.Held.Evaluate(neural.New("learning", net), false)
	if err != nil {
		return fmt.Errorf("evaluation: %w", err)
	}
	if t.best == nil || score.Total(t.Unscheduled) < t.bestScore.Total(t.Unscheduled) {
		t.best, t.bestScore = c, score
		t.best.Manifest.Training = map[string]float64{
			"step": float64(t.step), "seconds": t.elapsed().Seconds(), "heldOutCost": score.Cost, "heldOutMeanCost": score.MeanCost, "heldOutUnscheduled": score.Unscheduled,
		}
		if t.Improved != nil {
			if err := t.Improved(c); err != nil {
				return err
			}
		}
	}
	if t.Recorder != nil {
		t.Recorder.Scalar(TagEvalCost, t.step, score.Cost)
		t.Recorder.Scalar(TagEvalMean, t.step, score.MeanCost)
		t.Recorder.Scalar(TagEvalLeft, t.step, score.Unscheduled)
	}
	if t.Evaluated != nil {
		t.Evaluated(t.step, score)
	}
	return nil
}

func (t *Trainer) elapsed() time.Duration { return t.before + time.Since(t.start) }

func (t *Trainer) report() {
	if t.step == t.reportedStep {
		return
	}
	if t.Recorder != nil {
		t.Recorder.Scalar(TagSpeed, t.step, float64(t.step-t.reportedStep)/time.Since(t.reported).Seconds())
	}
	t.reported, t.reportedStep = time.Now(), t.step
	t.figures.report(t.step, t.Recorder)
	if t.Progress == nil {
		return
	}
	t.Progress(Progress{
		Step: t.step, Steps: t.Config.Steps, Phase: t.agent.phase(t.step), Epsilon: t.figures.last(TagEpsilon),
		Loss: t.figures.last(t.agent.loss(t.step)), Return: t.figures.last(TagReturn), Elapsed: t.elapsed(),
		Speed: float64(t.step-t.from) / time.Since(t.start).Seconds(), Best: t.bestScore.Total(t.Unscheduled),
	})
}
