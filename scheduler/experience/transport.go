package experience

// Sink takes the steps of a scheduler that learns while it works. Any number of goroutines may
// call Offer.
type Sink interface {
	// Offer hands a step over without waiting, and reports whether there was room for it. The
	// sink owns the step from then on: nobody may change its state.
	Offer(Step) bool
	// Close ends the sink and waits until it has handed on, or given up, what it took. Nobody
	// may call Offer after it.
	Close()
}

// Source gives a learner the steps of one or more schedulers, those of one actor and epoch in
// the order of their numbers. Not safe for concurrent use.
type Source interface {
	// Next waits for the next step, which is valid. The error is the bare io.EOF if the source
	// ended in good order; after any error there are no more steps.
	Next() (Step, error)
}

var (
	_ Sink   = (*Pipe)(nil)
	_ Source = (*Reader)(nil)
)
