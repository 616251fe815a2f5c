//go:build torch

package learn

import (
	"bufio"
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/torch"
)

// agentState is what an agent goes on from.
type agentState struct {
	Actors  actorsState
	Weights []torch.Array
	Moments []torch.Moments

	// Of deep Q-learning alone.
	Target  []torch.Array
	Updates int
	Replay  replayState
}

// State is a training run between two rounds: what a run that was killed goes on from, to end
// where an unbroken one does.
type State struct {
	Stored  []byte // Job as JSON
	Step    int
	Elapsed time.Duration
	Best    []byte // checkpoint file; empty for none yet
	Score   Score  // of the best
	Agent   agentState
}

// ErrNoState is the error of a run that is to go on, of which nothing is stored.
var ErrNoState = errors.New("there is no state of a run")

// LoadState reads a state that a Trainer saved.
func LoadState(path string) (*State, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoState, err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var s State
	if err := gob.NewDecoder(bufio.NewReaderSize(f, 1<<20)).Decode(&s); err != nil {
		return nil, fmt.Errorf("state %s: %w", path, err)
	}
	return &s, nil
}

// writeState writes a state at once: a reader sees the old file or the new one.
func writeState(path string, state any) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("save the run's state: %w", err)
	}
	defer os.Remove(f.Name()) //nolint:errcheck // gone after the rename
	w := bufio.NewWriterSize(f, 1<<20)
	err = errors.Join(gob.NewEncoder(w).Encode(state), w.Flush(), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("save the run's state %s: %w", path, err)
	}
	return nil
}

// Job is how and on what the run learns.
func (s *State) Job() (j Job, err error) { return j, json.Unmarshal(s.Stored, &j) }

// save stores where the run is, if it is to be stored.
func (t *Trainer) save() error {
	if t.State == "" {
		return nil
	}
	s := State{Step: t.step, Elapsed: t.elapsed(), Score: t.bestScore}
	var err error
	if s.Stored, err = json.Marshal(t.Job); err != nil {
		return fmt.Errorf("save the run's state: %w", err)
	}
	if t.best != nil {
		var b bytes.Buffer
		if err := t.best.Write(&b); err != nil {
			return fmt.Errorf("save the run's state: %w", err)
		}
		s.Best = b.Bytes()
	}
	if s.Agent, err = t.agent.export(); err != nil {
		return fmt.Errorf("save the run's state: %w", err)
	}
	return writeState(t.State, &s)
}

// goOn takes up the run of a state.
func (t *Trainer) goOn(s *State) error {
	job, err := json.Marshal(t.Job)
	if err != nil {
		return err
	}
	if !bytes.Equal(s.Stored, job) {
		return fmt.Errorf("the stored run has another configuration: go on with its own, or start anew")
	}
	if len(s.Best) > 0 {
		if t.best, err = checkpoint.Read(bytes.NewReader(s.Best)); err != nil {
			return fmt.Errorf("stored run: %w", err)
		}
		t.bestScore = s.Score
	}
	t.step, t.before = s.Step, s.Elapsed
	if err := t.agent.restore(s.Agent); err != nil {
		return fmt.Errorf("stored run: %w", err)
	}
	return nil
}
