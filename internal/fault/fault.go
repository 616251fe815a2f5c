// Package fault collects what is wrong with a value, so that a person learns of all faults at once.
package fault

import (
	"errors"
	"fmt"
)

// List holds faults. The zero value has none.
type List struct{ all []error }

// Add adds a fault, which is formatted as by fmt.Errorf.
func (l *List) Add(format string, a ...any) { l.all = append(l.all, fmt.Errorf(format, a...)) }

// If adds a fault if something is wrong.
func (l *List) If(wrong bool, format string, a ...any) {
	if wrong {
		l.Add(format, a...)
	}
}

// Err returns the faults as one error, a line each; nil if there are none.
func (l *List) Err() error { return errors.Join(l.all...) }

// In adds an error, if there is one, behind the name of the part that has it.
func (l *List) In(part string, err error) {
	if err != nil {
		l.Add("%s%w", part, err)
	}
}

// Each adds the errors that an error joins, each behind the name of the part that has them.
func (l *List) Each(part string, err error) {
	joined, is := err.(interface{ Unwrap() []error })
	if !is {
		l.In(part, err)
		return
	}
	for _, e := range joined.Unwrap() {
		l.Each(part, e)
	}
}
