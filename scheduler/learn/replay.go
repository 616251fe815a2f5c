package learn

import (
	"math"
	"math/rand/v2"

	"gnnsched/gnn/graph"
)

// Transition is one placement and what came of it over n steps.
type Transition struct {
	State   *graph.Graph
	Action  int     // candidate chosen
	Teacher int     // candidate that the teacher would have chosen; -1 for none
	Return  float64 // discounted sum of the next n rewards
	Next    *graph.Graph
	// Discount is gamma to the power of the steps to Next; 0 where the episode ended, and
	// then Next is nil.
	Discount float64
}

// Replay keeps the latest transitions and draws among them, by priority: proportional
// prioritised replay, Schaul et al. 2016. With exponent 0 it draws uniformly.
type Replay struct {
	exponent    float64
	transitions []Transition
	next        int // slot to overwrite
	size        int
	tree        []float64 // sums of priorities^exponent; leaves are the last half
	top         float64   // highest leaf so far: new transitions get it
}

// NewReplay returns an empty memory for capacity transitions.
func NewReplay(capacity int, exponent float64) *Replay {
	leaves := 1
	for leaves < capacity {
		leaves *= 2
	}
	return &Replay{exponent: exponent, transitions: make([]Transition, capacity), tree: make([]float64, 2*leaves), top: 1}
}

// Len returns how many transitions are kept.
func (r *Replay) Len() int { return r.size }

// Add keeps t, in place of the oldest where there is no room.
func (r *Replay) Add(t Transition) {
	r.transitions[r.next] = t
	r.set(r.next, r.top)
	r.next = (r.next + 1) % len(r.transitions)
	r.size = min(r.size+1, len(r.transitions))
}

// Sample is a batch drawn from the memory.
type Sample struct {
	Transitions []Transition
	Slots       []int     // to give new priorities to
	Weights     []float32 // importance weights, at most 1, that undo the bias of the drawing
}

// Draw draws n transitions with replacement, one from each n-th of the priority mass. beta,
// 0 to 1, is how much of the bias the weights undo. The memory must not be empty.
func (r *Replay) Draw(rng *rand.Rand, n int, beta float64) Sample {
	s := Sample{Transitions: make([]Transition, n), Slots: make([]int, n), Weights: make([]float32, n)}
	total, highest := r.tree[1], 0.0
	raw := make([]float64, n)
	for i := range n {
		slot := r.find((float64(i) + rng.Float64()) / float64(n) * total)
		p := r.tree[len(r.tree)/2+slot] / total
		raw[i] = math.Pow(float64(r.size)*p, -beta)
		highest = max(highest, raw[i])
		s.Transitions[i], s.Slots[i] = r.transitions[slot], slot
	}
	for i, w := range raw {
		s.Weights[i] = float32(w / highest)
	}
	return s
}

// Prioritise sets the priorities of drawn slots to the size of their errors.
func (r *Replay) Prioritise(slots []int, errors []float32) {
	for i, slot := range slots {
		p := math.Pow(math.Abs(float64(errors[i]))+1e-3, r.exponent)
		r.top = max(r.top, p)
		r.set(slot, p)
	}
}

func (r *Replay) set(slot int, p float64) {
	i := len(r.tree)/2 + slot
	r.tree[i] = p
	for i /= 2; i >= 1; i /= 2 {
		r.tree[i] = r.tree[2*i] + r.tree[2*i+1]
	}
}

// find returns the slot in which the running sum of the leaves reaches mass.
func (r *Replay) find(mass float64) int {
	i := 1
	for i < len(r.tree)/2 {
		i *= 2
		// An empty right half is never entered: rounding may leave a sliver of mass over.
		if mass >= r.tree[i] && r.tree[i+1] > 0 {
			mass -= r.tree[i]
			i++
		}
	}
	return i - len(r.tree)/2
}
