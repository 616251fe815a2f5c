package run

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"gnnsched/internal/files"
)

// State is a training run between two rounds, from which a stopped run continues. It is the first value of a state file; those of the
// run's learner follow.
type State struct {
	Stored  []byte // the job as JSON
	Step    int
	Elapsed time.Duration
	Best    []byte     // checkpoint file; empty if there is none yet
	Result  Evaluation // of the best

	path string // of the file
}

// ErrNoState is the error of LoadState if the file does not exist.
var ErrNoState = errors.New("there is no state of a run")

// LoadState reads the run's part of a state file that a Loop saved.
func LoadState(path string) (*State, error) {
	s := &State{path: path}
	err := ReadFile(path, s)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoState, err)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// read decodes the learner's values.
func (s *State) read(into ...any) error { return ReadFile(s.path, append([]any{nil}, into...)...) }

// ReadFile decodes the values of a file that WriteFile wrote into pointers. It skips a value for nil, and fields of the file that a
// pointer's type lacks.
func ReadFile(path string, into ...any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := decode(bufio.NewReaderSize(f, 1<<20), into...); err != nil {
		return fmt.Errorf("state %s: %w", path, err)
	}
	return nil
}

func decode(r io.Reader, into ...any) error {
	d := gob.NewDecoder(r)
	for i, x := range into {
		err := d.Decode(x)
		if err == io.EOF && i > 0 { //nolint:errorlint // the bare one is the end of the file
			return errors.New("it is incomplete, or another version's: start anew without it")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// WriteFile replaces a file with encoded values. Readers see the old file or the new one, never
// a part of it.
func WriteFile(path string, values ...any) error {
	err := files.WriteBy(path, 0o600, func(w io.Writer) error {
		encoder := gob.NewEncoder(w)
		for _, v := range values {
			if err := encoder.Encode(v); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("save the run's state %s: %w", path, err)
	}
	return nil
}
