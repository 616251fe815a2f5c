package exit

import (
	"errors"
	"fmt"
)

// Faults collects what is wrong with a value, so that a person learns of all faults at once. The zero value has none.
type Faults struct{ all []error }

// Add adds a fault, which is formatted as by fmt.Errorf.
func (l *Faults) Add(format string, a ...any) { l.all = append(l.all, fmt.Errorf(format, a...)) }

// If adds a fault if something is wrong.
func (l *Faults) If(wrong bool, format string, a ...any) {
	if wrong {
		l.Add(format, a...)
	}
}

// Err returns the faults as one error, a line each; nil if there are none.
func (l *Faults) Err() error { return errors.Join(l.all...) }

// In adds an error, if there is one, behind the name of the part that has it.
func (l *Faults) In(part string, err error) {
	if err != nil {
		l.Add("%s%w", part, err)
	}
}

// Each adds the errors that an error joins, each behind the name of the part that has them.
func (l *Faults) Each(part string, err error) {
	joined, is := err.(interface{ Unwrap() []error })
	if !is {
		l.In(part, err)
		return
	}
	for _, e := range joined.Unwrap() {
		l.Each(part, e)
	}
}
