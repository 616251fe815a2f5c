package shadow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// A Live has the last comparisons, the newest first, with both nodes, and the time so far in a bounded number of blocks.
func TestLive(t *testing.T) {
	b := newBench(t, "most-allocated", "a", "b", "c")
	if text, err := json.Marshal(b.live()); err != nil || !strings.Contains(string(text), `"recent":[],"course":[]`) {
		t.Errorf("at the beginning: %s, %v", text, err)
	}
	b.binds(pod("1").Obj(), "a")
	b.binds(pod("2").Obj(), "b") // 2 would have gone to a, beside 1
	l := b.live()
	if len(l.Recent) != 2 || l.Recent[0].Pod != "default/2" || l.Recent[1].Pod != "default/1" {
		t.Fatalf("%+v", l.Recent)
	}
	if c := l.Recent[0]; c.What != different || c.Theirs != "b" || c.Node != "a" || c.Gained >= 0 || !c.Time.Equal(b.clock.Now()) {
		t.Errorf("%+v: packing is worse for balance", c)
	}
	if l.Verdict.Answer != notYet || l.Batches != nil || len(l.Course) != 0 {
		t.Errorf("%+v", l)
	}
	for range keptComparisons + 5 {
		p := b.binds(pod(fmt.Sprint("p-", b.counts.Bound)).Obj(), "c")
		b.happens(event{old: p})
	}
	huge := pod("huge").Obj()
	huge.Spec.NodeSelector = map[string]string{"none": "such"}
	b.binds(huge, "a")
	for range mostCourse + 10 {
		b.clock.Step(time.Minute)
		b.work(t.Context(), nil)
	}
	l = b.live()
	if len(l.Recent) != keptComparisons || len(l.Course) > mostCourse || len(l.Course) < mostCourse/3 {
		t.Errorf("%d comparisons, %d blocks", len(l.Recent), len(l.Course))
	}
	if c := l.Recent[0]; c.What != unschedulableForUs || c.Node != "" || c.Theirs != "a" || c.Why == "" {
		t.Errorf("%+v: no node has the label", c)
	}
	l.Recent[0].Pod = "another"
	if b.live().Recent[0].Pod != "default/huge" {
		t.Error("a Live shares its comparisons with the watcher")
	}
}

// Live asks a Watcher that runs, and ends with its context where none does.
func TestLiveAsks(t *testing.T) {
	b := newBench(t, "most-allocated", "a", "b")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := b.Run(ctx)
		ended <- err
	}()
	l, err := b.Live(t.Context())
	if err != nil || l.Profile != "most-allocated" || l.Version != version {
		t.Errorf("%+v, %v", l, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := b.Live(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody answers: %v", err)
	}
}
