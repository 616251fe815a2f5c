package dqn

import (
	"math"
	"math/rand/v2"
)

// memory is the replay buffer. It keeps the latest transitions, as many as it has slots for and as take no more
// than a number of bytes, and draws among them with probabilities proportional to priority^exponent
// (proportional prioritised replay, Schaul et al. 2016). An exponent of 0 draws uniformly.
type memory struct {
	exponent    float64
	limit       int // bytes
	transitions []transition
	next        int       // slot to write next; the slots in use lie before it, in the order of age
	size        int       // slots in use
	tree        []float64 // binary tree of sums of priorities^exponent; the last half are its leaves, one a slot
	top         float64   // highest leaf so far; new transitions get it
	ledger      ledger
	full        bool // whether a transition was ever dropped
}

// newMemory returns an empty memory for the number of transitions and of bytes in c.
func newMemory(c Config) *memory {
	return sized(c.ReplayBufferSize, c.Bytes(), c.PriorityExponent)
}

func sized(capacity, limit int, exponent float64) *memory {
	leaves := 1
	for leaves < capacity {
		leaves *= 2
	}
	return &memory{exponent: exponent, limit: limit, transitions: make([]transition, capacity), tree: make([]float64, 2*leaves), top: 1,
		ledger: newLedger()}
}

// add keeps t. A full memory drops its oldest transitions for it.
func (r *memory) add(t transition) {
	if r.size == len(r.transitions) {
		r.drop()
	}
	r.ledger.hold(t.state)
	r.ledger.hold(t.next)
	for r.ledger.bytes > r.limit && r.size > 0 {
		r.drop()
	}
	r.transitions[r.next] = t
	r.set(r.next, r.top)
	r.next = (r.next + 1) % len(r.transitions)
	r.size++
}

// slot returns the slot of the i-th oldest transition.
func (r *memory) slot(i int) int {
	return (r.next - r.size + i + len(r.transitions)) % len(r.transitions)
}

// drop forgets the oldest transition.
func (r *memory) drop() {
	slot := r.slot(0)
	r.ledger.release(r.transitions[slot].state)
	r.ledger.release(r.transitions[slot].next)
	r.transitions[slot] = transition{}
	r.set(slot, 0)
	r.size--
	r.full = true
}

// newest returns a memory with the latest transitions that take no more than a number of bytes.
func (r *memory) newest(bytes int) *memory {
	out := sized(len(r.transitions), bytes, r.exponent)
	out.next = r.slot(0)
	for i := range r.size {
		slot := r.slot(i)
		out.add(r.transitions[slot])
		out.set(slot, r.tree[len(r.tree)/2+slot])
	}
	out.top = r.top
	return out
}

// enough reports whether there is enough to learn from: a number of transitions, or all that fit.
func (r *memory) enough(n int) bool { return r.size >= n || r.full }

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

// transition is a placement and what followed from it over n steps.
type transition struct {
	state    *frame
	action   int     // index of the chosen candidate
	teacher  int     // index of the teacher's choice; -1 for none
	ret      float64 // the return: the discounted sum of the next n rewards
	next     *frame  // state after n steps; nil if the episode ended before
	discount float64 // gamma to the power of the steps to next; 0 without it
}

// nStep makes transitions over n steps out of the steps of an episode (Sutton and Barto 2018,
// chapter 7): R = r_0 + γ r_1 + … + γ^(n-1) r_(n-1), bootstrapped with γ^n.
type nStep struct {
	n       int
	gamma   float64
	waiting []transition // which lack some of their n rewards
	rewards []float64    // of the waiting ones
}

// begin notes a choice. Its reward follows with reward.
func (s *nStep) begin(state *frame, action, teacher int) {
	s.waiting = append(s.waiting, transition{state: state, action: action, teacher: teacher})
}

// latest returns the state of the last choice; nil for none.
func (s *nStep) latest() *frame {
	if len(s.waiting) == 0 {
		return nil
	}
	return s.waiting[len(s.waiting)-1].state
}

// reward notes the reward of the last choice.
func (s *nStep) reward(r float64) { s.rewards = append(s.rewards, r) }

// ready returns the oldest transition once it has n rewards. It bootstraps from next, the present
// state.
func (s *nStep) ready(next *frame) (transition, bool) {
	if len(s.rewards) < s.n {
		return transition{}, false
	}
	t := s.pop()
	t.next = next
	return t, true
}

// pop takes out the oldest transition with the rewards that it has.
func (s *nStep) pop() transition {
	t, f := s.waiting[0], 1.0
	for _, r := range s.rewards[:min(s.n, len(s.rewards))] {
		t.ret += f * r
		f *= s.gamma
	}
	t.discount = f
	s.waiting, s.rewards = s.waiting[1:], s.rewards[1:]
	return t
}

// end empties the queue at the end of an episode. These transitions do not bootstrap.
func (s *nStep) end(add func(transition)) {
	for len(s.rewards) > 0 {
		t := s.pop()
		t.discount, t.next = 0, nil
		add(t)
	}
	s.waiting = nil
}
