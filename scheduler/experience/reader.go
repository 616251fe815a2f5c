package experience

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
)

// errStream is wrapped by the errors of a stream that no Writer of this release wrote.
var errStream = errors.New("not a stream of steps for this program")

// Reader is a Source that reads the stream of a Writer. Not safe for concurrent use.
type Reader struct {
	step    io.LimitedReader // what a step may still take of the stream
	decoder *gob.Decoder     // of step
}

// NewReader reads the stream's header. A stream of another release is an error.
func NewReader(r io.Reader) (*Reader, error) {
	want := magic + feature.Default().Hash()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(r, got); err != nil {
		return nil, fmt.Errorf("%w: it ends after %d bytes: %w", errStream, n, err)
	}
	if string(got) != want {
		return nil, fmt.Errorf("%w: it begins with %q, not with %q; scheduler and trainer must be of one release", errStream, got, want)
	}
	out := &Reader{step: io.LimitedReader{R: r}}
	out.decoder = gob.NewDecoder(&out.step)
	return out, nil
}

// Next implements Source. A stream that ends within a step gives io.ErrUnexpectedEOF, wrapped.
func (r *Reader) Next() (Step, error) {
	var s Step
	r.step.N = maxStep
	err := r.decoder.Decode(&s)
	switch {
	case err != nil && r.step.N == 0:
		return Step{}, fmt.Errorf("%w: a step over %d bytes", errStream, maxStep)
	case err != nil && errors.Is(err, io.EOF):
		return Step{}, io.EOF
	case err != nil:
		return Step{}, fmt.Errorf("read the stream of steps: %w", err)
	}
	if g := s.State; g != nil {
		g.Stamp = make([]uint64, g.Nodes())
		for i := range g.Stamp {
			g.Stamp[i] = graph.NextStamp()
		}
	}
	if err := s.Validate(); err != nil {
		return Step{}, fmt.Errorf("%w: %w", errStream, err)
	}
	return s, nil
}

// A stream begins with magic, whose last byte is the format's version, and the hash of the default features, which most releases with
// other features change. A value of package gob follows for each Step. Scheduler and trainer come from one release: a reader refuses
// every other version.
const magic = "gnnstep\x08"

// maxStep is the largest size of a step in bytes; 5,000 nodes take about two million. A hostile step takes at most 48 times as much
// memory, the size of a group of pods that is sent as one byte.
const maxStep = 16 << 20

// Writer writes steps to a stream that Reader reads. Not safe for concurrent use.
type Writer struct {
	w       io.Writer
	step    bytes.Buffer // encoded
	encoder *gob.Encoder // to step
}

// NewWriter writes the stream's header.
func NewWriter(w io.Writer) (*Writer, error) {
	if _, err := io.WriteString(w, magic+feature.Default().Hash()); err != nil {
		return nil, fmt.Errorf("begin the stream of steps: %w", err)
	}
	out := &Writer{w: w}
	out.encoder = gob.NewEncoder(&out.step)
	return out, nil
}

// Write writes one step with a single call of the underlying Write. It does not validate the step,
// but a step over the size limit is an error, after which the writer must not be used again.
func (w *Writer) Write(s Step) error {
	if s.State != nil {
		g := *s.State
		g.Stamp = nil // has no meaning in another process
		s.State = &g
	}
	w.step.Reset()
	err := w.encoder.Encode(s)
	if err == nil && w.step.Len() > maxStep {
		err = fmt.Errorf("it takes %d bytes, over the limit of %d", w.step.Len(), maxStep)
	}
	if err == nil {
		_, err = w.w.Write(w.step.Bytes())
	}
	if err != nil {
		return fmt.Errorf("write step %d: %w", s.Number, err)
	}
	return nil
}
