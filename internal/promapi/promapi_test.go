package promapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	clocktesting "k8s.io/utils/clock/testing"

	"gnnsched/internal/fatal"
)

// Transient errors are distinguished from queries that will never be answered, and answers with warnings are answers.
func TestAnswers(t *testing.T) {
	const vector = `"data":{"resultType":"vector","result":[{"metric":{"node":"a"},"value":[1,"2"]}]}`
	for _, c := range []struct {
		name    string
		status  int
		body    string
		want    string // in the error; empty for an answer
		refused bool
		warned  []string
	}{
		{name: "answer", status: 200, body: `{"status":"success",` + vector + `}`},
		{name: "warnings", status: 200, body: `{"status":"success","warnings":["a store is away","b"],"infos":["i"],` + vector + `}`,
			warned: []string{"a store is away", "b"}},
		{name: "error in a 200", status: 200, body: `{"status":"error","errorType":"timeout","error":"slow"}`, want: `Prometheus says "slow"`},
		{name: "untyped error in a 200", status: 200, body: `{"status":"error","error":"slow"}`, want: `Prometheus says "slow"`},
		{name: "bad query in a 200", status: 200, body: `{"status":"error","errorType":"bad_data","error":"parse error"}`,
			want: `Prometheus says "parse error"`, refused: true},
		{name: "too many samples", status: 422, body: `{"status":"error","errorType":"execution","error":"too many samples"}`,
			want: `Prometheus says "too many samples"`, refused: true},
		{name: "bad request", status: 400, body: `{"error":"no"}`, want: "not an answer of Prometheus"},
		{name: "timeout", status: 503, body: `{"status":"error","errorType":"timeout","error":"query timed out"}`, want: "server error: 503: "},
		{name: "timeout behind a proxy", status: 422, body: `{"status":"error","errorType":"timeout","error":"query timed out"}`,
			want: "query timed out"},
		{name: "busy", status: 429, body: `{"error":"slow down"}`, want: "slow down"},
		{name: "a page", status: 502, body: "<html>", want: `server error: 502: "<html>"`},
		{name: "another type", status: 200, body: `{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`, want: "not a vector"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		client := fatal.Value(New(Server{Address: s.URL}))(t)
		var warned []string
		client.Warn = func(w string) { warned = append(warned, w) }
		got, err := client.Query(t.Context(), "up", time.Time{})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || err == nil && len(got) != 1 {
			t.Errorf("%s: %v, %v, want %q", c.name, got, err, c.want)
		}
		if refused := (Refused{}); errors.As(err, &refused) != c.refused {
			t.Errorf("%s: refused %v, want %v", c.name, !c.refused, c.refused)
		}
		if d := cmp.Diff(c.warned, warned); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
		client.HTTP.CloseIdleConnections()
		s.Close()
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Run asks at once, then once an interval, and ends with its context.
func TestRun(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	p := &Poll{Interval: time.Minute, Timeout: time.Second, Clock: clock}
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan time.Time)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Run(ctx, func(context.Context) { asked <- clock.Now() })
	}()
	for i := range 3 {
		if at := <-asked; !at.Equal(time.Unix(1e9, 0).Add(time.Duration(i) * time.Minute)) {
			t.Errorf("question %d at %v", i, at)
		}
		clock.Step(time.Minute)
	}
	<-asked
	cancel()
	<-ended
}

// Each change is reported once. The end of a context is not a failure of ask.
func TestAsk(t *testing.T) {
	p := &Poll{Timeout: time.Second, Clock: clocktesting.NewFakeClock(time.Unix(1e9, 0))}
	broken := errors.New("broken")
	var changes []bool
	for _, err := range []error{nil, broken, broken, nil, nil, broken} {
		changed, got := p.Ask(t.Context(), func(context.Context) error { return err })
		if !errors.Is(got, err) {
			t.Errorf("error %v, want %v", got, err)
		}
		changes = append(changes, changed)
	}
	if !slices.Equal(changes, []bool{false, true, false, true, false, true}) {
		t.Errorf("changes %v", changes)
	}
	ctx, cancel := context.WithCancel(t.Context())
	changed, err := p.Ask(ctx, func(context.Context) error {
		cancel()
		return nil
	})
	if changed || !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: changed %v, error %v", changed, err)
	}
}

// After the timeout, a question is abandoned with an error that names the timeout.
func TestTimeout(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	p := &Poll{Timeout: time.Second, Clock: clock}
	_, err := p.Ask(t.Context(), func(ctx context.Context) error {
		clock.Step(time.Second)
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "no answer within the timeout") {
		t.Errorf("error %v", err)
	}
}
