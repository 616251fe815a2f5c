package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"gnnsched/gnn/checkpoint"
)

// Learner acts and learns in rounds. Between two rounds a state file can hold everything that it
// continues from, so that a stopped run ends like an unbroken one. S is the result of an evaluation.
type Learner[S any] interface {
	// Round takes steps and learns from them. step is the number of steps before it. It returns how
	// many it took: at most limit, unless one round takes more.
	Round(step, limit int) (int, error)
	// Checkpoint returns the network as it is now.
	Checkpoint() (*checkpoint.Checkpoint, error)
	// Save writes a state file with SaveState: the run's part, and the learner's.
	Save(path string, s State[S]) error
	// Restore brings a new learner to the state of a file, which it reads with LearnerState.
	Restore(s *State[S]) error
	// Drop frees the networks.
	Drop()
}

// Options are the files and listeners of a run. All of them are optional.
type Options[S any] struct {
	State     string                             // state file, written after every evaluation
	Resume    *State[S]                          // run of the same job to continue
	Recorder  Recorder                           // takes the run's figures
	Evaluated func(int, S)                       // called after every evaluation, with the step
	Improved  func(*checkpoint.Checkpoint) error // called with every network that is the best so far
}

// HeldOutScore is the figure in a manifest by which the network was chosen (Loop.Total). Less is better.
const HeldOutScore = "heldOutScore"

// Pace is how far a run is, and how fast.
type Pace struct {
	Step, Steps int
	Elapsed     time.Duration // over all processes that the run took
	Speed       float64       // steps a second in this process, evaluations included
	Best        float64       // lowest evaluation so far (Loop.Total), if Evaluated
	Evaluated   bool          // whether there was an evaluation
}

// Loop is the course of every training run: rounds of a learner, and between them evaluations, of which
// it keeps the best network. The fields are set before Run, which is called once.
type Loop[S any] struct {
	Options[S]
	Job           []byte // as JSON; Resume must have the same
	Steps         int    // of the run
	EvaluateEvery int    // steps between evaluations
	ReportEvery   int    // steps between reports, about

	New      func() (Learner[S], error)              // returns the learner at the start of the run
	Evaluate func(*checkpoint.Checkpoint) (S, error) // plays held-out episodes with a network
	Total    func(S) float64                         // number by which networks are chosen; less is better
	Describe func(step int, s S) map[string]float64  // figures for the manifest of a network that is the best so far
	Figures  *Figures                                // of the rounds
	Progress func(Pace)                              // called after each report of Figures

	learner Learner[S]
	step    int

	start, reported time.Time
	before          time.Duration // that earlier processes took
	from            int           // step that this process began with
	reportedStep    int
	best            *checkpoint.Checkpoint
	bestScore       S
}

// Run continues until the steps are done or ctx ends, and returns the network with the best
// evaluation. When ctx ends early, Run saves the state, evaluates if it has not yet, and returns
// the best network so far with ctx's error.
func (l *Loop[S]) Run(ctx context.Context) (best *checkpoint.Checkpoint, score S, err error) {
	// libtorch orders the sums of a backward pass by counters that each thread has of its
	// own: a run that changes threads would not give the same weights twice.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := l.prepare(); err != nil {
		return nil, score, err
	}
	defer l.learner.Drop()
	for l.step < l.Steps && ctx.Err() == nil {
		if err := l.round(); err != nil {
			return nil, score, err
		}
	}
	l.report()
	if err := l.save(); err != nil {
		return nil, score, err
	}
	if l.best == nil {
		if err := l.evaluate(); err != nil {
			return nil, score, err
		}
	}
	return l.best, l.bestScore, ctx.Err()
}

func (l *Loop[S]) prepare() (err error) {
	l.start = time.Now()
	l.reported = l.start
	if l.learner, err = l.New(); err != nil {
		return err
	}
	if l.Resume != nil {
		if err := l.restore(l.Resume); err != nil {
			l.learner.Drop()
			return err
		}
	}
	l.from, l.reportedStep = l.step, l.step
	return nil
}

// round lets the learner act and learn, and evaluates when that is due.
func (l *Loop[S]) round() error {
	taken, err := l.learner.Round(l.step, l.Steps-l.step)
	if err != nil {
		return fmt.Errorf("after step %d: %w", l.step, err)
	}
	before := l.step
	l.step += taken
	due := l.step/l.EvaluateEvery > before/l.EvaluateEvery || l.step >= l.Steps
	if due || l.step/l.ReportEvery > before/l.ReportEvery {
		l.report()
	}
	if !due {
		return nil
	}
	if err := l.evaluate(); err != nil {
		return err
	}
	return l.save()
}

// evaluate plays the held-out episodes with the network, without exploration, and keeps it if it is
// the best so far.
func (l *Loop[S]) evaluate() error {
	c, err := l.learner.Checkpoint()
	if err != nil {
		return err
	}
	score, err := l.Evaluate(c)
	if err != nil {
		return fmt.Errorf("evaluation after step %d: %w", l.step, err)
	}
	if l.best == nil || l.Total(score) < l.Total(l.bestScore) {
		l.best, l.bestScore = c, score
		c.Manifest.Training = l.Describe(l.step, score)
		c.Manifest.Training[HeldOutScore] = l.Total(score)
		c.Manifest.Training["seconds"] = l.elapsed().Seconds()
		if l.Improved != nil {
			if err := l.Improved(c); err != nil {
				return err
			}
		}
	}
	if l.Evaluated != nil {
		l.Evaluated(l.step, score)
	}
	return nil
}

func (l *Loop[S]) elapsed() time.Duration { return l.before + time.Since(l.start) }

func (l *Loop[S]) report() {
	if l.step == l.reportedStep {
		return
	}
	if l.Recorder != nil {
		l.Recorder.Scalar(tagSpeed, l.step, float64(l.step-l.reportedStep)/time.Since(l.reported).Seconds())
	}
	l.reported, l.reportedStep = time.Now(), l.step
	l.Figures.Report(l.step, l.Recorder)
	l.Progress(Pace{
		Step: l.step, Steps: l.Steps, Elapsed: l.elapsed(),
		Speed: float64(l.step-l.from) / time.Since(l.start).Seconds(), Best: l.Total(l.bestScore), Evaluated: l.best != nil,
	})
}

// save writes the state file, if there is to be one.
func (l *Loop[S]) save() error {
	if l.State == "" {
		return nil
	}
	s := State[S]{Stored: l.Job, Step: l.step, Elapsed: l.elapsed(), Score: l.bestScore}
	if l.best != nil {
		var b bytes.Buffer
		if err := l.best.Write(&b); err != nil {
			return fmt.Errorf("save the run's state: %w", err)
		}
		s.Best = b.Bytes()
	}
	return l.learner.Save(l.State, s)
}

// restore continues the run of a state.
func (l *Loop[S]) restore(s *State[S]) (err error) {
	if !bytes.Equal(s.Stored, l.Job) {
		return errors.New("the stored run has another configuration: resume it with its own, or start anew")
	}
	if len(s.Best) > 0 {
		if l.best, err = checkpoint.Read(bytes.NewReader(s.Best)); err != nil {
			return fmt.Errorf("stored run: %w", err)
		}
		l.bestScore = s.Score
	}
	l.step, l.before = s.Step, s.Elapsed
	if err := l.learner.Restore(s); err != nil {
		return fmt.Errorf("stored run: %w", err)
	}
	return nil
}
