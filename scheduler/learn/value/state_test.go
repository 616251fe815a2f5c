//go:build torch

package value

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gnnsched/internal/fatal"
)

// stored has the kinds of fields that an agent's state has.
type stored struct {
	Weights map[string][]float32
	Source  []byte
	Steps   []struct{ Reward float64 }
	Full    bool
}

// FuzzDecodeState checks that a damaged state file is an error, and that what is accepted can be stored
// again.
func FuzzDecodeState(f *testing.F) {
	for _, x := range []stored{
		{},
		{Weights: map[string][]float32{"a": {1, 2}}, Source: []byte("pcg:"), Steps: []struct{ Reward float64 }{{1}, {2}}, Full: true},
	} {
		path := filepath.Join(f.TempDir(), "state")
		fatal.If(f, writeFile(path, State{Stored: []byte("{}"), Step: 7, Elapsed: time.Minute, Best: []byte("best")}, x))
		b, err := os.ReadFile(path)
		fatal.If(f, err)
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s, again State
		var own, ownAgain agent
		if decode(bytes.NewReader(b), &s, &own) != nil {
			return
		}
		path := filepath.Join(t.TempDir(), "state")
		fatal.If(t, writeFile(path, s, own))
		fatal.If(t, readFile(path, &again, &ownAgain))
		for _, d := range []string{same(s, again), same(own, ownAgain)} {
			if d != "" {
				t.Errorf("not the same after a round trip: %s", d)
			}
		}
	})
}

func same(a, b any) string {
	return cmp.Diff(a, b, cmpopts.EquateEmpty(), cmpopts.EquateNaNs(), cmpopts.IgnoreUnexported(State{}))
}

// A state file without the agent's values, such as an earlier version's, says so.
func TestIncompleteState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	fatal.If(t, writeFile(path, State{Step: 7}))
	s, err := LoadState(path)
	if err != nil || s.Step != 7 {
		t.Fatal(s, err)
	}
	if err := s.read(&stored{}); err == nil || !strings.Contains(err.Error(), "another version") {
		t.Error(err)
	}
}
