package feature

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Widths are the lengths of the feature vectors of a graph.
type Widths struct{ Node, Group, Pod, Cluster, Candidate int }

// Layout is the order of the features in the vectors of a graph: the sets one after another. It is
// immutable.
type Layout struct {
	Node      []NodeBlock
	Group     []GroupBlock
	Pod       []PodBlock
	Cluster   []ClusterBlock
	Candidate []CandidateBlock

	Widths Widths
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
		schema = s.appendSchema(schema)
	}
	l.Widths = Widths{len(List(l.Node)), len(List(l.Group)), len(List(l.Pod)), len(List(l.Cluster)), len(List(l.Candidate))}
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
		"cluster": names(List(l.Cluster)), "candidate": names(List(l.Candidate)),
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
	return appendNames(b, List(s.Node), List(s.Group), List(s.Pod), List(s.Cluster), List(s.Candidate))
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

// ErrGone means that an earlier version had the feature set. The error that wraps it names the policy to use instead.
var ErrGone = errors.New("is gone, and the network that reads it cannot run")

// gone names sets of earlier versions, and the policy that takes the place of networks that read them.
var gone = map[string]string{
	"traffic": "ahead:traffic+overload+balance=0.1", "usage": "linear-usage, or linear-energy for energy", "power": "linear-energy",
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
		if rule := gone[name]; !found && rule != "" {
			return nil, fmt.Errorf("feature set %q %w: use the policy %s", name, ErrGone, rule)
		}
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
