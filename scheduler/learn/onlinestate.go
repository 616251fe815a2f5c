//go:build torch

package learn

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/torch"
)

// onlineState is what a trainer on a stream leaves for the one after it. The weights are not in it:
// they are the checkpoint's.
type onlineState struct {
	Architecture checkpoint.Architecture
	Origin       float64 // of the networks that it is about
	Source       []byte  // of the random numbers
	Guard        standing
	Memory       onlineMemory
}

// onlineMemory is what a learner keeps from trainer to trainer.
type onlineMemory struct {
	Moments []torch.Moments

	// Of deep Q-learning alone.
	Target         []torch.Array
	Steps, Updates int
	Replay         replayState
}

// storedBytes is how much of the replay memory is stored at most, the latest first: a large
// cluster's would take longer to write than a scheduler that stops waits.
const storedBytes = 256 << 20

// originFigure, among a checkpoint's training figures, names the network that online learning began
// with: memory of one network's steps is of no use to another.
const originFigure = "onlineOrigin"

// origin is the name of the network that all online learning up to c began with: 53 bits of its
// fingerprint, which a JSON number holds.
func origin(c *checkpoint.Checkpoint) float64 {
	if o, ok := c.Manifest.Training[originFigure]; ok {
		return o
	}
	return float64(c.Fingerprint() >> 11)
}

// store writes the state at once.
func (o *Online) store() error {
	if o.State == "" {
		return nil
	}
	o.stored = o.count.Steps
	s := onlineState{Architecture: o.start.Manifest.Architecture, Origin: origin(o.start), Guard: o.Guard.standing}
	var err error
	if s.Memory, err = o.learner.export(); err == nil {
		s.Source, err = o.source.MarshalBinary()
	}
	if err != nil {
		return fmt.Errorf("save the online trainer's state: %w", err)
	}
	return writeState(o.State, s)
}

// resume goes on from the stored state. One that is not there, is damaged or is about another network is no
// error: what it holds speeds learning up, and nothing more.
func (o *Online) resume() error {
	if o.State == "" {
		return nil
	}
	s, err := readOnlineState(o.State)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && (s.Architecture != o.start.Manifest.Architecture || s.Origin != origin(o.start)):
		err = errors.New("it is of another network's learning")
	case err == nil:
		err = o.learner.restore(s.Memory)
	}
	if err == nil {
		err = o.source.UnmarshalBinary(s.Source)
	}
	if err != nil {
		o.note(fmt.Sprintf("the state in %s is of no use, memory begins anew: %v", o.State, err))
		o.learner.drop() // it may have taken half of it over
		return o.learnAnew()
	}
	o.Guard.standing = s.Guard
	line := "goes on from " + o.State
	if n := len(s.Memory.Replay.Transitions); n > 0 {
		line += fmt.Sprintf(", with %d transitions", n)
	}
	o.note(line)
	return nil
}

func readOnlineState(path string) (s onlineState, err error) {
	f, err := os.Open(path)
	if err != nil {
		return s, err
	}
	defer f.Close()
	return s, gob.NewDecoder(bufio.NewReaderSize(f, 1<<20)).Decode(&s)
}
