//go:build torch

package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/sim"
)

// Plan says what a run learns, on what, and from which weights. It must be valid.
type Plan struct {
	Settings
	Selection
	Method      Method
	Environment sim.Config
	Start       *checkpoint.Checkpoint // its manifest holds the job as JSON; Resume must have the same
}

// Progress is how far a run is.
type Progress struct {
	Step, Steps int
	Phase       string // phase of the agent, in a word or two
	Epsilon     float64
	Loss        float64       // mean over the updates since the last report
	Return      float64       // mean undiscounted scaled return of the episodes since the last report
	Elapsed     time.Duration // over all processes that the run took
	Speed       float64       // steps a second in this process, evaluations included
	Best        float64       // lowest evaluation so far (Score.Total); 0 before the first
}

// Trainer runs reinforcement learning in the simulator. The fields are set before Train, which is
// called once.
type Trainer struct {
	Plan
	HeldOut   *HeldOut                           // evaluates the network during the run
	State     string                             // state file, written after every evaluation; empty for none
	Resume    *State                             // run of the same job to continue; nil for a new one
	Recorder  Recorder                           // takes the run's figures; may be nil
	Progress  func(Progress)                     // called about every reportEvery steps; may be nil
	Evaluated func(int, Score)                   // called after every evaluation, with the step; may be nil
	Improved  func(*checkpoint.Checkpoint) error // called with every network that is the best so far; may be nil

	agent   Agent
	figures Figures
	step    int

	start, reported time.Time
	before          time.Duration // that earlier processes took
	from            int           // step that this process began with
	reportedStep    int
	best            *checkpoint.Checkpoint
	bestScore       Score
}

const reportEvery = 500

// Train runs until the steps are done or ctx ends, and returns the network with the best
// evaluation. When ctx ends early, Train saves the state, evaluates if it has not yet, and returns
// the best network so far with ctx's error.
func (t *Trainer) Train(ctx context.Context) (*checkpoint.Checkpoint, Score, error) {
	// libtorch orders the sums of a backward pass by counters that each thread has of its
	// own: a run that changes threads would not give the same weights twice.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := t.prepare(); err != nil {
		return nil, Score{}, err
	}
	defer t.agent.Drop()
	for t.step < t.Steps && ctx.Err() == nil {
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
	t.start = time.Now()
	t.reported = t.start
	envs, err := NewEnvironments(t.Settings, t.Environment, t.Method.Layout(), t.Start.Manifest.Architecture, &t.figures)
	if err != nil {
		return err
	}
	if t.agent, err = t.Method.NewAgent(t.Settings, envs, t.Start); err != nil {
		return err
	}
	if t.Resume != nil {
		if err := t.restore(t.Resume); err != nil {
			t.agent.Drop()
			return err
		}
	}
	t.from, t.reportedStep = t.step, t.step
	return nil
}

// round lets the agent act and learn, and evaluates when that is due.
func (t *Trainer) round() error {
	placed, err := t.agent.Round(t.step, t.Steps-t.step)
	if err != nil {
		return err
	}
	before := t.step
	t.step += placed
	due := t.step/t.EvaluateEvery > before/t.EvaluateEvery || t.step >= t.Steps
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

// evaluate plays the held-out episodes with the network, without exploration, and keeps it if it is
// the best so far.
func (t *Trainer) evaluate() error {
	c, err := t.agent.Checkpoint()
	if err != nil {
		return err
	}
	net, err := infer.New(c)
	if err != nil {
		return err
	}
	score, err := t.HeldOut.Evaluate(neural.New("learning", net), false)
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
		t.Recorder.Scalar(tagEvalCost, t.step, score.Cost)
		t.Recorder.Scalar(tagEvalMean, t.step, score.MeanCost)
		t.Recorder.Scalar(tagEvalLeft, t.step, score.Unscheduled)
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
		t.Recorder.Scalar(tagSpeed, t.step, float64(t.step-t.reportedStep)/time.Since(t.reported).Seconds())
	}
	t.reported, t.reportedStep = time.Now(), t.step
	t.figures.Report(t.step, t.Recorder)
	if t.Progress == nil {
		return
	}
	t.Progress(Progress{
		Step: t.step, Steps: t.Steps, Phase: t.agent.Phase(t.step), Epsilon: t.figures.Last(TagEpsilon),
		Loss: t.figures.Last(t.agent.LossTag(t.step)), Return: t.figures.Last(tagReturn), Elapsed: t.elapsed(),
		Speed: float64(t.step-t.from) / time.Since(t.start).Seconds(), Best: t.bestScore.Total(t.Unscheduled),
	})
}

// save writes the state file, if there is to be one.
func (t *Trainer) save() error {
	if t.State == "" {
		return nil
	}
	s := State{Stored: t.Start.Manifest.Config, Step: t.step, Elapsed: t.elapsed(), Score: t.bestScore}
	if t.best != nil {
		var b bytes.Buffer
		if err := t.best.Write(&b); err != nil {
			return fmt.Errorf("save the run's state: %w", err)
		}
		s.Best = b.Bytes()
	}
	return t.agent.Save(t.State, s)
}

// restore continues the run of a state.
func (t *Trainer) restore(s *State) (err error) {
	if !bytes.Equal(s.Stored, t.Start.Manifest.Config) {
		return errors.New("the stored run has another configuration: resume it with its own, or start anew")
	}
	if len(s.Best) > 0 {
		if t.best, err = checkpoint.Read(bytes.NewReader(s.Best)); err != nil {
			return fmt.Errorf("stored run: %w", err)
		}
		t.bestScore = s.Score
	}
	t.step, t.before = s.Step, s.Elapsed
	if err := t.agent.Restore(s); err != nil {
		return fmt.Errorf("stored run: %w", err)
	}
	return nil
}
