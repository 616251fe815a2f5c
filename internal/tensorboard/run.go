package tensorboard

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/utils/clock"
)

// Run is the open folder of one training run. Not safe for concurrent use.
type Run struct {
	clock   clock.PassiveClock
	events  *os.File
	scalars *scalars
	err     error // the first that a write had; nothing is written after it
}

// Open starts an event file in dir, which it makes where there is none, and goes on with the
// CSV that is there.
func Open(dir string, c clock.PassiveClock) (*Run, error) {
	r := &Run{clock: c}
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		r.events, err = create(dir, c)
	}
	if err == nil {
		r.scalars, err = openScalars(dir)
	}
	if err != nil {
		if r.events != nil {
			err = errors.Join(err, r.events.Close())
		}
		return nil, fmt.Errorf("open the run's folder: %w", err)
	}
	r.event(versionEvent(c.Now()))
	return r, nil
}

// create makes a new event file. TensorBoard reads the files of a folder in the order of
// their names, so a second one within a second gets a longer name.
func create(dir string, c clock.PassiveClock) (*os.File, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	name := filepath.Join(dir, fmt.Sprintf("events.out.tfevents.%010d.%s", c.Now().Unix(), host))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	for i := 1; errors.Is(err, fs.ErrExist); i++ {
		f, err = os.OpenFile(fmt.Sprintf("%s.%06d", name, i), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	}
	return f, err
}

// Scalar notes a value, which TensorBoard keeps as a float32 and the CSV in full. An error
// shows in Close.
func (r *Run) Scalar(tag string, step int, v float64) {
	r.event(scalarEvent(r.clock.Now(), step, tag, v))
	if r.err == nil {
		r.err = r.scalars.add(step, tag, v)
	}
}

// Histogram notes how the finite ones among values are distributed. An error shows in Close.
func (r *Run) Histogram(tag string, step int, values []float64) {
	if h := newHistogram(values); h.num > 0 {
		r.event(histogramEvent(r.clock.Now(), step, tag, h))
	}
}

// Rewind takes back what was noted of the steps after the given one, for a run that goes on
// from there: the CSV loses those rows, and TensorBoard is told to leave them out.
func (r *Run) Rewind(step int) {
	r.event(startEvent(r.clock.Now(), step+1))
	if r.err == nil {
		r.err = r.scalars.rewind(step)
	}
}

func (r *Run) event(e []byte) {
	if r.err == nil {
		_, r.err = r.events.Write(record(e))
	}
}

// Close closes the files and returns the first error that there was.
func (r *Run) Close() error {
	if err := errors.Join(r.err, r.events.Close(), r.scalars.file.Close()); err != nil {
		return fmt.Errorf("write the run's figures: %w", err)
	}
	return nil
}
