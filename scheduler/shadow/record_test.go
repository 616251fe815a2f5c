package shadow

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/plugin"
)

// The book has the decision about each compared pod: the profile's node, the real node, and the features that the policy read of both. The
// choices of the cluster in memory are not in it.
func TestRecords(t *testing.T) {
	book := decision.NewBook(10, nil)
	b := recordingBench(t, plugin.Recording{Book: book, DefaultShare: 1}, "linear", "a", "b", "c", "d", "e", "f", "g")
	b.binds(pod("first").Obj(), "a")
	b.binds(pod("apart").Obj(), "a")
	b.binds(pod("pinned").NodeSelector(map[string]string{v1.LabelHostname: "c"}).Obj(), "c")
	b.binds(pod("nowhere").NodeSelector(map[string]string{v1.LabelHostname: "none"}).Obj(), "b")
	list := book.Last(decision.Query{})
	if len(list) != 4 {
		t.Fatalf("%d records: %+v", len(list), list)
	}
	slices.Reverse(list)
	for i, r := range list {
		want := []string{"a", "a", "c", "b"}[i]
		if r.Outcome != decision.Shadow || r.Really != want || r.Profile != "linear" || r.Nodes != 7 || r.UID != r.Pod ||
			!r.Time.Equal(b.clock.Now()) {
			t.Errorf("%+v, want it really on %s", r, want)
		}
	}
	// A linear policy spreads: the pod would go elsewhere, and a, the last by its score, has the last place with what was read.
	apart := list[1]
	at := slices.IndexFunc(apart.Best, func(c decision.Candidate) bool { return c.Node == "a" })
	if apart.Node == "a" || apart.Number != 2 || apart.Feasible != 7 || apart.Policy != "linear" || at != len(apart.Best)-1 ||
		apart.Best[at].Read == nil || apart.Default == nil {
		t.Errorf("%+v", apart)
	}
	if pinned := list[2]; pinned.Node != "c" || pinned.Feasible != 1 || len(pinned.Best) > 0 || pinned.Number != 3 {
		t.Errorf("%+v", pinned)
	}
	nowhere := list[3]
	if nowhere.Node != "" || nowhere.Number != 0 || nowhere.Failure != "0/7 nodes are available" || len(nowhere.Refused) != 1 ||
		nowhere.Refused[0].Nodes != 7 || nowhere.Refused[0].Reason == "" {
		t.Errorf("%+v", nowhere)
	}
}

// A network has its own name in records, not the watched scheduler's.
func TestRecordsNameNetworks(t *testing.T) {
	b := newBench(t, "linear", "a")
	if got := b.policy("default-scheduler", 7); got != "linear" {
		t.Errorf("a network is called %s", got)
	}
	if got := b.policy("best-fit", 0); got != "best-fit" {
		t.Errorf("a heuristic is called %s", got)
	}
}
