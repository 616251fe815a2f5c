package feature

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Widths are the lengths of the feature vectors of a graph.
type Widths struct{ Node, Group, Pod, Cluster, Candidate, Path int }

// Layout is the order of the features in the vectors of a graph: the sets one after another. It is
// immutable.
type Layout struct {
	Node      []NodeBlock
	Group     []GroupBlock
	Pod       []PodBlock
	Cluster   []ClusterBlock
	Candidate []CandidateBlock
	Path      []PathBlock
	Racks     bool // each rack is a zone vertex

	Widths Widths
	Split  *SplitLayout // of a split graph; nil if no block of Candidate can be split
	hash   string
}

// NewLayout returns the layout of the named sets, or of Base if there are no names. It is an error if
// a set is not known or named twice, or if a kind of vertex would have no feature.
func NewLayout(names []string) (*Layout, error) { return newLayout(names, Base) }

// NewGPULayout is NewLayout for sets of the GPU graph; without names it returns the layout of GPUBase.
func NewGPULayout(names []string) (*Layout, error) { return newLayout(names, GPUBase) }

// NewKindLayout is NewLayout for sets of the graph of kinds; without names it returns the layout of KindBase.
func NewKindLayout(names []string) (*Layout, error) { return newLayout(names, KindBase) }

// newLayout returns the layout of the named sets for the graph of the usual set, or of that set if there are no names.
func newLayout(names []string, usual *Set) (*Layout, error) {
	chosen, err := choose(names, usual)
	if err != nil {
		return nil, err
	}
	l, schema := &Layout{}, []byte{}
	for _, s := range chosen {
		l.Node, l.Group = append(l.Node, s.Node...), append(l.Group, s.Group...)
		l.Pod = append(l.Pod, s.Pod...)
		l.Cluster, l.Candidate = append(l.Cluster, s.Cluster...), append(l.Candidate, s.Candidate...)
		l.Path, l.Racks = append(l.Path, s.Path...), l.Racks || s.Racks
		schema = s.appendSchema(schema)
	}
	l.Widths = Widths{len(List(l.Node)), len(List(l.Group)), len(List(l.Pod)), len(List(l.Cluster)), len(List(l.Candidate)), len(List(l.Path))}
	l.Split = splitOf(l.Candidate)
	needed, of := []int{l.Widths.Node, l.Widths.Cluster}, "nodes and clusters"
	if usual.Stars == "" {
		needed, of = append(needed, l.Widths.Group, l.Widths.Pod, l.Widths.Candidate), "nodes, groups, pods, clusters and candidates"
	}
	if slices.Min(needed) == 0 {
		return nil, fmt.Errorf("feature sets %s: %s need at least one feature each", strings.Join(names, ", "), of)
	}
	l.hash = hash(schema)
	return l, nil
}

// Default returns the layout of Base.
func Default() *Layout { return defaultLayout }

// DefaultGPU returns the layout of GPUBase.
func DefaultGPU() *Layout { return defaultGPULayout }

var defaultLayout, defaultGPULayout = must(NewLayout(nil)), must(NewGPULayout(nil))

// Hash identifies the features, their order and the versions of their sets: 16 hexadecimal digits.
// A network is of no use on a graph with another hash.
func (l *Layout) Hash() string { return l.hash }

// Names returns the names of the features of each kind of vertex and edge.
func (l *Layout) Names() map[string][]string {
	return map[string][]string{
		"node": names(List(l.Node)), "group": names(List(l.Group)), "pod": names(List(l.Pod)),
		"cluster": names(List(l.Cluster)), "candidate": names(List(l.Candidate)), "path": names(List(l.Path)),
	}
}

// appendSchema appends what identifies the set. Base and GPUBase have no name there: checkpoints are older than
// the names of sets.
func (s *Set) appendSchema(b []byte) []byte {
	if s != Base && s != GPUBase {
		b = append(b, s.Name+":"...)
	}
	b = append(b, s.Version)
	if s.Stars != "" {
		return appendNames(append(b, DeviceKnots), List(s.Node), List(s.Cluster))
	}
	b = appendNames(b, List(s.Node), List(s.Group), List(s.Pod), List(s.Cluster), List(s.Candidate))
	if len(s.Path) > 0 { // checkpoints of other sets are older
		b = appendNames(b, List(s.Path))
	}
	return b
}

// appendNames appends the names of some lists of features.
func appendNames(b []byte, lists ...[]Feature) []byte {
	for _, list := range lists {
		b = append(b, strings.Join(names(list), ",")+";"...)
	}
	return b
}

func names(list []Feature) []string {
	out := make([]string, len(list))
	for i, f := range list {
		out[i] = f.Name
	}
	return out
}

func hash(schema []byte) string {
	sum := sha256.Sum256(schema)
	return hex.EncodeToString(sum[:8])
}

// choose returns the sets with the given names for the graph of the usual one, each at most once, or the usual one if there are no
// names.
func choose(names []string, usual *Set) ([]*Set, error) {
	if len(names) == 0 {
		return []*Set{usual}, nil
	}
	chosen := make([]*Set, len(names))
	for i, name := range names {
		s, found := sets[setKey{usual.Stars, name}]
		if !found {
			return nil, fmt.Errorf("feature set %q is not known (%s)", name, strings.Join(namesOf(usual.Stars), ", "))
		}
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("feature set %q is named twice", name)
		}
		chosen[i] = s
	}
	return chosen, nil
}

// must returns the layout of a set that is part of the program.
func must(l *Layout, err error) *Layout {
	if err != nil {
		panic(err)
	}
	return l
}

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
