package graph

// Batch is several graphs as one, disconnected: indices run over the whole batch. A row of
// nodes may stand for the same node in several graphs, where nothing about it differs; a place
// is a node in one graph.
type Batch struct {
	Size int // B, the number of graphs

	NodeX []float32 // ΣN × NodeDim

	PlaceNode []int64 // ΣP: row of the node; nil where rows and places are the same
	PlaceZone []int64 // ΣP: zone vertex
	ZoneGraph []int64 // ΣZ: graph

	GroupX      []float32 // ΣG × GroupDim
	GroupWeight []float32 // ΣG
	GroupNode   []int64   // ΣG: row of the node

	PodX     []float32 // B × PodDim
	ClusterX []float32 // B × ClusterDim

	CandidateX     []float32 // ΣC × CandidateDim
	CandidateNode  []int64   // ΣC: row of the node
	CandidateZone  []int64   // ΣC: zone vertex
	CandidateGraph []int64   // ΣC: graph
	CandidateStart []int     // B+1: candidates of graph b are [start[b], start[b+1])
}

// Nodes returns ΣN.
func (b *Batch) Nodes() int { return len(b.NodeX) / NodeDim }

// Concat batches graphs. Every graph must be valid and have at least one candidate.
func Concat(graphs []*Graph) *Batch { return concat(graphs, nil) }

// ConcatShared is Concat for graphs whose stamps are of this process: nodes with the same stamp
// are one row. In consecutive decisions most are, and a network embeds them once.
func ConcatShared(graphs []*Graph) *Batch { return concat(graphs, map[uint64]int64{}) }

func concat(graphs []*Graph, shared map[uint64]int64) *Batch {
	b := empty(graphs, shared != nil)
	for gi, g := range graphs {
		zones, first := int64(len(b.ZoneGraph)), len(b.PlaceNode)
		nodes := int64(b.Nodes())
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

// empty returns a batch with room for the graphs; for the rows of nodes only where they are not
// shared.
func empty(graphs []*Graph, shared bool) *Batch {
	var nodes, groups, zones, candidates int
	for _, g := range graphs {
		nodes, zones, candidates = nodes+g.Nodes(), zones+g.Zones, candidates+len(g.Candidates)
		for _, gr := range g.Groups {
			groups += len(gr.Weight)
		}
	}
	b := &Batch{
		Size: len(graphs), PlaceZone: make([]int64, 0, nodes), ZoneGraph: make([]int64, 0, zones),
		PodX: make([]float32, 0, len(graphs)*PodDim), ClusterX: make([]float32, 0, len(graphs)*ClusterDim),
		CandidateX: make([]float32, 0, candidates*CandidateDim), CandidateNode: make([]int64, 0, candidates),
		CandidateZone: make([]int64, 0, candidates), CandidateGraph: make([]int64, 0, candidates),
		CandidateStart: make([]int, 1, len(graphs)+1),
	}
	if shared {
		b.PlaceNode = make([]int64, 0, nodes)
		return b
	}
	b.NodeX, b.GroupX = make([]float32, 0, nodes*NodeDim), make([]float32, 0, groups*GroupDim)
	b.GroupWeight, b.GroupNode = make([]float32, 0, groups), make([]int64, 0, groups)
	return b
}
