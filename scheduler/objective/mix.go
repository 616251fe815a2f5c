package objective

import (
	"encoding"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gnnsched/internal/choice"
	"gnnsched/internal/cluster"
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
	var sum float64
	for _, w := range m {
		sum += w.Weight * w.Term.Cost(nodes)
	}
	return sum
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
	var sum float64
	for _, t := range m {
		sum += t.weight * t.Cost()
	}
	return sum
}
