//go:build torch

package online

import (
	"errors"
	"fmt"
	"io/fs"

	"gnnsched/gnn/checkpoint"
	"gnnsched/scheduler/learn/run"
)

// state is the trainer's part of a state file, from which the next trainer continues. It is the first value; the learner's follow. The
// weights are not in the file: they are the checkpoint's.
type state struct {
	Architecture checkpoint.Architecture
	Origin       float64 // of the networks that the memory is about
	Source       []byte  // of the random numbers
	Guard        standing
}

// store writes the state file, if there is to be one.
func (t *Trainer) store() error {
	if t.State == "" {
		return nil
	}
	t.stored = t.count.Steps
	s := state{Architecture: t.start.Manifest.Architecture, Origin: t.start.Origin(), Guard: t.Guard.standing}
	learner, err := t.learner.State()
	if err == nil {
		s.Source, err = t.source.MarshalBinary()
	}
	if err == nil {
		err = run.WriteFile(t.State, append([]any{s}, learner...)...)
	}
	if err != nil {
		return fmt.Errorf("save the online trainer's state: %w", err)
	}
	return nil
}

// resume continues from the state file. A file that does not exist, is damaged or is about another
// network is no error: without the memory, learning is only slower.
func (t *Trainer) resume() error {
	if t.State == "" {
		return nil
	}
	var s state
	transitions, err := 0, run.ReadFile(t.State, &s)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && (!s.Architecture.Equal(t.start.Manifest.Architecture) || s.Origin != t.start.Origin()):
		err = errors.New("it is of another network's learning")
	case err == nil:
		transitions, err = t.learner.Restore(func(into ...any) error { return run.ReadFile(t.State, append([]any{nil}, into...)...) })
	}
	if err == nil {
		err = t.source.UnmarshalBinary(s.Source)
	}
	if err != nil {
		t.note(fmt.Sprintf("the state in %s cannot be used, so the memory starts empty: %v", t.State, err))
		t.learner.Drop() // it may have taken over a part
		return t.newLearner()
	}
	t.Guard.standing = s.Guard
	line := "continues from " + t.State
	if transitions > 0 {
		line += fmt.Sprintf(", with %d transitions", transitions)
	}
	t.note(line)
	return nil
}
