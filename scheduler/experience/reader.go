package experience

import (
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
