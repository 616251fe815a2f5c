package experience

// Sink takes the steps of a scheduler that learns while it works. Any number of goroutines may
// call Offer.
type Sink interface {
	// Offer hands a step over without waiting, and reports whether there was room for it. The sink then owns the step: its state must not
	// change any more.
	Offer(Step) bool
	// Close ends the sink and waits until it has handed on or dropped its steps. Offer must not be called after it.
	Close()
}

// Source gives a learner the steps of one or more schedulers. Steps of one actor and epoch come in the order of their numbers. Not safe for
// concurrent use.
type Source interface {
	// Next waits for the next step, which is valid. The error is the bare io.EOF if the source
	// ended in good order; after any error there are no more steps.
	Next() (Step, error)
}

var (
	_ Sink   = (*Pipe)(nil)
	_ Source = (*Reader)(nil)
)
