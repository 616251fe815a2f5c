package feature

// Split divides the features of a CandidateBlock into numbers of the node alone, which are kept from one decision to
// the next, and a few moving numbers of the decision. A feature is its kept number plus the moving numbers that are
// added to it. A linear layer therefore takes the kept numbers once for each change of the node, and the moving ones
// with the sums of the weights of the features that they are added to.
type Split struct {
	Adds [][]int // for each moving number, the indices of the block's features that it is added to
	// Kept returns one element for each node, with one kept number for each feature of the block. Those of candidates are
	// valid, until the next decision.
	Kept func(c *Candidates) []Kept
	Fill func(c *Candidates, out Rows) // writes the moving numbers of each candidate, in the order of Adds
}

// Kept holds the kept numbers of a node.
type Kept struct {
	X     []float32
	Stamp uint64 // changes with X, and no two contents have the same; never 0
}

// SplitLayout is the order of the numbers of a candidate in a split graph: the features of a layout, with the moving
// numbers in place of the features of the block that is split.
type SplitLayout struct {
	Block int     // index among Layout.Candidate
	At    int     // first column of its features, and of its moving numbers
	Len   int     // number of its features
	To    [][]int // for each number of a split row, the columns of the whole row that it is added to
	*Split
}

// Width returns the number of numbers of a candidate in a split graph.
func (s *SplitLayout) Width() int { return len(s.To) }

// Whole returns the features of a candidate from its split row and the kept numbers of its node.
func (s *SplitLayout) Whole(row, kept []float32) []float32 {
	out := make([]float32, len(row)-len(s.Adds)+s.Len)
	copy(out[s.At:], kept)
	for i, x := range row {
		for _, column := range s.To[i] {
			out[column] += x
		}
	}
	return out
}

// splitOf returns the layout of split rows, or nil if no block can be split. Only the first such block is.
func splitOf(blocks []CandidateBlock) *SplitLayout {
	var out *SplitLayout
	at := 0
	var to [][]int
	for i, b := range blocks {
		if b.Split != nil && out == nil {
			out = &SplitLayout{Block: i, At: at, Len: len(b.Features), Split: b.Split}
			for _, adds := range b.Split.Adds {
				columns := make([]int, len(adds))
				for j, f := range adds {
					columns[j] = at + f
				}
				to = append(to, columns)
			}
		} else {
			for j := range b.Features {
				to = append(to, []int{at + j})
			}
		}
		at += len(b.Features)
	}
	if out != nil {
		out.To = to
	}
	return out
}
