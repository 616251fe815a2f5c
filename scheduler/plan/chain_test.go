package plan

import (
	"slices"
	"strings"
	"testing"

	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
)

// A pod that fits nowhere moves to the node of a pod that makes room for it first. The plan does so in rounds, one after the other.
func TestChain(t *testing.T) {
	s := replay.Source{
		Nodes: []record.Node{node("a"), node("b"), node("c")},
		Pods: []record.Pod{
			pod("web-1", "a", 3), pod("web-2", "b", 1), pod("x-1", "b", 1, bare), pod("x-2", "c", 3, bare),
		},
	}
	m := find(t, s, Limits{Chains: true})
	if len(m.Freed) != 1 || len(m.Moves) != 2 || m.Moves[0].Pod != "shop/web-2" || m.Moves[0].To != "c" || m.Moves[1].To != "b" ||
		m.Rounds != 2 {
		t.Errorf("%+v", m)
	}
	if m := find(t, s, Limits{Chains: true, Pods: 1}); len(m.Moves) > 0 {
		t.Errorf("with one move: %+v", m)
	}
}

// A move is made later than it was planned: each reason why it is not possible any more is said,
// and a budget that is used up for now is none.
func TestRecheck(t *testing.T) {
	s := replay.Source{
		Nodes: []record.Node{node("a"), node("b")}, Objects: []record.Object{budgetOf("db", `"maxUnavailable":1`)},
		Pods: []record.Pod{pod("web-1", "a", 1), pod("web-2", "a", 2), pod("x-1", "b", 1, bare), pod("db-1", "a", 1)},
	}
	s.Objects[0].Status = `{"disruptionsAllowed":0,"currentHealthy":1,"desiredHealthy":1,"expectedPods":1}`
	move := func(uid, from, to string) Move { return Move{Pod: "shop/" + uid, UID: uid, From: from, To: to} }
	got, err := at(t, s).Recheck(t.Context(), Limits{}, []Move{
		move("web-2", "a", "b"), move("web-1", "a", "b"), move("db-1", "a", "b"), move("web-3", "a", "b"), move("x-1", "b", "a"),
	})
	for i, want := range []string{"", "", "does not take it any more: Insufficient cpu", "it has ended", "it has no controller"} {
		if err != nil || want == "" && got[i] != "" || !strings.Contains(got[i], want) {
			t.Errorf("move %d: %q, want %q (%v)", i, got[i], want, err)
		}
	}
	again, err := at(t, s).Recheck(t.Context(), Limits{}, []Move{move("db-1", "a", "b"), move("web-1", "b", "a")})
	if err != nil || again[0] != "" || again[1] != "it is on a now" {
		t.Errorf("%q, %v", again, err)
	}
}

// The moves that make room for a waiting pod are those of the fewest pods; there is an error if no moves do.
func TestRoom(t *testing.T) {
	waits := pod("train-0", "", 3, func(p *record.Pod) { p.Bound = 0 })
	s := replay.Source{
		Nodes: []record.Node{node("a"), node("b"), node("c")},
		Pods: []record.Pod{
			pod("web-1", "a", 1), pod("web-2", "a", 1), pod("web-3", "b", 2), pod("x-1", "c", 2, bare), waits,
		},
	}
	room := func(s replay.Source, name string, l Limits) (Moves, error) {
		return Room(t.Context(), at(t, s), name, l, func(float64) {})
	}
	m, err := room(s, "shop/train-0", Limits{})
	if err != nil || m.Room == nil || m.Room.Node != "a" || len(m.Moves) != 1 || m.Moves[0].From != "a" {
		t.Errorf("%+v, %v", m, err)
	}
	for _, c := range []struct {
		pod, want string
		change    func(*record.Pod)
		limits    Limits
	}{
		{"shop/train-1", "no pod shop/train-1 waits", func(*record.Pod) {}, Limits{}},
		{"shop/train-0", "no node can be cleared", func(p *record.Pod) { p.MilliCPU = 5000 }, Limits{}},
		{"shop/train-0", "no node can be cleared", func(*record.Pod) {}, Limits{Memory: 1}},
	} {
		other := s
		other.Pods = slices.Clone(s.Pods)
		c.change(&other.Pods[4])
		if _, err := room(other, c.pod, c.limits); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.pod, err)
		}
	}
	s.Pods[4].MilliCPU = 1000 // it fits without a move
	if m, err := room(s, "shop/train-0", Limits{}); err != nil || len(m.Moves) > 0 || m.Room.Node == "" {
		t.Errorf("%+v, %v", m, err)
	}
}
