package graph

// Batch is several graphs as one, disconnected: indices run over the whole batch.
type Batch struct {
	Size int // B, the number of graphs

	NodeX     []float32 // ΣN × NodeDim
	NodeZone  []int64   // ΣN: zone vertex
	NodeGraph []int64   // ΣN: graph
	ZoneGraph []int64   // ΣZ: graph

	GroupX      []float32 // ΣG × GroupDim
	GroupWeight []float32 // ΣG
	GroupNode   []int64   // ΣG: node vertex

	PodX     []float32 // B × PodDim
	ClusterX []float32 // B × ClusterDim

	CandidateX     []float32 // ΣC × CandidateDim
	CandidateNode  []int64   // ΣC: node vertex
	CandidateGraph []int64   // ΣC: graph
	CandidateStart []int     // B+1: candidates of graph b are [start[b], start[b+1])
}

// Concat batches graphs. Every graph must be valid and have at least one candidate.
func Concat(graphs []*Graph) *Batch {
	b := &Batch{Size: len(graphs), CandidateStart: []int{0}}
	for gi, g := range graphs {
		nodes, zones := int64(len(b.NodeGraph)), int64(len(b.ZoneGraph))
		b.NodeX = append(b.NodeX, g.NodeX...)
		for i, z := range g.Zone {
			b.NodeZone = append(b.NodeZone, zones+int64(z))
			b.NodeGraph = append(b.NodeGraph, int64(gi))
			gr := g.Groups[i]
			b.GroupX = append(b.GroupX, gr.X...)
			b.GroupWeight = append(b.GroupWeight, gr.Weight...)
			for range gr.Weight {
				b.GroupNode = append(b.GroupNode, nodes+int64(i))
			}
		}
		for range g.Zones {
			b.ZoneGraph = append(b.ZoneGraph, int64(gi))
		}
		b.PodX = append(b.PodX, g.PodX...)
		b.ClusterX = append(b.ClusterX, g.ClusterX...)
		b.CandidateX = append(b.CandidateX, g.CandidateX...)
		for _, c := range g.Candidates {
			b.CandidateNode = append(b.CandidateNode, nodes+int64(c))
			b.CandidateGraph = append(b.CandidateGraph, int64(gi))
		}
		b.CandidateStart = append(b.CandidateStart, len(b.CandidateNode))
	}
	return b
}
