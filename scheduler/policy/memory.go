package policy

import "gnnsched/scheduler/cluster"

// memory keeps the scores of a policy that looks at one node and the pod's requests alone.
// Between two decisions one node changes, so that most scores are still right.
type memory struct {
	columns map[cluster.Resources][]cell
}

// cell is the score of a node in one of its states.
type cell struct {
	node       *cluster.Node
	generation int64
	score      float32
}

// maxColumns bounds what is kept for workloads in which every pod asks for something else.
const maxColumns = 512

// score writes what of gives for each candidate to scores, asking it for what has changed. Pods
// that differ in the memory that they ask for are alike to it.
func (m *memory) score(s *cluster.Snapshot, r cluster.Resources, candidates []int32, scores []float32, of func(n *cluster.Node, r cluster.Resources) int64) {
	r.Memory = 0
	column := m.columns[r]
	if len(column) < len(s.Nodes) {
		if m.columns == nil || len(m.columns) >= maxColumns {
			m.columns = map[cluster.Resources][]cell{}
		}
		column = make([]cell, len(s.Nodes))
		m.columns[r] = column
	}
	for i, v := range candidates {
		n, c := s.Nodes[v], &column[v]
		if c.node != n || c.generation != n.Generation {
			*c = cell{n, n.Generation, float32(of(n, r))}
		}
		scores[i] = c.score
	}
}
