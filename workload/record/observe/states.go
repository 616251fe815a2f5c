package observe

// states are the present states of nodes or of other objects. A state lasts from one change to the next.
type states[K, T comparable] struct {
	now  map[K]*T
	out  func(T)                                // adds a row to the record
	span func(*T) (from, to *int64, gone *bool) // the columns of a row that say how long its state lasted
}

// put takes the state of an object at a time.
func (s states[K, T]) put(k K, x T, at int64) {
	from, _, _ := s.span(&x)
	if old := s.now[k]; old != nil {
		began, _, _ := s.span(old)
		if *from = *began; x == *old {
			return
		}
		s.over(old, false, at)
	}
	*from = at
	s.now[k] = &x
	s.out(x)
}

// over ends a state. One that lasted for no time is left out: the next one replaces its row.
func (s states[K, T]) over(x *T, left bool, at int64) {
	from, to, gone := s.span(x)
	*to, *gone = max(at, *from), left
	if *to > *from || left {
		s.out(*x)
	}
}

// end takes an object that left, if it was there.
func (s states[K, T]) end(k K, at int64) {
	if x := s.now[k]; x != nil {
		s.over(x, true, at)
		delete(s.now, k)
	}
}

// keep ends all objects but those that are there.
func (s states[K, T]) keep(at int64, there func(K) bool) {
	for k := range s.now {
		if !there(k) {
			s.end(k, at)
		}
	}
}
