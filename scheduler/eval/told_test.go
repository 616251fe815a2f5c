package eval

import (
	"testing"

	"gnnsched/scheduler/objective"
)

// A network that serves an objective is watched as before.
func TestToldKeepsTheObserver(t *testing.T) {
	x := Contender{Observe: func(uint64) Observer { return nil }, Wish: func(objective.Mix) (Contender, error) { return Contender{}, nil }}
	if got := told([]Contender{x}, nil); got[0].Observe == nil {
		t.Error("nobody watches it")
	}
}
