package linear

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gnnsched/internal/choice"
	"gnnsched/internal/cluster"
)

// State names the numbers of a decision by which weights may change. They are 0 on clusters of 256 available nodes or more, since the
// changes were learned on 6 to 96 nodes.
var State = []string{"small", "preferred", "load", "crowd"}

// StateDocs describes State.
var StateDocs = []string{
	"1 up to 128 available nodes, from there falling with their logarithm to 0 at 256",
	"small · log2(candidates that preferences leave / available nodes) / 4, at least -1; all candidates, if it is not known",
	"small · (mean over the available nodes of CPU plus memory, as fractions, minus 1)",
	"preferred · load / small",
}

// tooLarge is the number of available nodes from which on weights do not change. Up to half of it they change in full.
const tooLarge = 256

// state returns the numbers of a decision among some candidates, in the order of State.
func (f *loads) state(s *cluster.Snapshot, candidates int) []float64 {
	nodes := max(f.nodes, 1)
	small := max(min(math.Log2(tooLarge/nodes), 1), 0)
	preferred := logSize(float64(cmp.Or(s.Preferred, candidates)), nodes) / 4
	load := f.cpu.Mean() + f.memory.Mean() - 1
	return []float64{small, small * preferred, small * load, small * preferred * load}
}

// changes says by how much weights change with the state: the weight of feature j is w_j (1 + Σ_k by_jk s_k), where s_k are the numbers of
// State.
type changes struct {
	by [][]float64 // by feature, in the order of Features; each in the order of State, or nil for none
}

// of returns the weights in a state.
func (c *changes) of(weights, state []float64) []float64 {
	out := slices.Clone(weights)
	for j, by := range c.by {
		change := 0.0
		for k, d := range by {
			change += d * state[k]
		}
		out[j] *= 1 + change
	}
	return out
}

// parseChanges reads the changes by the names of features and of State.
func parseChanges(named map[string]map[string]float64) (*changes, error) {
	if len(named) == 0 {
		return nil, nil
	}
	c := &changes{make([][]float64, len(Features))}
	for feature, by := range named {
		j := slices.Index(Features, feature)
		if j < 0 {
			return nil, choice.Unknown("feature", feature, Features)
		}
		c.by[j] = make([]float64, len(State))
		for name, d := range by {
			k := slices.Index(State, name)
			if k < 0 {
				return nil, choice.Unknown("number of the state", name, State)
			}
			if !(math.Abs(d) <= mostChange) {
				return nil, fmt.Errorf("the weight of %s changes by %v with %s; give numbers from %v to %v", feature, d, name, -mostChange, mostChange)
			}
			c.by[j][k] = d
		}
	}
	return c, nil
}

// mostChange bounds the changes, so that no score overflows.
const mostChange = 1e3

// byName is the inverse of parseChanges.
func (c *changes) byName() map[string]map[string]float64 {
	if c == nil {
		return nil
	}
	out := map[string]map[string]float64{}
	for j, by := range c.by {
		if by == nil {
			continue
		}
		named := map[string]float64{}
		for k, d := range by {
			named[State[k]] = d
		}
		out[Features[j]] = named
	}
	return out
}
