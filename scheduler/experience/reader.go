package experience

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
)

// errStream is wrapped by the errors of a stream that no Writer of this release wrote.
var errStream = errors.New("not a stream of steps for this program")

// Reader is a Source that reads the stream of a Writer. Not safe for concurrent use.
type Reader struct {
	r     io.Reader
	frame bytes.Buffer
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
	return &Reader{r: r}, nil
}

// Next implements Source. A stream that ends within a step gives io.ErrUnexpectedEOF, wrapped.
func (r *Reader) Next() (Step, error) {
	var head [4]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		if !errors.Is(err, io.EOF) {
			err = fmt.Errorf("read the stream of steps: %w", err)
		}
		return Step{}, err
	}
	n := order.Uint32(head[:])
	if n > maxFrame {
		return Step{}, fmt.Errorf("%w: a step of %d bytes", errStream, n)
	}
	r.frame.Reset()
	if _, err := io.CopyN(&r.frame, r.r, int64(n)); err != nil { // allocates no more than the stream has
		return Step{}, fmt.Errorf("read the stream of steps: %w", noEOF(err))
	}
	s, err := decode(r.frame.Bytes())
	if err == nil {
		err = s.Validate()
	}
	if err != nil {
		return Step{}, fmt.Errorf("%w: %w", errStream, err)
	}
	return s, nil
}

// maxZones is far more zones than any cluster has. A learner allocates memory for each zone of a
// batch, so a broken stream must not claim billions of them.
const maxZones = 1 << 16

// maxWidth is far longer than any feature vector.
const maxWidth = 1 << 12

// noEOF turns io.EOF into io.ErrUnexpectedEOF, for the middle of a step.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func decode(frame []byte) (Step, error) {
	c := &cursor{b: frame}
	s := Step{
		Actor: c.text(), Features: c.text(), Epoch: c.long(), Number: c.long(), Action: c.count(), Before: c.double(), After: c.double(),
		Waited: c.long(), Network: c.long(), Log: c.double(), Overruled: c.count() != 0,
	}
	var err error
	if c.count() != 0 {
		s.GPU = c.gpu()
	} else {
		s.State, err = c.graph()
	}
	switch {
	case err != nil:
		return s, err
	case c.short:
		return s, io.ErrUnexpectedEOF
	case len(c.b) > 0:
		return s, fmt.Errorf("%d bytes too many", len(c.b))
	}
	return s, nil
}

// graph reads a graph that appendGraph wrote. The result is invalid if c is short afterwards.
func (c *cursor) graph() (*graph.Graph, error) {
	g := &graph.Graph{}
	nodes := c.count()
	zones := c.count()
	candidates := c.count()
	w := feature.Widths{Node: c.count(), Group: c.count(), Pod: c.count(), Cluster: c.count(), Candidate: c.count()}
	if max(w.Node, w.Group, w.Pod, w.Cluster, w.Candidate) > maxWidth {
		return nil, fmt.Errorf("feature vectors of the lengths %v", w)
	}
	if w != feature.Default().Widths {
		g.Widths = w
	}
	g.Zones, g.Zone = zones, c.ints(nodes)
	groups := c.ints(nodes)
	g.Candidates = c.ints(candidates)
	g.NodeX = c.floats(nodes * w.Node)
	if c.short {
		return nil, io.ErrUnexpectedEOF
	}
	g.Groups, g.Stamp = make([]graph.Groups, nodes), make([]uint64, nodes)
	for i, group := range groups {
		k := int(uint32(group)) // a length, not a number that may be negative
		g.Groups[i] = graph.Groups{X: c.floats(k * w.Group), Weight: c.floats(k)}
		g.Stamp[i] = graph.NextStamp()
	}
	g.PodX, g.ClusterX, g.CandidateX = c.floats(w.Pod), c.floats(w.Cluster), c.floats(candidates*w.Candidate)
	if zones > maxZones {
		return nil, fmt.Errorf("%d zones", zones)
	}
	return g, nil
}

// cursor takes values off the front of a frame. After an attempt to take more than is left, short
// is set and all values are zero.
type cursor struct {
	b     []byte
	short bool
}

// take returns the next n bytes; if fewer are left, it returns at most 8 zeros.
func (c *cursor) take(n int) []byte {
	if c.short || n > len(c.b) {
		c.short = true
		return make([]byte, min(n, 8))
	}
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

func (c *cursor) count() int { return int(order.Uint32(c.take(4))) }

func (c *cursor) long() uint64 { return order.Uint64(c.take(8)) }

func (c *cursor) double() float64 { return math.Float64frombits(c.long()) }

// text returns a string; its length in bytes precedes it.
func (c *cursor) text() string { return string(c.take(c.count())) }

// words returns the next n words of four bytes; nil if fewer are left.
func (c *cursor) words(n int) []byte {
	if c.short || n > len(c.b)/4 {
		c.short = true
		return nil
	}
	return c.take(4 * n)
}

func (c *cursor) ints(n int) []int32 {
	b := c.words(n)
	out := make([]int32, len(b)/4)
	for i := range out {
		out[i] = int32(order.Uint32(b[4*i:]))
	}
	return out
}

func (c *cursor) floats(n int) []float32 {
	b := c.words(n)
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(order.Uint32(b[4*i:]))
	}
	return out
}
