package shadow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/component-base/metrics/testutil"

	"gnnsched/internal/fatal"
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
	if _, err := b.Live(t.Context()); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("nobody answers: %v", err)
	}
}

// A Watcher asks at the beginning and every hour what moves would bring. A search that fails leaves the answer of the one before.
func TestMoves(t *testing.T) {
	b := newBench(t, "most-allocated", "a", "b")
	type answer struct {
		Moves
		error
	}
	answers := make(chan answer)
	b.config.Moves = func(ctx context.Context) (Moves, error) {
		select {
		case a := <-answers:
			return a.Moves, a.error
		case <-ctx.Done():
			return Moves{}, ctx.Err()
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan Report)
	go func() {
		r, err := b.Run(ctx)
		if err != nil {
			t.Error(err)
		}
		ended <- r
	}()
	last := Moves{Pods: 1, Before: 0.5, After: 0.2}
	answers <- answer{Moves: Moves{Pods: 2, Before: 0.5, After: 0.3}}
	for _, a := range []answer{{error: errors.New("refused")}, {Moves: last}} {
		for l, err := b.Live(t.Context()); l.Moves == nil; l, err = b.Live(t.Context()) {
			fatal.If(t, err)
		}
		b.clock.Step(59 * time.Minute)
		select {
		case answers <- a:
			t.Error("a search before an hour has passed")
		default:
		}
		b.clock.Step(time.Minute)
		answers <- a
	}
	for l, err := b.Live(t.Context()); *l.Moves != last; l, err = b.Live(t.Context()) {
		fatal.If(t, err)
	}
	cancel()
	r := <-ended
	r.observe()
	gain, err := testutil.GetGaugeMetricValue(movesGauge.WithLabelValues())
	if err != nil || math.Abs(gain-0.3) > 1e-9 || *r.Moves != last {
		t.Errorf("%v, %v of %+v", gain, err, r.Moves)
	}
}

// A running watcher serves its findings, with the words for each result; a watcher that has not read the cluster says so.
func TestServe(t *testing.T) {
	b := newBench(t, "most-allocated", "a", "b")
	ask := func(method string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		b.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, Path, nil))
		return w
	}
	if w := ask(http.MethodGet); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "not been read yet") {
		t.Errorf("before it has read the cluster: %d, %s", w.Code, w.Body)
	}
	b.binds(pod("1").Obj(), "a")
	b.binds(pod("2").Obj(), "b")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := b.Run(ctx)
		ended <- err
	}()
	if _, err := b.Live(t.Context()); err != nil { // it runs
		t.Fatal(err)
	}
	if w := ask(http.MethodPost); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	w := ask(http.MethodGet)
	l, err := ParseLive(w.Body.Bytes())
	if err != nil || w.Code != http.StatusOK || len(l.Recent) != 2 || len(l.Results) != len(outcomes) {
		t.Fatalf("%d, %+v, %v", w.Code, l, err)
	}
	if x := l.Results[2]; x.What != different || x.Text != "another node" || x.Fails || x.Pods != 1 {
		t.Errorf("%+v", x)
	}
	if got := l.Results[0].Share + l.Results[1].Share; l.Agreement != got || l.Counts.Compared != 2 {
		t.Errorf("the agreement is %v of %+v", l.Agreement, l.Results)
	}
	for _, x := range l.Results {
		if x.Text == "" || x.Fails != (x.What == unschedulableForUs || x.What == infeasible) {
			t.Errorf("%+v", x)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, text := range []string{``, `[]`, `{"version":"other"}`, `{"version":"` + version + `","recent":3}`} {
		if l, err := ParseLive([]byte(text)); err == nil {
			t.Errorf("%s is %+v", text, l)
		}
	}
}
