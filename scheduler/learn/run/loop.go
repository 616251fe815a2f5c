package run

import (
	"bufio"
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"time"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/files"
)

// Learner acts and learns in rounds. Between two rounds a state file can hold everything that it
// continues from, so that a stopped run ends like an unbroken one.
type Learner interface {
	// Round takes steps and learns from them. step is the number of steps before it. It returns how
	// many it took: at most limit, unless one round takes more.
	Round(step, limit int) (int, error)
	// Checkpoint returns the network as it is now.
	Checkpoint() (*checkpoint.Checkpoint, error)
	// State returns the values from which Restore continues. Package gob encodes them.
	State() ([]any, error)
	// Restore brings a new learner to a state. read decodes its values into pointers.
	Restore(read func(into ...any) error) error
	// Drop frees the networks.
	Drop()
}

// Evaluation is the result of a network on held-out episodes.
type Evaluation struct {
	Total   float64            // number by which networks are chosen; less is better
	Figures map[string]float64 // for the network's manifest
	Curves  []Scalar           // for the recorder
	Text    string             // the result in words
	Short   string             // the same in a word or two
}

// Scalar is a value under a tag.
type Scalar struct {
	Tag   string
	Value float64
}

// Options are the files and listeners of a run. All of them are optional.
type Options struct {
	State     string                             // state file, written after every evaluation
	Resume    *State                             // run of the same job to continue
	Recorder  Recorder                           // takes the run's figures
	Evaluated func(Evaluation)                   // called after every evaluation
	Improved  func(*checkpoint.Checkpoint) error // called with every network that is the best so far
	Progress  func(Pace)                         // called after each report of the figures
}

// HeldOutScore is the figure in a manifest by which the network was chosen (Evaluation.Total). Less is better.
const HeldOutScore = "heldOutScore"

// Pace is how far a run is, and how fast.
type Pace struct {
	Step, Steps int
	Elapsed     time.Duration // over all processes that the run took
	Speed       float64       // steps a second in this process, evaluations included
	Figures     string        // of the rounds since the last report, in words
	Best        string        // the best evaluation so far; empty for none
}

// Loop is the course of every training run: rounds of a learner, and between them evaluations, of which
// it keeps the best network. The fields are set before Run, which is called once.
type Loop struct {
	Options
	Job           []byte // as JSON; Resume must have the same
	Unit          string // name of a step; a manifest's figure of that name says when the network was the best
	Steps         int    // of the run
	EvaluateEvery int    // steps between evaluations
	ReportEvery   int    // steps between reports, about

	New      func() (Learner, error)                          // returns the learner at the start of the run
	Evaluate func(*checkpoint.Checkpoint) (Evaluation, error) // plays held-out episodes with a network
	Describe func(step int) string                            // the figures of the last report, in words
	Figures  *Figures                                         // of the rounds

	learner Learner
	step    int

	start, reported time.Time
	before          time.Duration // that earlier processes took
	from            int           // step that this process began with
	reportedStep    int
	best            *checkpoint.Checkpoint
	bestScore       Evaluation
}

// Run continues until the steps are done or ctx ends, and returns the network with the best
// evaluation. When ctx ends early, Run saves the state, evaluates if it has not yet, and returns
// the best network so far with ctx's error.
func (l *Loop) Run(ctx context.Context) (best *checkpoint.Checkpoint, score Evaluation, err error) {
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

func (l *Loop) prepare() (err error) {
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
func (l *Loop) round() error {
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
func (l *Loop) evaluate() error {
	c, err := l.learner.Checkpoint()
	if err != nil {
		return err
	}
	score, err := l.Evaluate(c)
	if err != nil {
		return fmt.Errorf("evaluation after step %d: %w", l.step, err)
	}
	if l.best == nil || score.Total < l.bestScore.Total {
		l.best, l.bestScore = c, score
		training := maps.Clone(score.Figures)
		training[l.Unit], training[HeldOutScore], training["seconds"] = float64(l.step), score.Total, l.elapsed().Seconds()
		c.Manifest.Training = training
		if l.Improved != nil {
			if err := l.Improved(c); err != nil {
				return err
			}
		}
	}
	if l.Recorder != nil {
		for _, x := range score.Curves {
			l.Recorder.Scalar(x.Tag, l.step, x.Value)
		}
	}
	if l.Evaluated != nil {
		l.Evaluated(score)
	}
	return nil
}

func (l *Loop) elapsed() time.Duration { return l.before + time.Since(l.start) }

func (l *Loop) report() {
	if l.step == l.reportedStep {
		return
	}
	if l.Recorder != nil {
		l.Recorder.Scalar(tagSpeed, l.step, float64(l.step-l.reportedStep)/time.Since(l.reported).Seconds())
	}
	l.reported, l.reportedStep = time.Now(), l.step
	l.Figures.Report(l.step, l.Recorder)
	if l.Progress != nil {
		l.Progress(Pace{
			Step: l.step, Steps: l.Steps, Elapsed: l.elapsed(), Speed: float64(l.step-l.from) / time.Since(l.start).Seconds(),
			Figures: l.Describe(l.step), Best: l.bestScore.Short,
		})
	}
}

// save writes the state file, if there is to be one.
func (l *Loop) save() error {
	if l.State == "" {
		return nil
	}
	s := State{Stored: l.Job, Step: l.step, Elapsed: l.elapsed(), Result: l.bestScore}
	if l.best != nil {
		var b bytes.Buffer
		if err := l.best.Write(&b); err != nil {
			return fmt.Errorf("save the run's state: %w", err)
		}
		s.Best = b.Bytes()
	}
	learner, err := l.learner.State()
	if err != nil {
		return fmt.Errorf("save the run's state: %w", err)
	}
	return WriteFile(l.State, append([]any{s}, learner...)...)
}

// restore continues the run of a state.
func (l *Loop) restore(s *State) (err error) {
	if !bytes.Equal(s.Stored, l.Job) {
		return errors.New("the stored run has another configuration: resume it with its own, or start anew")
	}
	if len(s.Best) > 0 {
		if l.best, err = checkpoint.Read(bytes.NewReader(s.Best)); err != nil {
			return fmt.Errorf("stored run: %w", err)
		}
		l.bestScore = s.Result
	}
	l.step, l.before = s.Step, s.Elapsed
	if err := l.learner.Restore(s.read); err != nil {
		return fmt.Errorf("stored run: %w", err)
	}
	return nil
}

// State is a training run between two rounds, from which a stopped run continues. It is the first value of a state file; those of the
// run's learner follow.
type State struct {
	Stored  []byte // the job as JSON
	Step    int
	Elapsed time.Duration
	Best    []byte     // checkpoint file; empty if there is none yet
	Result  Evaluation // of the best

	path string // of the file
}

// ErrNoState is the error of LoadState if the file does not exist.
var ErrNoState = errors.New("there is no state of a run")

// LoadState reads the run's part of a state file that a Loop saved.
func LoadState(path string) (*State, error) {
	s := &State{path: path}
	err := ReadFile(path, s)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoState, err)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// read decodes the learner's values.
func (s *State) read(into ...any) error { return ReadFile(s.path, append([]any{nil}, into...)...) }

// ReadFile decodes the values of a file that WriteFile wrote into pointers. It skips a value for nil, and fields of the file that a
// pointer's type lacks.
func ReadFile(path string, into ...any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := decode(bufio.NewReaderSize(f, 1<<20), into...); err != nil {
		return fmt.Errorf("state %s: %w", path, err)
	}
	return nil
}

func decode(r io.Reader, into ...any) error {
	d := gob.NewDecoder(r)
	for i, x := range into {
		err := d.Decode(x)
		if err == io.EOF && i > 0 { //nolint:errorlint // the bare one is the end of the file
			return errors.New("it is incomplete, or another version's: start anew without it")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// WriteFile replaces a file with encoded values. Readers see the old file or the new one, never
// a part of it.
func WriteFile(path string, values ...any) error {
	err := files.WriteBy(path, 0o600, func(w io.Writer) error {
		encoder := gob.NewEncoder(w)
		for _, v := range values {
			if err := encoder.Encode(v); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("save the run's state %s: %w", path, err)
	}
	return nil
}
