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
	"gnnsched/gnn/graph"
)

// Step is one placement: the state that the scheduler saw, the node that it chose, and the
// objective's cost before and after. It holds no reward; the learner computes that from the
// costs. The step that Follows it holds the next state.
type Step struct {
	Actor string // who made the placement; at most maxActor bytes
	Epoch uint64 // which life of the actor: it differs after each restart
	// Number counts the actor's placements in this epoch, including steps that never arrive: lost steps, pods that did not get their node, and
	// placements among several nodes that the network did not see or could not score. A pod with one feasible node counts as no placement:
	// there was nothing to choose.
	Number uint64

	State *graph.Graph

	Action        int     // index of the chosen node among the state's candidates
	Before, After float64 // the objective's cost without and with this placement, all else equal

	Waited  uint64 // pods of this epoch so far that found no node at their first attempt
	Network uint64 // fingerprint of the checkpoint that scored the candidates
	// Features is the hash of the state's features, feature.Layout.Hash: two sets may have vectors of
	// the same lengths.
	Features string
	Log      float64 // log-probability with which an actor-critic drew the action; 0 for other networks
	// Overruled is true if other scores outweighed the network's, which chose another node than Action. Log is 0 then: the probability of
	// Action is not known.
	Overruled bool
}

// maxActor is the longest name of an actor in bytes.
const maxActor = 1024

// Follows reports whether s is the placement that its actor made right after the one of before,
// with none missing between them.
func (s Step) Follows(before Step) bool {
	return s.SameLife(before) && s.Number == before.Number+1
}

// SameLife reports whether one life of one actor made both steps, so that their Number and Waited have the same origin.
func (s Step) SameLife(other Step) bool {
	return s.Actor == other.Actor && s.Epoch == other.Epoch
}

// Validate checks that the state is well-formed, that the action is one of its candidates and
// that every value is finite.
func (s Step) Validate() error {
	if len(s.Features) > maxActor {
		return fmt.Errorf("step %d: the hash of the features has %d bytes", s.Number, len(s.Features))
	}
	if len(s.Actor) > maxActor {
		return fmt.Errorf("step %d: the actor's name has %d bytes, over the limit of %d", s.Number, len(s.Actor), maxActor)
	}
	if s.Log > 0 {
		return fmt.Errorf("step %d: the action's log-probability is %v, want at most 0", s.Number, s.Log)
	}
	if v := s.Before + s.After + s.Log; math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("step %d: a value is not finite", s.Number)
	}
	if s.State == nil {
		return fmt.Errorf("step %d: it has no state", s.Number)
	}
	if err := s.validateGraph(); err != nil {
		return fmt.Errorf("step %d: %w", s.Number, err)
	}
	return nil
}

// maxZones is far more zones than any cluster has. A learner allocates memory for each zone of a
// batch, so a broken stream must not claim billions of them.
const maxZones = 1 << 16

// maxWidth is far longer than any feature vector.
const maxWidth = 1 << 12

// validateGraph checks the state and the action.
func (s Step) validateGraph() error {
	w := s.State.FeatureWidths()
	for _, width := range []int{w.Node, w.Group, w.Pod, w.Cluster, w.Candidate, w.Path} {
		if width < 0 || width > maxWidth {
			return fmt.Errorf("feature vectors of the lengths %v", w)
		}
	}
	if s.State.Zones < 0 || s.State.Zones > maxZones || s.State.Kept != nil {
		return fmt.Errorf("%d zones, and kept rows of %d nodes", s.State.Zones, len(s.State.Kept))
	}
	if err := s.State.Validate(); err != nil {
		return err
	}
	if s.Action < 0 || s.Action >= len(s.State.Candidates) {
		return fmt.Errorf("action %d of %d candidates", s.Action, len(s.State.Candidates))
	}
	g := s.State
	for _, groups := range g.Groups {
		if err := finite(groups.X, groups.Weight); err != nil {
			return err
		}
	}
	return finite(g.NodeX, g.PodX, g.ClusterX, g.CandidateX, g.PeerWeight, g.PathX)
}

// finite returns an error if a value is not finite.
func finite(lists ...[]float32) error {
	sum := 0.0 // not finite if one of the values is not
	for _, values := range lists {
		for _, v := range values {
			sum += float64(v)
		}
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return errors.New("a value is not finite")
	}
	return nil
}

// Report is the progress of a trainer. A trainer sends it to the scheduler that started it, as a line on its standard output or standard
// error, so that no port is needed. The counts belong to the trainer's process.
type Report struct {
	Read    uint64 `json:"read"`    // steps that the trainer got
	Missing uint64 `json:"missing"` // steps that are missing between these
	Stale   uint64 `json:"stale"`   // steps that were not learned from because another network made them
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
