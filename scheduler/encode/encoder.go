package encode

import (
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/internal/cluster"
)

// Encoder keeps the graph of one cluster between decisions and encodes only the changes. It is not safe for concurrent use.
type Encoder struct {
	layout *feature.Layout
	g      graph.Graph
	rows   []row
	usage  []feature.Usage // of each row
	zones  map[string]int32

	offered feature.Offered
	changed []int32 // scratch: rows whose node changed

	// The contexts of features, kept to save allocations.
	node       feature.Node
	group      feature.Group
	pod        feature.Pod
	candidates feature.Candidates
}

// row is the state in which a row was encoded.
type row struct {
	version     cluster.Version
	allocatable cluster.Resources
	largestCPU  int64 // the most that one pod on the node requests
	largestMem  int64
}

// New returns an encoder of the features in a layout; nil means feature.Default.
func New(layout *feature.Layout) *Encoder {
	if layout == nil {
		layout = feature.Default()
	}
	e := &Encoder{layout: layout, zones: map[string]int32{}}
	e.g.Widths = layout.Widths
	return e
}

// Graph returns the graph that Encode returns. A caller may let its slices of pod, cluster and candidates refer to other memory, which
// Encode then writes to if it is long enough.
func (e *Encoder) Graph() *graph.Graph { return &e.g }

// Forget drops what the encoder knows of a cluster, so that the next graph equals that of a new encoder.
func (e *Encoder) Forget() {
	clear(e.zones)
	for i := range e.rows {
		e.rows[i].version = 0 // encode again; the node's old capacity is still in the sum
	}
}

// Encode returns the graph for placing pod on one of the candidates, which are rows of s.Nodes. Row i
// of the graph is s.Nodes[i]. The graph belongs to the encoder and is valid until the next call. A
// node is encoded again when its Version changes.
func (e *Encoder) Encode(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32) *graph.Graph {
	e.prepare(s, pod, candidates)
	g, c, at := &e.g, &e.candidates, 0
	g.ResizeCandidates(len(c.Rows))
	for _, b := range e.layout.Candidate {
		b.Fill(c, feature.Rows{X: g.CandidateX, Width: e.layout.Widths.Candidate, At: at, Len: len(b.Features)})
		at += len(b.Features)
	}
	g.ClusterX = feature.Fill(e.layout.Cluster, c, resize(g.ClusterX, e.layout.Widths.Cluster)) // depends on the candidates
	return g
}

// prepare encodes all but the candidates and the cluster.
func (e *Encoder) prepare(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32) {
	largest := e.syncNodes(s)
	e.pod = feature.NewPod(pod, &e.offered)
	e.g.PodX = feature.Fill(e.layout.Pod, &e.pod, resize(e.g.PodX, e.layout.Widths.Pod))

	c := &e.candidates
	c.Pod, c.Nodes = pod, s.Nodes
	c.Usage, c.Largest = e.usage, larger(largest, pod.Requests)
	e.g.Candidates = append(e.g.Candidates[:0], candidates...)
	c.Rows = e.g.Candidates
	c.Measure()
}

// syncNodes encodes the rows whose node changed, or all rows if the mean node size changed, because features are relative to it. It returns
// the largest CPU and memory requests of one running pod.
func (e *Encoder) syncNodes(s *cluster.Snapshot) (largest cluster.Resources) {
	n := len(s.Nodes)
	offered := feature.Offered{Sum: e.offered.Sum, Nodes: n}
	for i := n; i < len(e.rows); i++ {
		offered.Sum = offered.Sum.Minus(e.rows[i].allocatable)
	}
	e.g.Resize(n)
	e.rows, e.usage = resize(e.rows, n), resize(e.usage, n)
	e.changed = e.changed[:0]
	for i, node := range s.Nodes {
		r := &e.rows[i]
		if node.Unchanged(r.version) {
			continue
		}
		if r.allocatable != node.Allocatable {
			offered.Sum = offered.Sum.Minus(r.allocatable).Plus(node.Allocatable)
			r.allocatable = node.Allocatable
		}
		r.version = node.Version
		e.changed = append(e.changed, int32(i))
	}
	resized := offered != e.offered
	e.offered = offered
	if resized {
		for i, node := range s.Nodes {
			e.encodeNode(i, node)
		}
	} else {
		for _, i := range e.changed {
			e.encodeNode(int(i), s.Nodes[i])
		}
	}
	for i := range e.rows {
		largest = larger(largest, cluster.Resources{MilliCPU: e.rows[i].largestCPU, Memory: e.rows[i].largestMem})
	}
	e.g.Zones = max(len(e.zones), 1)
	return largest
}

// larger returns the larger CPU and the larger memory of two requests.
func larger(a, b cluster.Resources) cluster.Resources {
	return cluster.Resources{MilliCPU: max(a.MilliCPU, b.MilliCPU), Memory: max(a.Memory, b.Memory)}
}

// encodeNode encodes row i and the groups of pods on it.
func (e *Encoder) encodeNode(i int, n *cluster.Node) {
	e.node = feature.Node{
		State: n, Offered: &e.offered,
		CPU:    cluster.Fraction(n.Counted().MilliCPU, n.Allocatable.MilliCPU),
		Memory: cluster.Fraction(n.Counted().Memory, n.Allocatable.Memory),
	}
	feature.Fill(e.layout.Node, &e.node, e.g.NodeRow(i))
	e.usage[i] = feature.Usage{
		CPU: float32(e.node.CPU), Memory: float32(e.node.Memory), MilliCPU: n.Allocatable.MilliCPU, MemoryBytes: n.Allocatable.Memory,
	}

	gr, width := &e.g.Groups[i], e.layout.Widths.Group
	r := &e.rows[i]
	gr.X, gr.Weight = resize(gr.X, len(n.Groups)*width), resize(gr.Weight, len(n.Groups))
	r.largestCPU, r.largestMem = 0, 0
	for j, group := range n.Groups {
		r.largestCPU, r.largestMem = max(r.largestCPU, group.Each.MilliCPU), max(r.largestMem, group.Each.Memory)
		e.group = feature.Group{Node: n, Each: group.Each, Total: group.Each.Times(group.Count)}
		feature.Fill(e.layout.Group, &e.group, gr.X[j*width:(j+1)*width])
		gr.Weight[j] = float32(group.Count)
	}
	e.g.Zone[i] = e.zone(n)
	e.g.Stamp[i] = graph.NextStamp()
}

// zone returns the index of a node's zone, in order of first appearance. Nodes without a zone form one too.
func (e *Encoder) zone(n *cluster.Node) int32 {
	z, ok := e.zones[n.Zone]
	if !ok {
		z = int32(len(e.zones))
		e.zones[n.Zone] = z
	}
	return z
}

// resize returns s with length n. Elements beyond its old length are zero.
func resize[T any](s []T, n int) []T {
	if n <= len(s) {
		return s[:n]
	}
	return append(s, make([]T, n-len(s))...)
}
