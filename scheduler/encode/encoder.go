package encode

import (
	"math"

	"gnnsched/gnn/graph"
	"gnnsched/internal/cluster"
)

// Encoder keeps the graph of one cluster between decisions and encodes again only what has
// changed. It is not safe for concurrent use.
type Encoder struct {
	g     graph.Graph
	rows  []seen
	zones map[string]int32

	// What the sizes of nodes are measured by: sums over the nodes of what they offer.
	offered cluster.Resources
	// largest is the most of each resource that one running pod asks for.
	largest cluster.Resources
}

// seen is the state in which a row was encoded.
type seen struct {
	version     cluster.Version
	allocatable cluster.Resources
	largest     cluster.Resources // of the requests of one pod on it, in each resource
}

// New returns an encoder that has seen nothing.
func New() *Encoder { return &Encoder{zones: map[string]int32{}} }

// Encode returns the graph for placing pod on one of the nodes whose rows are given. The
// graph belongs to the encoder: it is valid until the next call, and row i is snapshot node
// i. A node is encoded again when its Version changes.
func (e *Encoder) Encode(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32) *graph.Graph {
	e.syncNodes(s)
	e.encodePod(pod.Requests)
	e.encodeCandidates(s, pod.Requests, candidates)
	return &e.g
}

// syncNodes encodes the rows whose node changed; all of them where the mean size of a node
// changed, which their features are relative to.
func (e *Encoder) syncNodes(s *cluster.Snapshot) {
	n := len(s.Nodes)
	offered, all := e.offered, n != len(e.rows)
	for i := n; i < len(e.rows); i++ {
		offered = offered.Minus(e.rows[i].allocatable)
	}
	e.g.Resize(n)
	if n <= len(e.rows) {
		e.rows = e.rows[:n]
	} else {
		e.rows = append(e.rows, make([]seen, n-len(e.rows))...)
	}
	for i, node := range s.Nodes {
		if r := &e.rows[i]; r.allocatable != node.Allocatable {
			offered = offered.Minus(r.allocatable).Plus(node.Allocatable)
			r.allocatable = node.Allocatable
		}
	}
	all = all || offered != e.offered
	e.offered = offered
	e.largest = cluster.Resources{}
	for i, node := range s.Nodes {
		r := &e.rows[i]
		if all || !node.Unchanged(r.version) {
			r.version = node.Version
			e.encodeNode(i, node)
		}
		e.largest.MilliCPU, e.largest.Memory = max(e.largest.MilliCPU, r.largest.MilliCPU), max(e.largest.Memory, r.largest.Memory)
	}
	e.g.Zones = max(len(e.zones), 1)
}

func (e *Encoder) encodeNode(i int, n *cluster.Node) {
	cpu, mem := cluster.Fraction(n.Requested.MilliCPU, n.Allocatable.MilliCPU), cluster.Fraction(n.Requested.Memory, n.Allocatable.Memory)
	row := e.g.NodeRow(i)
	row[0], row[1] = float32(cpu), float32(mem)
	row[2] = float32(cluster.Fraction(n.Requested.Pods, n.Allocatable.Pods))
	row[3] = float32(cluster.Fraction(n.Requested.GPU, n.Allocatable.GPU))
	row[4] = float32(math.Abs(cpu - mem))
	row[5] = float32(logRatio(float64(n.Allocatable.MilliCPU), e.mean(e.offered.MilliCPU)))
	row[6] = float32(logRatio(float64(n.Allocatable.Memory), e.mean(e.offered.Memory)))
	row[7] = flag(n.Allocatable.GPU > 0)
	row[8] = flag(!n.Available())

	gr, largest := &e.g.Groups[i], &e.rows[i].largest
	gr.X, gr.Weight, *largest = gr.X[:0], gr.Weight[:0], cluster.Resources{}
	for _, group := range n.Groups {
		largest.MilliCPU, largest.Memory = max(largest.MilliCPU, group.Each.MilliCPU), max(largest.Memory, group.Each.Memory)
		total := group.Each.Times(group.Count)
		gr.X = append(gr.X,
			ratio(group.Each.MilliCPU, n.Allocatable.MilliCPU), ratio(group.Each.Memory, n.Allocatable.Memory), ratio(group.Each.GPU, n.Allocatable.GPU),
			ratio(total.MilliCPU, n.Allocatable.MilliCPU), ratio(total.Memory, n.Allocatable.Memory), ratio(total.Pods, n.Allocatable.Pods))
		gr.Weight = append(gr.Weight, float32(group.Count))
	}
	e.g.Zone[i] = e.zone(n.Zone)
	e.g.Stamp[i] = graph.NextStamp()
}

// zone gives every zone name an index, in order of first sight; no name is a zone too.
func (e *Encoder) zone(name string) int32 {
	z, ok := e.zones[name]
	if !ok {
		z = int32(len(e.zones))
		e.zones[name] = z
	}
	return z
}

func (e *Encoder) encodePod(r cluster.Resources) {
	cpu := quotient(float64(r.MilliCPU), e.mean(e.offered.MilliCPU))
	mem := quotient(float64(r.Memory), e.mean(e.offered.Memory))
	gpu := quotient(float64(r.GPU), e.mean(e.offered.GPU))
	e.g.PodX = append(e.g.PodX[:0],
		float32(cpu), float32(mem), float32(gpu), float32(logRatio(cpu, mem)), flag(r.MilliCPU == 0), flag(r.Memory == 0))
}

// encodeCandidates writes the candidate edges and, since it is about them, the cluster's
// features.
func (e *Encoder) encodeCandidates(s *cluster.Snapshot, r cluster.Resources, candidates []int32) {
	e.g.ResizeCandidates(len(candidates))
	copy(e.g.Candidates, candidates)
	var cpu, mem, skew, addCPU, addMem moments
	largest := cluster.Resources{MilliCPU: max(e.largest.MilliCPU, r.MilliCPU), Memory: max(e.largest.Memory, r.Memory)}
	for c, v := range candidates {
		n := s.Nodes[v]
		row, node := e.g.CandidateRow(c), e.g.NodeRow(int(v))
		dc, dm := ratio(r.MilliCPU, n.Allocatable.MilliCPU), ratio(r.Memory, n.Allocatable.Memory)
		cpu.add(float64(node[0]))
		mem.add(float64(node[1]))
		skew.add(float64(node[0] - node[1]))
		addCPU.add(float64(dc))
		addMem.add(float64(dm))
		row[0], row[1] = node[0]+dc, node[1]+dm
		row[2] = ratio(n.Requested.Pods+1, n.Allocatable.Pods)
		row[3] = ratio(n.Requested.GPU+r.GPU, n.Allocatable.GPU)
		row[4] = abs(row[0] - row[1])
		row[5], row[6] = dc, dm
		row[14] = lessRoom(largest, n.Free(), r)
	}
	meanCPU, meanMem := float32(cpu.mean()), float32(mem.mean())
	perCPU, perMem := 1/(cpu.std()+addCPU.mean()+1e-6), 1/(mem.std()+addMem.mean()+1e-6)
	common := 2 / (1/perCPU + 1/perMem) // one scale, so that the two rises add up to one of balance
	cpuRise, memRise, skewRise := cpu.rise(common), mem.rise(common), skew.rise(common)
	for c := range candidates {
		row := e.g.CandidateRow(c)
		row[7], row[8] = row[0]-meanCPU, row[1]-meanMem
		row[9], row[10] = clamp(row[7]*float32(perCPU)), clamp(row[8]*float32(perMem))
		row[11], row[12] = cpuRise.by(row[0], row[5]), memRise.by(row[1], row[6])
		row[13] = skewRise.by(row[0]-row[1], row[5]-row[6])
	}
	e.g.ClusterX = append(e.g.ClusterX[:0],
		meanCPU, meanMem, float32(cpu.std()), float32(mem.std()), ratio(int64(len(candidates)), int64(len(s.Nodes))))
}

// mean is the mean over the nodes of a sum over them.
func (e *Encoder) mean(sum int64) float64 { return float64(sum) / float64(max(len(e.rows), 1)) }
