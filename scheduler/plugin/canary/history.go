package canary

// mark is one event that counts against a pod's group.
type mark struct {
	owner uint64 // ownerKey; others if too many owners have marks
	level int    // kind of failure, or bucket of a time
}

const (
	// others is the key for the owners beyond mostOwners. They are never left out of a comparison.
	others     = 0
	mostOwners = 2000 // that one count tells apart
)

// count counts the pods of one group, or its attempts, and their marks by owner. Its size is bounded.
type count struct {
	pods  int
	of    map[uint64]int // pods by owner
	marks map[mark]int
}

func (c *count) add(owner uint64, n int) {
	if c.of == nil {
		c.of = map[uint64]int{}
	}
	if _, has := c.of[owner]; !has && len(c.of) >= mostOwners {
		owner = others
	}
	c.pods += n
	c.of[owner] += n
}

func (c *count) mark(m mark, n int) {
	if c.marks == nil {
		c.marks = map[mark]int{}
	}
	if _, has := c.marks[m]; !has && len(c.marks) >= mostOwners {
		m.owner = others
	}
	c.marks[m] += n
}

// take adds o.
func (c *count) take(o count) {
	for owner, n := range o.of {
		c.add(owner, n)
	}
	for m, n := range o.marks {
		c.mark(m, n)
	}
}

// block counts both groups over the same time. Index 0 is the canary, 1 the rest.
type block struct {
	groups [2]count
	size   int // it holds about blockPods << size pods of the canary
}

const (
	blockPods = 50 // pods of the canary in the smallest block
	// The oldest block is forgotten when the others have so many pods of the canary and of the rest, or farBack pods
	// of the canary.
	enoughCanary = 1000
	enoughRest   = 300
	farBack      = 20_000
	// mostSpans is no less than the number of blocks: two to three of each size, and the newest.
	mostSpans = 28
)

// history holds the latest pods of both groups in blocks, the newest last. Older blocks are larger, each covers the same
// time for both groups, and there are at most mostSpans.
type history struct {
	blocks []block
	owners [2]ownersSeen // in all blocks since the process began
}

// ownersSeen remembers whether a group has had more than one owner.
type ownersSeen struct {
	first uint64
	any   bool
	many  bool
}

func (s *ownersSeen) see(owner uint64) {
	if !s.any {
		s.first, s.any = owner, true
	}
	s.many = s.many || owner != s.first
}

// newest returns the counts of the newest block.
func (h *history) newest() *[2]count {
	if len(h.blocks) == 0 {
		h.blocks = append(h.blocks, block{})
	}
	return &h.blocks[len(h.blocks)-1].groups
}

// pod counts a pod, or an attempt.
func (h *history) pod(group int, owner uint64) {
	if h.newest()[0].pods >= blockPods {
		h.blocks = append(h.blocks, block{})
		h.merge()
		h.forget()
	}
	h.owners[group].see(owner)
	h.newest()[group].add(owner, 1)
}

// merge joins the two oldest of more than three blocks of a size, from the smallest size on. The newest block is not full
// and counts for none.
func (h *history) merge() {
	for size := 0; ; size++ {
		first, n := -1, 0
		for i, b := range h.blocks[:len(h.blocks)-1] {
			if b.size == size {
				if n++; first < 0 {
					first = i
				}
			}
		}
		if n <= 3 {
			return
		}
		into := &h.blocks[first]
		into.size++
		for g := range into.groups {
			into.groups[g].take(h.blocks[first+1].groups[g])
		}
		h.blocks = append(h.blocks[:first+1], h.blocks[first+2:]...)
	}
}

func (h *history) forget() {
	canary, rest := 0, 0
	for i := len(h.blocks) - 1; i > 0; i-- {
		canary += h.blocks[i].groups[0].pods
		rest += h.blocks[i].groups[1].pods
		if canary >= enoughCanary && rest >= enoughRest || canary >= farBack {
			h.blocks = append([]block(nil), h.blocks[i:]...)
			return
		}
	}
}

// span counts both groups over the newest blocks.
type span struct {
	pods  [2]int
	marks [2]map[mark]int
	h     *history
	from  int // index of its oldest block
}

// spans calls yield with ever longer spans, each of which ends now, until yield returns false. A span is valid until the
// next call.
func (h *history) spans(yield func(*span) bool) {
	s := &span{h: h, marks: [2]map[mark]int{{}, {}}}
	for s.from = len(h.blocks) - 1; s.from >= 0; s.from-- {
		for g, c := range h.blocks[s.from].groups {
			s.pods[g] += c.pods
			for m, n := range c.marks {
				s.marks[g][m] += n
			}
		}
		if !yield(s) {
			return
		}
	}
}

// sample is a number of pods, or attempts, and how many of them have certain marks.
type sample struct{ n, hits float64 }

// sample counts a group's pods and those with marks that are hits. Lost pods may have been bound before the span, so there
// are at least as many pods as hits.
func (s *span) sample(group int, hit func(level int) bool) sample {
	hits := 0
	for m, n := range s.marks[group] {
		if hit(m.level) {
			hits += n
		}
	}
	return sample{n: float64(max(s.pods[group], hits)), hits: float64(hits)}
}

// withoutWorst is sample without the owner that has the most hits. The only owner that a group ever had is not left out
// once the group has alone pods.
func (s *span) withoutWorst(group int, hit func(level int) bool) sample {
	by, all := map[uint64]int{}, s.sample(group, hit)
	for m, n := range s.marks[group] {
		if hit(m.level) {
			by[m.owner] += n
		}
	}
	if seen := s.h.owners[group]; !seen.many && s.h.pods(group) >= alone {
		return all
	}
	worst, has := uint64(others), 0
	for owner, n := range by {
		if owner != others && (n > has || n == has && owner < worst) {
			worst, has = owner, n
		}
	}
	if has == 0 {
		return all
	}
	pods := 0
	for _, b := range s.h.blocks[s.from:] {
		pods += b.groups[group].of[worst]
	}
	hits := all.hits - float64(has)
	return sample{n: max(all.n-float64(max(pods, has)), hits), hits: hits}
}

// pods counts all pods of a group in the history.
func (h *history) pods(group int) (n int) {
	for _, b := range h.blocks {
		n += b.groups[group].pods
	}
	return n
}
