package policy

import "gnnsched/internal/cluster"

// memory keeps the scores of a policy that looks at one node and the pod's requests alone.
// Between two decisions one node changes, so that most scores are still right.
type memory struct {
	columns columns[cell]
}

// cell is the score of a node in one of its states.
type cell struct {
	node       *cluster.Node
	generation int64
	score      float32
}

// columns keep something about each row of a snapshot, for the pods that ask for the same.
type columns[C any] map[cluster.Resources][]C

// maxColumns bounds what is kept for workloads in which every pod asks for something else.
const maxColumns = 512

// of is what is kept of so many rows, for pods that ask for r.
func (c *columns[C]) of(r cluster.Resources, rows int) []C {
	column := (*c)[r]
	if len(column) >= rows {
		return column
	}
	if *c == nil || len(*c) >= maxColumns {
		*c = columns[C]{}
	}
	column = append(column, make([]C, rows-len(column))...)
	(*c)[r] = column
	return column
}

// score writes what of gives for each candidate to scores, asking it for what has changed. Pods
// that differ in the memory that they ask for are alike to it.
func (m *memory) score(s *cluster.Snapshot, r cluster.Resources, candidates []int32, scores []float32, of func(n *cluster.Node, r cluster.Resources) int64) {
	r.Memory = 0
	column := m.columns.of(r, len(s.Nodes))
	for i, v := range candidates {
		n, c := s.Nodes[v], &column[v]
		if c.node != n || c.generation != n.Generation {
			*c = cell{n, n.Generation, float32(of(n, r))}
		}
		scores[i] = c.score
	}
}
