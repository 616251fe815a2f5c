package objective

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gnnsched/internal/choice"
	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
)

// Weighted is a term with its weight in a mix.
type Weighted struct {
	Term   Term
	Weight float64 // over 0
}

// Mix is a weighted sum of terms, and is itself a term. Flags, configuration files and checkpoints
// hold it as text, such as "balance" or "balance=1,pack=0.5".
type Mix []Weighted

var (
	_ Trackable                = Mix{}
	_ encoding.TextMarshaler   = Mix{}
	_ encoding.TextUnmarshaler = &Mix{}
)

// Terms lists the terms that Parse knows by name. To add a term, write a type that implements Term
// and name it here.
var Terms = []Term{
	Balance{}, Ordinary{}, Pack{}, Fragmentation{}, Zones{}, GPUIdle{},
	usageBalance{}, hotNodes{}, Throttled{}, unusedCPU{}, energy{}, traffic{}, overload{},
	Waiting{},
}

// Parse reads a mix from its text form. The error of an unknown term lists the known ones.
func Parse(text string) (Mix, error) {
	var m Mix
	for _, part := range strings.Split(text, ",") {
		name, weight, given := strings.Cut(strings.TrimSpace(part), "=")
		i := slices.IndexFunc(Terms, func(t Term) bool { return t.Name() == name })
		if i < 0 {
			if strings.Contains(part, "+") && !strings.Contains(text, ",") {
				if m, err := Parse(strings.ReplaceAll(text, "+", ",")); err == nil {
					return nil, fmt.Errorf("objective %q: here a comma separates terms: %s", text, m.Name())
				}
			}
			return nil, fmt.Errorf("objective %q: %w", text, choice.Unknown("term", name, known()))
		}
		w := Weighted{Term: Terms[i], Weight: 1}
		if given {
			v, err := strconv.ParseFloat(weight, 64)
			if err != nil {
				return nil, fmt.Errorf("objective %q: weight %q of %s is not a number", text, weight, name)
			}
			w.Weight = v
		}
		m = append(m, w)
	}
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("objective %q: %w", text, err)
	}
	return m, nil
}

// known returns the names of Terms.
func known() []string { return choice.Names(Terms, Term.Name) }

// Validate checks that the mix has a term, that no term occurs twice, and that the weights are
// finite and over 0.
func (m Mix) Validate() error {
	if len(m) == 0 {
		return fmt.Errorf("it has no term; choose from %s", strings.Join(known(), ", "))
	}
	seen := map[string]bool{}
	for _, w := range m {
		name := w.Term.Name()
		if !(w.Weight > 0) || math.IsInf(w.Weight, 0) {
			return fmt.Errorf("weight %v of %s must be a finite number over 0", w.Weight, name)
		}
		if seen[name] {
			return fmt.Errorf("term %s occurs twice", name)
		}
		seen[name] = true
	}
	return nil
}

// Name implements Term. It returns the text form that Parse reads.
func (m Mix) Name() string {
	parts := make([]string, len(m))
	for i, w := range m {
		parts[i] = w.Term.Name()
		if w.Weight != 1 {
			parts[i] += "=" + strconv.FormatFloat(w.Weight, 'g', -1, 64)
		}
	}
	return strings.Join(parts, ",")
}

// MarshalText implements encoding.TextMarshaler.
func (m Mix) MarshalText() ([]byte, error) { return []byte(m.Name()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Mix) UnmarshalText(b []byte) error {
	parsed, err := Parse(string(b))
	if err != nil {
		return err
	}
	*m = parsed
	return nil
}

// Cost implements Term.
func (m Mix) Cost(nodes []*cluster.Node) float64 {
	return each.Sum(m, func(w Weighted) float64 { return w.Weight * w.Term.Cost(nodes) })
}

// Track implements Trackable.
func (m Mix) Track(nodes []*cluster.Node) Tracker {
	t := make(mixTracker, len(m))
	for i, w := range m {
		t[i] = weightedTracker{Track(w.Term, nodes), w.Weight}
	}
	return t
}

type weightedTracker struct {
	Tracker
	weight float64
}

type mixTracker []weightedTracker

func (m mixTracker) Update(i int) {
	for _, t := range m {
		t.Update(i)
	}
}

func (m mixTracker) Cost() float64 {
	return each.Sum(m, func(t weightedTracker) float64 { return t.weight * t.Cost() })
}

// Ordinary measures how unevenly the nodes without GPUs are used: it is Balance of these nodes alone. On a
// cluster where GPUs are to be packed, Balance of all nodes would ask for the opposite. The cost is 0 if
// every node has GPUs.
type Ordinary struct{}

// Name implements Term.
func (Ordinary) Name() string { return "ordinary" }

// About implements Described.
func (Ordinary) About() string {
	return "balance of the nodes without GPUs"
}

// Cost implements Term.
func (Ordinary) Cost(nodes []*cluster.Node) float64 {
	ordinary, _ := withoutGPUs(nodes)
	return Balance{}.Cost(ordinary)
}

// Track implements Trackable.
func (Ordinary) Track(nodes []*cluster.Node) Tracker {
	ordinary, rows := withoutGPUs(nodes)
	return ordinaryTracker{Balance{}.Track(ordinary), rows}
}

// withoutGPUs returns the nodes that offer no GPUs, and the row among them of each of nodes, or -1.
func withoutGPUs(nodes []*cluster.Node) (ordinary []*cluster.Node, rows []int) {
	rows = make([]int, len(nodes))
	for i, n := range nodes {
		if rows[i] = -1; n.Allocatable.GPU == 0 {
			rows[i] = len(ordinary)
			ordinary = append(ordinary, n)
		}
	}
	return ordinary, rows
}

// ordinaryTracker passes on the updates of the nodes that count.
type ordinaryTracker struct {
	Tracker
	rows []int
}

func (t ordinaryTracker) Update(i int) {
	if t.rows[i] >= 0 {
		t.Tracker.Update(t.rows[i])
	}
}

// Waiting measures the pods that have no node: what they request, as a share of what the cluster offers. The nodes do not show it, so
// whoever knows the queue adds it to the cost (Mix.Waiting).
type Waiting struct{}

// Name implements Term.
func (Waiting) Name() string { return "waiting" }

// About implements Described.
func (Waiting) About() string {
	return "what pods without a node request, as a share of what the nodes offer " +
		"(of CPU, memory and GPUs the one of which they request most)"
}

// Cost implements Term. It is 0.
func (Waiting) Cost([]*cluster.Node) float64 { return 0 }

// Waiting returns the weight of the term waiting in the mix; 0 if it is not there.
func (m Mix) Waiting() float64 {
	for _, w := range m {
		if w.Term == (Waiting{}) {
			return w.Weight
		}
	}
	return 0
}

// Capacity returns what the nodes offer.
func Capacity(nodes []*cluster.Node) (out cluster.Resources) {
	for _, n := range nodes {
		out = out.Plus(n.Offers())
	}
	return out
}

// NoQueue returns an error if the mix has the term waiting, for those who see the nodes alone.
func (m Mix) NoQueue() error {
	if m.Waiting() > 0 {
		return errors.New("waiting: only the simulator counts what waits; use this term with eval, tune and training")
	}
	return nil
}

// Share returns the largest share of a capacity that requests take: of CPU, memory or GPUs.
func Share(r, of cluster.Resources) float64 {
	r = r.Counted()
	return max(cluster.Fraction(r.MilliCPU, of.MilliCPU), cluster.Fraction(r.Memory, of.Memory),
		cluster.Fraction(r.TotalGPUMilli(), cluster.DeviceMilli*of.GPU))
}

// Term gives the state of a cluster a cost; lower is better.
type Term interface {
	// Name is the term's name in flags, configuration files and tables.
	Name() string
	// Cost returns the cost of the state. It has no unit. 0 is the best state and 1 about the
	// worst, so that the weights of a mix are comparable.
	Cost(nodes []*cluster.Node) float64
}

// Described is a term with a short description for help texts and the reference.
type Described interface {
	Term
	About() string
}

// Tracker keeps the cost of one cluster up to date while its nodes change.
type Tracker interface {
	// Update records that the pods on node i may have changed. A node's capacity and availability must not change while the tracker is used.
	Update(i int)
	// Cost returns the term's cost of the state after all updates, up to rounding.
	Cost() float64
}

// Trackable is a term whose cost is cheaper to update than to compute from all nodes.
type Trackable interface {
	Term
	// Track returns a tracker of the given nodes. The slice must not change while the tracker is
	// used.
	Track(nodes []*cluster.Node) Tracker
}

// Track returns a tracker of t for the given nodes. If t is not Trackable, the tracker computes the cost from all nodes at every call.
func Track(t Term, nodes []*cluster.Node) Tracker {
	if own, ok := t.(Trackable); ok {
		return own.Track(nodes)
	}
	return recomputing{t, nodes}
}

// recomputing is the tracker of terms that are not Trackable.
type recomputing struct {
	term  Term
	nodes []*cluster.Node
}

func (recomputing) Update(int)      {}
func (r recomputing) Cost() float64 { return r.term.Cost(r.nodes) }
