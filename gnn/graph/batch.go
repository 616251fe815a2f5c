package graph

import "gnnsched/gnn/feature"

// Batch is several graphs of the same widths as one graph with no edges between them: indices run
// over the whole batch. A place is one node of one graph. Places in different graphs share a row of
// NodeX if the node has the same features in both.
type Batch struct {
	Size   int // B, the number of graphs
	Widths feature.Widths

	NodeX []float32 // ΣN × Widths.Node

	PlaceNode []int64 // ΣP: row of the node; nil if rows and places are the same
	PlaceZone []int64 // ΣP: zone vertex
	ZoneGraph []int64 // ΣZ: graph

	GroupX      []float32 // ΣG × Widths.Group
	GroupWeight []float32 // ΣG
	GroupNode   []int64   // ΣG: row of the node

	DeviceFree []float32 // ΣD: free part of each device; see AddStar
	DeviceNode []int64   // ΣD: row of the node

	PodX     []float32 // B × Widths.Pod
	ClusterX []float32 // B × Widths.Cluster

	CandidateX     []float32 // ΣC × Widths.Candidate
	CandidateNode  []int64   // ΣC: row of the node
	CandidateZone  []int64   // ΣC: zone vertex
	CandidateGraph []int64   // ΣC: graph
	CandidateStart []int     // B+1: candidates of graph b are [start[b], start[b+1])
}

// Nodes returns ΣN, the number of rows.
func (b *Batch) Nodes() int { return len(b.NodeX) / b.Widths.Node }

// Begin adds a graph of the GPU graph's kind: one zone, and the cluster with its features. AddStar adds its nodes.
func (b *Batch) Begin(cluster []float32) {
	b.Widths.Cluster, b.ClusterX = len(cluster), append(b.ClusterX, cluster...)
	b.ZoneGraph = append(b.ZoneGraph, int64(b.Size))
	b.Size++
}

// AddStar adds a node with its devices to the graph that was begun last.
func (b *Batch) AddStar(n *GPUNode) {
	row := int64(len(b.PlaceZone))
	b.Widths.Node, b.NodeX = len(n.X), append(b.NodeX, n.X...)
	b.PlaceZone = append(b.PlaceZone, int64(len(b.ZoneGraph))-1)
	b.DeviceFree = append(b.DeviceFree, n.Free...)
	for range n.Free {
		b.DeviceNode = append(b.DeviceNode, row)
	}
}

// Concat batches graphs. Every graph must be valid and have at least one candidate, and all must have
// the same widths.
func Concat(graphs []*Graph) *Batch { return concat(graphs, nil) }

// ConcatShared is Concat for graphs whose stamps come from this process: nodes with the same stamp
// share one row. In consecutive decisions most nodes do, and a network embeds them once.
func ConcatShared(graphs []*Graph) *Batch { return concat(graphs, map[uint64]int64{}) }

// concat batches graphs. shared, if not nil, maps a stamp to its row and makes nodes share rows.
func concat(graphs []*Graph, shared map[uint64]int64) *Batch {
	b := empty(graphs, shared != nil)
	for gi, g := range graphs {
		zones, nodes := int64(len(b.ZoneGraph)), int64(b.Nodes())
		first := len(b.PlaceNode)
		for i, z := range g.Zone {
			b.PlaceZone = append(b.PlaceZone, zones+int64(z))
			if shared == nil {
				b.addNode(g, i)
				continue
			}
			row, ok := shared[g.Stamp[i]]
			if !ok {
				row = int64(b.Nodes())
				shared[g.Stamp[i]] = row
				b.addNode(g, i)
			}
			b.PlaceNode = append(b.PlaceNode, row)
		}
		for range g.Zones {
			b.ZoneGraph = append(b.ZoneGraph, int64(gi))
		}
		b.PodX = append(b.PodX, g.PodX...)
		b.ClusterX = append(b.ClusterX, g.ClusterX...)
		b.CandidateX = append(b.CandidateX, g.CandidateX...)
		for _, c := range g.Candidates {
			row := nodes + int64(c)
			if shared != nil {
				row = b.PlaceNode[first+int(c)]
			}
			b.CandidateNode = append(b.CandidateNode, row)
			b.CandidateZone = append(b.CandidateZone, zones+int64(g.Zone[c]))
			b.CandidateGraph = append(b.CandidateGraph, int64(gi))
		}
		b.CandidateStart = append(b.CandidateStart, len(b.CandidateNode))
	}
	return b
}

// addNode adds a row for node i of g.
func (b *Batch) addNode(g *Graph, i int) {
	row, groups := int64(b.Nodes()), g.Groups[i]
	b.NodeX = append(b.NodeX, g.NodeRow(i)...)
	b.GroupX = append(b.GroupX, groups.X...)
	b.GroupWeight = append(b.GroupWeight, groups.Weight...)
	for range groups.Weight {
		b.GroupNode = append(b.GroupNode, row)
	}
}

// empty returns a batch with room for the graphs, and for the rows of nodes unless they are shared.
func empty(graphs []*Graph, shared bool) *Batch {
	var nodes, groups, zones, candidates int
	w := feature.Default().Widths
	for _, g := range graphs {
		w = g.featureWidths()
		nodes, zones = nodes+g.Nodes(), zones+g.Zones
		candidates += len(g.Candidates)
		for _, gr := range g.Groups {
			groups += len(gr.Weight)
		}
	}
	b := &Batch{
		Size: len(graphs), Widths: w, PlaceZone: make([]int64, 0, nodes), ZoneGraph: make([]int64, 0, zones),
		PodX: make([]float32, 0, len(graphs)*w.Pod), ClusterX: make([]float32, 0, len(graphs)*w.Cluster),
		CandidateX: make([]float32, 0, candidates*w.Candidate), CandidateNode: make([]int64, 0, candidates),
		CandidateZone: make([]int64, 0, candidates), CandidateGraph: make([]int64, 0, candidates),
		CandidateStart: make([]int, 1, len(graphs)+1),
	}
	if shared {
		b.PlaceNode = make([]int64, 0, nodes)
		return b
	}
	b.NodeX, b.GroupX = make([]float32, 0, nodes*w.Node), make([]float32, 0, groups*w.Group)
	b.GroupWeight, b.GroupNode = make([]float32, 0, groups), make([]int64, 0, groups)
	return b
}
