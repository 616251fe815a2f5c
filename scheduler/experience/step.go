package experience

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"gnnsched/gnn/feature"
)

// Step is what a scheduler saw when it placed a pod: what arrives and waits, by kind, and what room is left for it. It does not say which
// node was chosen, for a learner values states: see learn/value.
type Step struct {
	Actor string // who made the placement; at most maxActor bytes
	Epoch uint64 // which life of the actor: it differs after each restart
	// Number counts the actor's placements in this epoch, including steps that never arrive: lost steps, and pods that did not get their node.
	// A placement that a network did not decide counts as none.
	Number uint64

	Cluster feature.Kinds
	Kinds   []Kind // at most mostKinds
}

// Kind is a kind of pods at a placement.
type Kind struct {
	Key   uint64       // the same at each placement of an actor
	Seen  feature.Kind // what a network may read
	Waits float64      // what its waiting pods request, in percent of the cluster
}

// maxActor is the longest name of an actor in bytes, and mostKinds the largest number of kinds.
const (
	maxActor  = 1024
	mostKinds = 1024
)

// SameLife reports whether one life of one actor made both steps, so that their Number has the same origin.
func (s Step) SameLife(other Step) bool {
	return s.Actor == other.Actor && s.Epoch == other.Epoch
}

// Waits returns what all waiting pods request, in percent of the cluster.
func (s Step) Waits() (sum float64) {
	for _, k := range s.Kinds {
		sum += k.Waits
	}
	return sum
}

// Validate checks that there are kinds, not too many, and that every value is finite and at least 0.
func (s Step) Validate() error {
	if len(s.Actor) > maxActor {
		return fmt.Errorf("step %d: the actor's name has %d bytes, over the limit of %d", s.Number, len(s.Actor), maxActor)
	}
	if len(s.Kinds) == 0 || len(s.Kinds) > mostKinds {
		return fmt.Errorf("step %d: %d kinds of pods, want 1 to %d", s.Number, len(s.Kinds), mostKinds)
	}
	c := s.Cluster
	values := []float64{c.CPU, c.Memory, c.Waiting, c.Nodes, c.Running}
	for _, k := range s.Kinds {
		x := k.Seen
		values = append(values, k.Waits, x.Share, x.Expected, x.Waiting, x.Free, x.Places, x.Size, x.Breadth)
	}
	for _, v := range values {
		if !(v >= 0 && v <= math.MaxFloat32) {
			return fmt.Errorf("step %d: a value is %v", s.Number, v)
		}
	}
	return nil
}

// Report is the progress of a trainer. A trainer sends it to the scheduler that started it, as a line on its standard output or standard
// error, so that no port is needed. The counts belong to the trainer's process.
type Report struct {
	Read    uint64 `json:"read"`    // steps that the trainer got
	Missing uint64 `json:"missing"` // steps that are missing between these
	Updates uint64 `json:"updates"`
	Passed  uint64 `json:"passed"`  // networks that the guard let pass
	Refused uint64 `json:"refused"` // networks that it refused

	// Figures are the figures of learning by name, such as loss, most of them means since the previous report. Unknown figures are missing.
	Figures map[string]float64 `json:"figures,omitempty"`
}

// reportPrefix begins the line of a report. Every other line that a trainer prints is for the log.
const reportPrefix = "gnnsched-trainer-report "

// maxFigures and longestFigure bound a report, because each figure becomes a metric of the scheduler.
const (
	maxFigures    = 32
	longestFigure = 40
)

// Line returns the report as a line without its end. It leaves out figures that are not finite.
func (r Report) Line() string {
	r.Figures = usable(r.Figures)
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // it holds finite numbers only
	}
	return reportPrefix + string(text)
}

// parseReport returns the report that a line holds, and whether it holds one.
func parseReport(line string) (r Report, ok bool) {
	text, ok := strings.CutPrefix(line, reportPrefix)
	if !ok || json.Unmarshal([]byte(text), &r) != nil || len(r.Figures) > maxFigures {
		return Report{}, false
	}
	r.Figures = usable(r.Figures)
	return r, true
}

// usable returns the figures that are finite and have a name of small letters and underscores.
func usable(figures map[string]float64) map[string]float64 {
	out := make(map[string]float64, len(figures))
	for name, v := range figures {
		letters := strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") == ""
		if !letters || name == "" || len(name) > longestFigure || math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		out[name] = v
	}
	return out
}

// errStream is wrapped by the errors of a stream that no Writer of this release wrote.
var errStream = errors.New("not a stream of steps for this program")

// Reader is a Source that reads the stream of a Writer. Not safe for concurrent use.
type Reader struct {
	step    io.LimitedReader // what a step may still take of the stream
	decoder *gob.Decoder     // of step
}

// NewReader reads the stream's header. A stream of another release is an error.
func NewReader(r io.Reader) (*Reader, error) {
	want := magic + schema()
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
	if err := s.Validate(); err != nil {
		return Step{}, fmt.Errorf("%w: %w", errStream, err)
	}
	return s, nil
}

// A stream begins with magic, whose last byte is the format's version, and the hash of the features of kinds. A value of package gob
// follows for each Step. Scheduler and trainer come from one release: a reader refuses every other version.
const magic = "gnnstep\x09"

// schema is the hash of the features that networks read of a step.
func schema() string {
	l, err := feature.NewKindLayout(nil)
	if err != nil {
		panic(err) // the default features exist
	}
	return l.Hash()
}

// maxStep is the largest size of a step in bytes; 64 kinds take about six thousand.
const maxStep = 1 << 20

// Writer writes steps to a stream that Reader reads. Not safe for concurrent use.
type Writer struct {
	w       io.Writer
	step    bytes.Buffer // encoded
	encoder *gob.Encoder // to step
}

// NewWriter writes the stream's header.
func NewWriter(w io.Writer) (*Writer, error) {
	if _, err := io.WriteString(w, magic+schema()); err != nil {
		return nil, fmt.Errorf("begin the stream of steps: %w", err)
	}
	out := &Writer{w: w}
	out.encoder = gob.NewEncoder(&out.step)
	return out, nil
}

// Write writes one step with a single call of the underlying Write. It does not validate the step,
// but a step over the size limit is an error, after which the writer must not be used again.
func (w *Writer) Write(s Step) error {
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
