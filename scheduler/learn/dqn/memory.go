package dqn

import (
	"math"
	"math/rand/v2"
)

// memory is the replay buffer. It keeps the latest transitions and draws among them with
// probabilities proportional to priority^exponent (proportional prioritised replay, Schaul et al.
// 2016). An exponent of 0 draws uniformly.
type memory struct {
	exponent    float64
	transitions []transition
	next        int       // slot to overwrite
	size        int       // slots in use
	tree        []float64 // binary tree of sums of priorities^exponent; the last half are its leaves, one a slot
	top         float64   // highest leaf so far; new transitions get it
}

// newMemory returns an empty memory for capacity transitions.
func newMemory(capacity int, exponent float64) *memory {
	leaves := 1
	for leaves < capacity {
		leaves *= 2
	}
	return &memory{exponent: exponent, transitions: make([]transition, capacity), tree: make([]float64, 2*leaves), top: 1}
}

// add keeps t. A full memory drops its oldest transition for it.
func (r *memory) add(t transition) {
	r.transitions[r.next] = t
	r.set(r.next, r.top)
	r.next = (r.next + 1) % len(r.transitions)
	r.size = min(r.size+1, len(r.transitions))
}

// sample is a batch drawn from the memory.
type sample struct {
	transitions []transition
	slots       []int     // of the transitions, to set their priorities
	weights     []float32 // importance weights, at most 1, which correct for the unequal probabilities
}

// draw draws n transitions with replacement, one from each n-th of the sum of priorities. beta,
// 0 to 1, is how much of the bias the weights correct. The memory must not be empty.
func (r *memory) draw(rng *rand.Rand, n int, beta float64) sample {
	s := sample{transitions: make([]transition, n), slots: make([]int, n), weights: make([]float32, n)}
	total := r.tree[1]
	highest := 0.0
	raw := make([]float64, n)
	for i := range n {
		slot := r.find((float64(i) + rng.Float64()) / float64(n) * total)
		p := r.tree[len(r.tree)/2+slot] / total
		raw[i] = math.Pow(float64(r.size)*p, -beta)
		highest = max(highest, raw[i])
		s.transitions[i], s.slots[i] = r.transitions[slot], slot
	}
	for i, w := range raw {
		s.weights[i] = float32(w / highest)
	}
	return s
}

// prioritise sets the priorities of drawn slots to the size of their temporal-difference errors.
func (r *memory) prioritise(slots []int, errors []float32) {
	for i, slot := range slots {
		p := math.Pow(math.Abs(float64(errors[i]))+1e-3, r.exponent)
		r.top = max(r.top, p)
		r.set(slot, p)
	}
}

// set sets the leaf of a slot and the sums above it.
func (r *memory) set(slot int, p float64) {
	i := len(r.tree)/2 + slot
	r.tree[i] = p
	for i /= 2; i >= 1; i /= 2 {
		r.tree[i] = r.tree[2*i] + r.tree[2*i+1]
	}
}

// find returns the slot at which the running sum of the leaves reaches mass.
func (r *memory) find(mass float64) int {
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
