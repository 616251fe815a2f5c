package experience

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"io"

	"gnnsched/gnn/feature"
)

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
