package decision_test

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"gnnsched/scheduler/decision"
)

// Best agrees with sorting every candidate.
func TestBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scores := rapid.SliceOfN(rapid.Float32Range(-3, 3).Filter(func(v float32) bool { return v == v }), 0, 30).Draw(t, "scores")
		if rapid.Bool().Draw(t, "ties") {
			for i := range scores {
				scores[i] = float32(int(scores[i]))
			}
		}
		name := func(i int) string { return fmt.Sprint("n", (i*7)%30) }
		var want []decision.Candidate
		for i, s := range scores {
			want = append(want, decision.Candidate{Node: name(i), Score: s})
		}
		slices.SortFunc(want, func(a, b decision.Candidate) int {
			return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Node, b.Node))
		})
		want = want[:min(len(want), decision.MaxBest)]
		got := []decision.Candidate{}
		for _, i := range decision.Best(scores, name) {
			got = append(got, decision.Candidate{Node: name(i), Score: scores[i]})
		}
		if !reflect.DeepEqual(got, append([]decision.Candidate{}, want...)) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

// blocked is a listener that hears nothing until it is let go.
type blocked struct {
	begun, release chan struct{}
	heard          []uint64
}

func (b *blocked) Decided(d decision.Decision) {
	b.begun <- struct{}{}
	<-b.release
	b.heard = append(b.heard, d.Number)
}

// A slow listener does not hold up Offer: decisions without room are dropped and counted, and the rest arrives in order.
func TestQueueNeverWaits(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	const size = 3
	l := &blocked{begun: make(chan struct{}, 100), release: make(chan struct{})}
	dropped := 0
	q := decision.NewQueue(l, size, func(decision.Decision) { dropped++ })
	q.Offer(decision.Decision{Number: 1})
	<-l.begun // the listener is busy with the first, so the queue is empty
	for n := uint64(2); n <= 10; n++ {
		q.Offer(decision.Decision{Number: n})
	}
	if dropped != 9-size {
		t.Errorf("%d were dropped, want %d", dropped, 9-size)
	}
	close(l.release)
	q.Close()
	if want := []uint64{1, 2, 3, 4}; !slices.Equal(l.heard, want) {
		t.Errorf("heard %v, want %v", l.heard, want)
	}
}

// After Close nothing is delivered, and a second Close returns.
func TestQueueAfterClose(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var heard []uint64
	dropped := 0
	q := decision.NewQueue(listenerFunc(func(d decision.Decision) { heard = append(heard, d.Number) }), 3,
		func(decision.Decision) { dropped++ })
	q.Offer(decision.Decision{Number: 1})
	q.Close()
	q.Offer(decision.Decision{Number: 2})
	q.Close()
	if len(heard) != 1 || dropped != 1 {
		t.Errorf("heard %v, %d dropped", heard, dropped)
	}
}

type listenerFunc func(decision.Decision)

func (f listenerFunc) Decided(d decision.Decision) { f(d) }

// A listener gets each decision as a value that it may keep.
func ExampleQueue() {
	print := listenerFunc(func(d decision.Decision) {
		up := d.Best[1]
		fmt.Printf("%s/%s on %s, then %s with %v\n", d.Pod.Namespace, d.Pod.Name, d.Node, up.Node, up.Score)
	})
	q := decision.NewQueue(print, 8, func(decision.Decision) {})
	q.Offer(decision.Decision{
		Pod: decision.Pod{Namespace: "default", Name: "web"}, Node: "b",
		Best: []decision.Candidate{{Node: "b", Score: 0.5}, {Node: "a", Score: 0.25}},
	})
	q.Close()
	// Output: default/web on b, then a with 0.25
}
