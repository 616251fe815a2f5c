package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/decision/record"
)

// A file of decisions becomes a table: the score of the chosen node and the runner-up's, how long
// a pod waited since it was first refused, and what the default profile would have done. Names stay text.
func TestDecisionFile(t *testing.T) {
	start := time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)
	pod := decision.Pod{Namespace: "shop", Name: "web-0<script>", UID: "u1"}
	decisions := []decision.Decision{
		{Profile: "gnn", Pod: pod, At: start, Failure: "0/3 nodes are available: 3 Insufficient cpu.", Nodes: 3},
		{
			Number: 1, Profile: "gnn", Pod: pod, At: start.Add(90 * time.Second), Policy: "gnn", Nodes: 3, Feasible: 2, Preferred: 2, Node: "b",
			Bound:   true,
			Best:    []decision.Candidate{{Node: "b", Score: 0.75}, {Node: "a", Score: 0.25}},
			Default: &decision.Default{Candidate: decision.Candidate{Node: "a", Score: 0.25}, Ties: 1, Preferred: true},
		},
	}
	path := filepath.Join(t.TempDir(), "d.jsonl")
	j, err := record.OpenJournal(path, func(err error, _ uint64) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	book := record.NewBook(10, j)
	for _, d := range decisions {
		book.Decided(d)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := read(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(rendered(t, []*runfolder.Run{r}))
	for _, want := range []string{"2 of 2 choices", "Insufficient cpu", "<td>b</td>", "0.75", "<td>a</td>", "0.25", ">90<",
		"the default profile would have chosen a", "web-0&lt;script&gt;"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	other := filepath.Join(t.TempDir(), "pods.csv")
	if err := os.WriteFile(other, []byte("name,cpu\nx,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := read(other); err == nil || !strings.Contains(err.Error(), other+":") {
		t.Errorf("a file of something else: %v", err)
	}
}
