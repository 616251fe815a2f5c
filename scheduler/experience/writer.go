package experience

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
)

// A stream begins with magic, whose last byte is the format's version, and the hash of the
// default features, which most releases with other features change. One frame follows for each step: its length in 4 bytes, then
//
//	actor and features, each uint32 (its length A) and A bytes, epoch, number uint64,
//	action uint32, before, after float64,
//	waited uint64, network uint64, log float64, overruled uint32 (0 or 1), GPU graph uint32 (0 or 1),
//
// on the GPU graph what appendGPU appends, and otherwise
//
//	N, Z, C uint32,
//	lengths of the feature vectors of node, group, pod, cluster and candidate 5 × uint32,
//	zones N × int32, groups of each node N × uint32, candidates C × int32,
//	NodeX, X and then Weight of each node's groups, PodX, ClusterX, CandidateX as float32
//
// for N nodes, Z zones and C candidates. All numbers are little endian. Scheduler and trainer come
// from one release: a reader refuses every other version.
const magic = "gnnstep\x07"

// maxFrame is the largest size of a step in bytes; 5,000 nodes take about one million.
const maxFrame = 64 << 20

var order = binary.LittleEndian

// Writer writes steps to a stream in the binary format that Reader reads. Not safe for concurrent
// use.
type Writer struct {
	w     io.Writer
	frame []byte
}

// NewWriter writes the stream's header.
func NewWriter(w io.Writer) (*Writer, error) {
	if _, err := io.WriteString(w, magic+feature.Default().Hash()); err != nil {
		return nil, fmt.Errorf("begin the stream of steps: %w", err)
	}
	return &Writer{w: w}, nil
}

// Write writes one step with a single call of the underlying Write. It does not validate the step,
// but a step over the size limit is an error.
func (w *Writer) Write(s Step) error {
	b := append(w.frame[:0], 0, 0, 0, 0)
	for _, text := range []string{s.Actor, s.Features} {
		b = appendText(b, text)
	}
	b = order.AppendUint64(b, s.Epoch)
	b = order.AppendUint64(b, s.Number)
	b = order.AppendUint32(b, uint32(s.Action))
	b = order.AppendUint64(b, math.Float64bits(s.Before))
	b = order.AppendUint64(b, math.Float64bits(s.After))
	b = order.AppendUint64(b, s.Waited)
	b = order.AppendUint64(b, s.Network)
	b = order.AppendUint64(b, math.Float64bits(s.Log))
	b = appendBool(appendBool(b, s.Overruled), s.GPU != nil)
	if s.GPU != nil {
		b = appendGPU(b, s.GPU)
	} else {
		b = appendGraph(b, s.State)
	}
	w.frame = b
	if len(b)-4 > maxFrame {
		return fmt.Errorf("step %d takes %d bytes, over the limit of %d", s.Number, len(b)-4, maxFrame)
	}
	order.PutUint32(b, uint32(len(b)-4))
	if _, err := w.w.Write(b); err != nil {
		return fmt.Errorf("write step %d: %w", s.Number, err)
	}
	return nil
}

// appendGraph appends the graph of any cluster.
func appendGraph(b []byte, g *graph.Graph) []byte {
	x := g.FeatureWidths()
	for _, n := range []int{g.Nodes(), g.Zones, len(g.Candidates), x.Node, x.Group, x.Pod, x.Cluster, x.Candidate} {
		b = order.AppendUint32(b, uint32(n))
	}
	b = appendInts(b, g.Zone)
	for _, gr := range g.Groups {
		b = order.AppendUint32(b, uint32(len(gr.Weight)))
	}
	b = appendInts(b, g.Candidates)
	b = appendFloats(b, g.NodeX)
	for _, gr := range g.Groups {
		b = appendFloats(appendFloats(b, gr.X), gr.Weight)
	}
	return appendFloats(appendFloats(appendFloats(b, g.PodX), g.ClusterX), g.CandidateX)
}

// appendText appends a string with its length in bytes.
func appendText(b []byte, text string) []byte {
	return append(order.AppendUint32(b, uint32(len(text))), text...)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return order.AppendUint32(b, 1)
	}
	return order.AppendUint32(b, 0)
}

func appendInts(b []byte, values []int32) []byte {
	for _, v := range values {
		b = order.AppendUint32(b, uint32(v))
	}
	return b
}

func appendFloats(b []byte, values []float32) []byte {
	for _, v := range values {
		b = order.AppendUint32(b, math.Float32bits(v))
	}
	return b
}
