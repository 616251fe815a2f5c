package tensorboard

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/utils/clock"
)

// Run writes to the folder of one training run. It is not safe for concurrent use.
type Run struct {
	clock   clock.PassiveClock
	events  *os.File
	scalars *scalars
	err     error // the first error; nothing is written after it
}

// Open starts a new event file in dir and continues an existing CSV. It creates dir if it is missing. The
// caller calls Close at the end.
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
		return nil, fmt.Errorf("open the folder of the run: %w", err)
	}
	r.event(versionEvent(c.Now()))
	return r, nil
}

// create creates an event file. TensorBoard reads the files of a folder in the order of their names, so
// another file of the same second gets the same name with a suffix.
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

// Scalar writes one value: as float32 for TensorBoard, in full precision to the CSV. Close returns its
// error.
func (r *Run) Scalar(tag string, step int, v float64) {
	r.event(scalarEvent(r.clock.Now(), step, tag, v))
	if r.err == nil {
		r.err = r.scalars.add(step, tag, v)
	}
}

// Histogram writes the distribution of the finite values, for TensorBoard alone. Close returns its
// error.
func (r *Run) Histogram(tag string, step int, values []float64) {
	if h := newHistogram(values); h.num > 0 {
		r.event(histogramEvent(r.clock.Now(), step, tag, h))
	}
}

// Rewind removes the values of the steps after the given one, for a run that continues from there: the
// CSV loses these rows, and TensorBoard drops the values.
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

// Close closes the files. It returns the first error of all calls.
func (r *Run) Close() error {
	if err := errors.Join(r.err, r.events.Close(), r.scalars.file.Close()); err != nil {
		return fmt.Errorf("write the metrics of the run: %w", err)
	}
	return nil
}
