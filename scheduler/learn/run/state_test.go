package run

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// agent has the kinds of fields that the methods' states have.
type agent struct {
	Weights map[string][]float32
	Source  []byte
	Steps   []struct{ Reward float64 }
	Full    bool
}

// FuzzDecodeState checks that a damaged state file is an error, and that what is accepted can be stored
// again.
func FuzzDecodeState(f *testing.F) {
	for _, s := range []stateFile[Score, agent]{
		{},
		{Stored: []byte("{}"), Step: 7, Elapsed: time.Minute, Best: []byte("best"), Agent: agent{Weights: map[string][]float32{"a": {1, 2}}, Source: []byte("pcg:"), Steps: []struct{ Reward float64 }{{1}, {2}}, Full: true}},
	} {
		path := filepath.Join(f.TempDir(), "state")
		if err := WriteFile(path, s); err != nil {
			f.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s, again stateFile[Score, agent]
		if decodeState(bytes.NewReader(b), &s) != nil {
			return
		}
		path := filepath.Join(t.TempDir(), "state")
		if err := WriteFile(path, s); err != nil {
			t.Fatal(err)
		}
		if err := ReadFile(path, &again); err != nil || !cmp.Equal(s, again, cmpopts.EquateEmpty(), cmpopts.EquateNaNs()) {
			t.Fatalf("not the same after a round trip: %v\n%s", err, cmp.Diff(s, again, cmpopts.EquateEmpty(), cmpopts.EquateNaNs()))
		}
	})
}
