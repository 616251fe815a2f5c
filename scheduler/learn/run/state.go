package run

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// State is a training run between two rounds, from which a stopped run continues. A state file
// holds it together with the state of the run's learner. S is the result of an evaluation.
type State[S any] struct {
	Stored  []byte // the job as JSON
	Step    int
	Elapsed time.Duration
	Best    []byte // checkpoint file; empty if there is none yet
	Score   S      // of the best

	path string // of the file
}

// stateFile is the content of a state file. A is the learner's part, which differs by method. The
// field names are the file's.
type stateFile[S, A any] struct {
	Stored  []byte
	Step    int
	Elapsed time.Duration
	Best    []byte
	Score   S
	Agent   A
}

// ErrNoState is the error of LoadState if the file does not exist.
var ErrNoState = errors.New("there is no state of a run")

// LoadState reads the run's part of a state file that a Loop saved.
func LoadState[S any](path string) (*State[S], error) {
	s := &State[S]{path: path}
	err := ReadFile(path, s)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoState, err)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// LearnerState reads the learner's part of the file of a state.
func LearnerState[A, S any](s *State[S]) (A, error) {
	var f struct{ Agent A }
	err := ReadFile(s.path, &f)
	return f.Agent, err
}

// SaveState writes a state file with both parts.
func SaveState[S, A any](path string, s State[S], learner A) error {
	return WriteFile(path, stateFile[S, A]{Stored: s.Stored, Step: s.Step, Elapsed: s.Elapsed, Best: s.Best, Score: s.Score, Agent: learner})
}

// ReadFile decodes a file that WriteFile wrote. Fields of the file that into lacks are skipped.
func ReadFile(path string, into any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := decodeState(bufio.NewReaderSize(f, 1<<20), into); err != nil {
		return fmt.Errorf("state %s: %w", path, err)
	}
	return nil
}

func decodeState(r io.Reader, into any) error { return gob.NewDecoder(r).Decode(into) }

// WriteFile replaces a file with the encoded state. Readers see the old file or the new one, never
// a part of it.
func WriteFile(path string, state any) error {
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
