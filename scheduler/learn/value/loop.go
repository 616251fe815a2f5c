//go:build torch

package value

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
	"slices"
	"time"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/files"
)

// Evaluation is the result of a network on held-out episodes.
type Evaluation struct {
	Total   float64            // number by which networks are chosen; less is better
	Figures map[string]float64 // for the network's manifest
	Text    string             // the result in words
	Short   string             // the same in a word or two

	curves []scalar // for the recorder
}

// scalar is a value under a tag.
type scalar struct {
	tag   string
	value float64
}

// Options are the files and listeners of a run. All of them are optional.
type Options struct {
	State     string                             // state file, written after every evaluation
	Resume    *State                             // run of the same configuration to continue
	Recorder  Recorder                           // takes the run's figures
	Evaluated func(Evaluation)                   // called after every evaluation
	Improved  func(*checkpoint.Checkpoint) error // called with every network that is the best so far
	Progress  func(Pace)                         // called after each iteration
	Note      func(string)                       // called with what the run learns from, if that is a record
}

// Pace is how far a run is, and how fast.
type Pace struct {
	Iteration, Iterations int
	Elapsed               time.Duration // over all processes that the run took
	Speed                 float64       // iterations a second in this process, evaluations included
	Figures               string        // of the last iteration, in words
	Best                  string        // the best evaluation so far; empty for none
}

// Train plays and learns in turn until the iterations are done or ctx ends, and returns the network that is best on the held-out episodes.
// When ctx ends early, Train completes the iteration, saves the state, evaluates if it has not yet, and returns the best network so far
// with ctx's error.
func (t *Trainer) Train(ctx context.Context) (best *checkpoint.Checkpoint, score Evaluation, err error) {
	// libtorch orders the sums of a backward pass by counters that each thread has of its
	// own: a run that changes threads would not give the same weights twice.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := t.begin(); err != nil {
		return nil, score, err
	}
	defer t.agent.Drop()
	for t.iteration < t.Config.Iterations && ctx.Err() == nil {
		if err := t.iterate(); err != nil {
			return nil, score, err
		}
	}
	if err := t.save(); err != nil {
		return nil, score, err
	}
	if t.best == nil {
		if err := t.evaluate(); err != nil {
			return nil, score, err
		}
	}
	return t.best, t.bestScore, ctx.Err()
}

// begin makes the agent, at the beginning of a run or where Resume says.
func (t *Trainer) begin() error {
	t.start = time.Now()
	first, err := t.prepare()
	if err != nil {
		return err
	}
	l, err := newLearner(t.Config, first)
	if err != nil {
		return err
	}
	t.agent = &agent{task: t.task, learner: l, figures: &t.figures}
	if t.Resume != nil {
		if err := t.restore(t.Resume, first.Manifest.Config); err != nil {
			t.agent.Drop()
			return err
		}
	}
	t.from = t.iteration
	return nil
}

// iterate lets the agent play and learn, and evaluates when that is due.
func (t *Trainer) iterate() error {
	if err := t.agent.iterate(t.iteration); err != nil {
		return fmt.Errorf("after iteration %d: %w", t.iteration, err)
	}
	t.iteration++
	t.report()
	if t.iteration%t.Config.EvaluateEvery != 0 && t.iteration < t.Config.Iterations {
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
	net, err := ready(c)
	if err != nil {
		return err
	}
	score, err := t.task.evaluate(net)
	if err != nil {
		return fmt.Errorf("evaluation after iteration %d: %w", t.iteration, err)
	}
	if t.best == nil || score.Total < t.bestScore.Total {
		t.best, t.bestScore = c, score
		training := maps.Clone(score.Figures)
		training["iteration"], training[HeldOutScore], training["seconds"] = float64(t.iteration), score.Total, t.elapsed().Seconds()
		c.Manifest.Training = training
		if t.Improved != nil {
			if err := t.Improved(c); err != nil {
				return err
			}
		}
	}
	if t.Recorder != nil {
		for _, x := range score.curves {
			t.Recorder.Scalar(x.tag, t.iteration, x.value)
		}
	}
	if t.Evaluated != nil {
		t.Evaluated(score)
	}
	return nil
}

func (t *Trainer) elapsed() time.Duration { return t.before + time.Since(t.start) }

// report gives the listeners the figures of an iteration.
func (t *Trainer) report() {
	speed := float64(t.iteration-t.from) / time.Since(t.start).Seconds()
	t.figures.Add(tagSpeed, speed)
	t.figures.Report(t.iteration, t.Recorder)
	if t.Progress != nil {
		t.Progress(Pace{
			Iteration: t.iteration, Iterations: t.Config.Iterations, Elapsed: t.elapsed(), Speed: speed,
			Figures: t.describe(), Best: t.bestScore.Short,
		})
	}
}

// save writes the state file, if there is to be one.
func (t *Trainer) save() error {
	if t.State == "" {
		return nil
	}
	config, err := t.Config.stored()
	if err != nil {
		return err
	}
	s := State{Stored: config, Step: t.iteration, Elapsed: t.elapsed(), Result: t.bestScore}
	if t.best != nil {
		var b bytes.Buffer
		if err := t.best.Write(&b); err != nil {
			return fmt.Errorf("save the run's state: %w", err)
		}
		s.Best = b.Bytes()
	}
	agent, err := t.agent.state()
	if err != nil {
		return fmt.Errorf("save the run's state: %w", err)
	}
	return writeFile(t.State, append([]any{s}, agent...)...)
}

// restore continues the run of a state.
func (t *Trainer) restore(s *State, config []byte) (err error) {
	if !bytes.Equal(s.Stored, config) {
		return errors.New("the stored run has another configuration: resume it with its own, or start anew")
	}
	if len(s.Best) > 0 {
		if t.best, err = checkpoint.Read(bytes.NewReader(s.Best)); err != nil {
			return fmt.Errorf("stored run: %w", err)
		}
		t.bestScore = s.Result
	}
	t.iteration, t.before = s.Step, s.Elapsed
	if err := t.agent.restore(s.read); err != nil {
		return fmt.Errorf("stored run: %w", err)
	}
	return nil
}

// Recorder takes the figures that a run reports. Their tags stay the same from version to
// version. Package tensorboard has one.
type Recorder interface {
	Scalar(tag string, step int, v float64)
}

// figures collects values between two reports, and reports their means. The zero value is ready.
type figures struct {
	tags  []string // sorted
	means map[string]*average
}

// Add notes a value under a tag.
func (f *figures) Add(tag string, v float64) {
	if f.means == nil {
		f.means = map[string]*average{}
	}
	m, ok := f.means[tag]
	if !ok {
		m = &average{}
		f.means[tag] = m
		f.tags = append(f.tags, tag)
		slices.Sort(f.tags)
	}
	m.n++
	m.sum += v
}

// Report gives r the means since the last report and starts anew. r may be nil.
func (f *figures) Report(step int, r Recorder) {
	for _, tag := range f.tags {
		m := f.means[tag]
		if m.n == 0 {
			continue
		}
		m.last = m.sum / m.n
		m.n, m.sum = 0, 0
		if r != nil {
			r.Scalar(tag, step, m.last)
		}
	}
}

// Last returns the mean of the last report in which the tag had one; 0 if there is none.
func (f *figures) Last(tag string) float64 {
	if m, ok := f.means[tag]; ok {
		return m.last
	}
	return 0
}

// average holds the values of a tag since the last report, and the mean of that report.
type average struct{ n, sum, last float64 }

// State is a training run between two iterations, from which a stopped run continues. It is the first value of a state file; those of the
// run's agent follow.
type State struct {
	Stored  []byte // the configuration as JSON
	Step    int    // iterations so far; state files call it so
	Elapsed time.Duration
	Best    []byte     // checkpoint file; empty if there is none yet
	Result  Evaluation // of the best

	path string // of the file
}

// ErrNoState is the error of LoadState if the file does not exist.
var ErrNoState = errors.New("there is no state of a run")

// LoadState reads the run's part of a state file that a Trainer saved.
func LoadState(path string) (*State, error) {
	s := &State{path: path}
	err := readFile(path, s)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoState, err)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// read decodes the agent's values.
func (s *State) read(into ...any) error { return readFile(s.path, append([]any{nil}, into...)...) }

// readFile decodes the values of a file that writeFile wrote into pointers. It skips a value for nil, and fields of the file that a
// pointer's type lacks.
func readFile(path string, into ...any) error {
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

// writeFile replaces a file with encoded values. Readers see the old file or the new one, never
// a part of it.
func writeFile(path string, values ...any) error {
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
