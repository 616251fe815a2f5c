package feature

import (
	"fmt"
	"slices"
)

// Feature describes one number.
type Feature struct {
	Name string
	Doc  string // formula, unit and range
	// Rare marks a feature that training may never show. Its weights start at zero, so that a
	// feature that training never showed does nothing in service.
	Rare bool
	// In says which values the feature can have. One that names none is Signed.
	In Domain
}

// Domain says which values a feature can have on a node that the pending pod fits on.
type Domain uint8

// The domains. Signed is for what is neither of the others, such as logarithms and ranks: it is the widest range with a minus sign, so a
// feature that should have named a narrower one is explained by values that it cannot have.
const (
	Signed     Domain = iota // -4 to 4
	Amount                   // 0 or more
	Fraction                 // 0 to 1
	Flag                     // 0 or 1
	Difference               // -1 to 1, as of a fraction and a mean of fractions
)

// Has tells whether the domain has a value.
func (d Domain) Has(x float64) bool {
	switch d {
	case Amount:
		return x >= 0
	case Fraction:
		return x >= 0 && x <= 1
	case Flag:
		return x == 0 || x == 1
	case Difference:
		return x >= -1 && x <= 1
	}
	return x >= -4 && x <= 4
}

// inDomain sets the domain of a block's features.
func inDomain[C any](d Domain, b Block[C]) Block[C] {
	for i := range b.Features {
		b.Features[i].In = d
	}
	return b
}

// Block is a list of features that one function computes. Most blocks have one feature, made by
// One; a block of several saves time where they share intermediate results.
type Block[C any] struct {
	Features []Feature
	Fill     func(c *C, out []float32) // writes len(Features) numbers, in order; nil if One made the block

	value func(c *C) float32 // the one feature; nil if Fill computes several
}

// Fill writes the features of some blocks to out, in order, and returns it.
func Fill[C any](blocks []Block[C], c *C, out []float32) []float32 {
	at := 0
	for i := range blocks {
		b := &blocks[i]
		if b.value != nil {
			out[at] = b.value(c)
			at++
			continue
		}
		b.Fill(c, out[at:at+len(b.Features)])
		at += len(b.Features)
	}
	return out
}

func (b Block[C]) list() []Feature { return b.Features }

// One returns a block of one feature.
func One[C any](name, doc string, value func(*C) float32) Block[C] {
	return Block[C]{Features: []Feature{{Name: name, Doc: doc}}, value: value}
}

// rarely marks the features of a block as rare.
func rarely[C any](b Block[C]) Block[C] {
	for i := range b.Features {
		b.Features[i].Rare = true
	}
	return b
}

// The blocks of a Set. There is one NodeBlock result for each node, one GroupBlock result for each
// group of equal pods on a node, and one PodBlock and ClusterBlock result for each decision.
type (
	NodeBlock    = Block[Node]
	GroupBlock   = Block[Group]
	PodBlock     = Block[Pod]
	ClusterBlock = Block[Candidates]
)

// CandidateBlock is a Block for the candidates of a decision. One call computes the features of all
// candidates, because there may be thousands.
type CandidateBlock struct {
	Features []Feature
	Fill     func(c *Candidates, out Rows) // writes len(Features) numbers for each candidate
}

func (b CandidateBlock) list() []Feature { return b.Features }

// List returns the features of some blocks, in order.
func List[B interface{ list() []Feature }](blocks []B) (all []Feature) {
	for _, b := range blocks {
		all = append(all, b.list()...)
	}
	return all
}

// EachCandidate returns a block of one feature, computed for one candidate at a time: value is given
// the candidate's index.
func EachCandidate(name, doc string, value func(c *Candidates, i int) float32) CandidateBlock {
	return CandidateBlock{Features: []Feature{{Name: name, Doc: doc}}, Fill: func(c *Candidates, out Rows) {
		for i := range c.Rows {
			out.Row(i)[0] = value(c, i)
		}
	}}
}

// Rows is where a CandidateBlock writes: some columns of a row-major matrix with one row for each
// candidate.
type Rows struct {
	X       []float32
	Width   int // of the matrix
	At, Len int // first column and number of columns
}

// Row returns the block's columns of row i.
func (r Rows) Row(i int) []float32 {
	at := i*r.Width + r.At
	return r.X[at : at+r.Len]
}

// Set is a named list of features for each kind of vertex, and for the edge between the pending pod
// and a candidate. Any of the lists may be empty.
type Set struct {
	Name string
	Doc  string
	// Version is part of the schema hash. Raise it only in a set that no shipped checkpoint reads.
	Version byte
	// Stars names the graph of stars that the set is for; empty for the cluster graph. A set for stars has features of their centres
	// (Node) and of the cluster alone. Those for GPUStars depend on Node.State, Node.GPUNode and Candidates.GPUCluster, those for kindStars
	// on Node.Kind and Candidates.Kinds.
	Stars string

	Node      []NodeBlock
	Group     []GroupBlock
	Pod       []PodBlock
	Cluster   []ClusterBlock
	Candidate []CandidateBlock
}

// The graphs of stars.
const (
	GPUStars  = "gpu"   // a node and its GPU devices
	kindStars = "kinds" // a kind of pods and its places
)

// setKey identifies a set: the graphs may have sets of the same name.
type setKey struct{ stars, name string }

// sets are the registered sets.
var sets = map[setKey]*Set{
	{"", Base.Name}: Base, {GPUStars, GPUBase.Name}: GPUBase, {kindStars, KindBase.Name}: KindBase,
}

// Sets returns the registered sets, those of graphs of stars last, sorted by name.
func Sets() (all []*Set) {
	for _, stars := range []string{"", GPUStars, kindStars} {
		for _, name := range namesOf(stars) {
			all = append(all, sets[setKey{stars, name}])
		}
	}
	return all
}

// namesOf returns the sorted names of the sets for one graph.
func namesOf(stars string) (names []string) {
	for k := range sets {
		if k.stars == stars {
			names = append(names, k.name)
		}
	}
	slices.Sort(names)
	return names
}

// Register makes a set known by its name. It panics if a set of the same graph has that name. Call it from an init
// function: it is not safe for concurrent use.
func Register(s *Set) {
	key := setKey{s.Stars, s.Name}
	if sets[key] != nil || s.Name == "" {
		panic(fmt.Sprintf("feature: a set named %q is registered already, or the name is empty", s.Name))
	}
	sets[key] = s
}
