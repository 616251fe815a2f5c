package eval

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
)

// The hash follows what is played and nothing else.
func TestHash(t *testing.T) {
	hash := func(text string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "s.yaml")
		fatal.If(t, os.WriteFile(filepath.Join(filepath.Dir(file), "t.csv"), []byte(traceText), 0o600))
		s, err := Read(file, []byte(text))
		fatal.If(t, err)
		h, err := s[0].Hash()
		if err != nil || len(h) != 16 {
			t.Fatalf("%q, %v", h, err)
		}
		return h
	}
	source, err := Source("tiny")
	fatal.If(t, err)
	text := string(source)
	plain := hash(text)
	if hash(strings.Replace(text, "name: tiny", "name: other", 1)) != plain {
		t.Error("the name changes the hash")
	}
	if hash(text+"\nwaitCost: 0.5\n") == plain {
		t.Error("the cost of waiting does not change the hash")
	}
	energy, err := Find("tiny")
	fatal.If(t, err)
	if energy.Objective, err = objective.Parse("energy"); err != nil {
		t.Fatal(err)
	}
	if h, err := energy.Hash(); err != nil || h == plain {
		t.Errorf("%s, %v", h, err)
	}
	const traced = "name: x\nnodes: 3\nsizes: [{weight: 1, allocatable: {cpu: 8, memory: 32Gi, pods: 110}}]\ntrace: {file: " +
		"t.csv}\nobjective: balance\n"
	first := hash(traced) // in another folder each time
	if hash(traced) != first {
		t.Error("the folder changes the hash")
	}
	traceText += "9,9,500,1\n"
	if hash(traced) == first {
		t.Error("the trace does not change the hash")
	}
}

var traceText = "arrival,lifetime,cpu_milli,memory_mib\n1,9,500,1\n2,9,500,1\n"

func TestMerge(t *testing.T) {
	of := func(name, hash string, seed uint64, policies ...string) *Comparison {
		c := &Comparison{Scenario: Scenario{Name: name}, Seeds: []uint64{seed}, hash: hash}
		for _, p := range policies {
			c.Results = append(c.Results, Result{Name: p, Outcomes: []sim.Outcome{{Cost: float64(len(p))}}})
		}
		return c
	}
	got, err := Merge([]*Comparison{of("a", "1", 1, "x", "y"), of("a", "1", 1, "x", "zz"), of("a", "1", 2, "x"), of("b", "2", 1, "x"),
		of("a", "", 1, "old")})
	if err != nil || len(got) != 4 || len(got[0].Results) != 3 || got[0].Results[2].Name != "zz" {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := Merge([]*Comparison{of("a", "1", 1, "x"), of("a", "2", 1, "x")}); err == nil ||
		!strings.Contains(err.Error(), "two different files") {
		t.Error(err)
	}
	other := of("a", "1", 1, "x")
	other.Results[0].Outcomes[0].Cost = 7
	if _, err := Merge([]*Comparison{of("a", "1", 1, "x"), other}); err == nil || !strings.Contains(err.Error(), "different outcomes of x") {
		t.Error(err)
	}
}

// The leaderboard's results are of the scenarios of today. Who changes one of them plays docs/results/leaderboard again.
func TestLeaderboard(t *testing.T) {
	files, err := filepath.Glob("../../docs/results/leaderboard/*.json")
	fatal.If(t, err)
	played := map[string]bool{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		fatal.If(t, err)
		var old struct{ Rows []jsonComparison } // written by a command that is gone
		if json.Unmarshal(text, &old) != nil {
			fatal.If(t, json.Unmarshal(text, &old.Rows))
		}
		for _, r := range old.Rows {
			if played[r.Scenario] = true; r.Scenario == "openb" { // the user's files
				continue
			}
			s, err := Find(r.Scenario)
			fatal.If(t, err)
			if hash, err := s.Hash(); err != nil || hash != r.Hash || len(r.Seeds) == 0 || r.Seeds[0] != 30_001 && r.Seeds[0] != 40_001 {
				t.Errorf("%s: %s was played from another file (%s, not %s), %v, or with other seeds", f, r.Scenario, r.Hash, hash, err)
			}
		}
	}
	if len(played) != 7 {
		t.Errorf("the set is %v", played)
	}
}
