package dra

import fwk "k8s.io/kube-scheduler/framework"

// CycleKey names a value in the state of a cycle.
type CycleKey[T any] string

// data is a value in a state. Clones of the state share what it points to.
type data[T any] struct{ value T }

// Clone implements fwk.StateData.
func (d data[T]) Clone() fwk.StateData { return d }

// Write keeps a value, in place of an earlier one.
func (k CycleKey[T]) Write(state fwk.CycleState, value T) {
	state.Write(fwk.StateKey(k), data[T]{value})
}

// Find returns the value that is kept, and whether there is one.
func (k CycleKey[T]) Find(state fwk.CycleState) (value T, has bool) {
	d, err := state.Read(fwk.StateKey(k))
	if err != nil {
		return value, false
	}
	return d.(data[T]).value, true
}

// Read returns the value that is kept; the zero value if there is none.
func (k CycleKey[T]) Read(state fwk.CycleState) T {
	value, _ := k.Find(state)
	return value
}

// Delete forgets the value.
func (k CycleKey[T]) Delete(state fwk.CycleState) { state.Delete(fwk.StateKey(k)) }
