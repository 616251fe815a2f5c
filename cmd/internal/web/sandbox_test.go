package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

const smallRun = `{"nodes":[{"count":3,"cpu":8,"memory":32,"gpus":0}],"pods":"small","load":0.3,"seed":1,"objective":{"balance":1},"policy":"greedy","other":"kube-scheduler"}`

// post returns a request to the sandbox.
func (s *testServer) post(t *testing.T, body string) *http.Request {
	t.Helper()
	r := s.request(t, http.MethodPost, "/api/sandbox")
	r.Header.Set("Content-Type", "application/json")
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	return r
}

func TestSandbox(t *testing.T) {
	s := newTestServer(t, config{}, nil)
	if resp, body := do(t, s.request(t, http.MethodGet, "/api/sandbox")); resp.StatusCode != http.StatusOK ||
		!strings.Contains(body, `"gnn"`) || !strings.Contains(body, `"own weights"`) {
		t.Errorf("the options are %s, %.300s", resp.Status, body)
	}
	resp, body := do(t, s.post(t, smallRun))
	lines := strings.Split(strings.TrimSpace(body), "\n")
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/x-ndjson" ||
		!strings.HasPrefix(lines[0], `{"start"`) || !strings.HasPrefix(lines[1], `{"step"`) || !strings.HasPrefix(lines[len(lines)-1], `{"end"`) {
		t.Errorf("%s: %.500s", resp.Status, body)
	}
	for _, c := range []struct {
		name, body string
		change     func(*http.Request)
		want       int
	}{
		{"no JSON", "{", nil, 400}, {"nothing", "", nil, 400}, {"unknown fields", `{"file":"/etc/passwd"}`, nil, 400},
		{"two values", smallRun + "{}", nil, 400},
		{"no nodes", `{}`, nil, 400}, {"a policy in a file", strings.Replace(smallRun, `"greedy"`, `"linear:/etc/passwd"`, 1), nil, 400},
		{"a large body", `{"pods":"` + strings.Repeat("a", maxRequest) + `"}`, nil, 400},
		{"a form", smallRun, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 415},
		{"another page", smallRun, func(r *http.Request) { r.Header.Set("Origin", "http://localhost:1") }, 403},
		{"no key", smallRun, func(r *http.Request) { r.Header.Del("Cookie") }, 401},
	} {
		r := s.post(t, c.body)
		if c.change != nil {
			c.change(r)
		}
		if resp, body := do(t, r); resp.StatusCode != c.want || strings.Contains(body, "<") {
			t.Errorf("%s: %s, want %d: %s", c.name, resp.Status, c.want, body)
		}
	}
}

// A second run is refused while one goes on, and the first ends when its client leaves.
func TestOneRunAtATime(t *testing.T) {
	s := newTestServer(t, config{}, nil)
	s.playing <- struct{}{} // a run goes on
	answered := make(chan string)
	go func() {
		resp, _ := http.DefaultClient.Do(s.post(t, smallRun))
		_ = resp.Body.Close()
		answered <- resp.Status
	}()
	for {
		s.clock.Step(sandboxWait)
		select {
		case status := <-answered:
			if !strings.HasPrefix(status, "429") {
				t.Errorf("a second run: %s", status)
			}
		default:
			continue
		}
		break
	}
	<-s.playing
}

// resting is a clock on which every run of the sandbox works long, and then rests for ever.
type resting struct {
	*clocktesting.FakeClock
	rests chan struct{} // gets a value when a run begins to rest
}

func (c resting) Since(time.Time) time.Duration { return time.Second }

func (c resting) After(d time.Duration) <-chan time.Time {
	if d == time.Second {
		c.rests <- struct{}{}
		return nil
	}
	return c.FakeClock.After(d)
}

// A run ends when its client leaves, while it rests too.
func TestRunEndsWithItsClient(t *testing.T) {
	c := resting{clocktesting.NewFakeClock(noon), make(chan struct{}, 1)}
	s := newTestServer(t, config{Clock: c}, nil)
	ctx, leave := context.WithCancel(t.Context())
	answered := make(chan error)
	go func() {
		_, err := http.DefaultClient.Do(s.post(t, smallRun).WithContext(ctx)) //nolint:bodyclose // there is no answer
		answered <- err
	}()
	<-c.rests
	if len(s.playing) != 1 {
		t.Error("no run goes on")
	}
	leave()
	if err := <-answered; !errors.Is(err, context.Canceled) {
		t.Errorf("the client got %v", err)
	}
	waitUntil(t, func() bool { return len(s.playing) == 0 })
}

// Errors about the body use JSON's words and field names, not the program's.
func TestErrorsInWords(t *testing.T) {
	s := newTestServer(t, config{}, nil)
	for body, want := range map[string]string{
		"": "it is no JSON object", "{": "it is no JSON object", `{"x"}`: "the body is not JSON", `[]`: "the body: want an object, got array",
		`{"file":1}`:                      `no field is called "file"`,
		`{"nodes":[{"count":1.5}]}`:       "nodes.count: want a whole number, got number 1.5",
		`{"load":"high"}`:                 "load: want a number, got string",
		`{"seed":-1}`:                     "seed: want a whole number of at least 0, got number -1",
		`{"spread":1}`:                    "spread: want true or false, got number",
		`{"objective":{"balance":"x"}}`:   "want a number, got string",
		`{"load":1.5,"pods":"smal"}`:      "load: 150 %, want more than 0 and at most 100 %",
		`{"pods":"smal"}`:                 `no kind of pods is called "smal" (did you mean small?)`,
		`{"objective":{"balanse":1}}`:     `no term is called "balanse" (did you mean balance?)`,
		`{"nodes":[{"count":3,"cpu":8}]}`: "nodes: 8 CPU, 0 GiB of memory and 0 GPUs, want 1 to 256 CPU",
	} {
		resp, got := do(t, s.post(t, body))
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(got, want) || strings.Contains(got, "Go ") ||
			strings.Contains(got, "sandbox.") {
			t.Errorf("%s: %s, %s, want %q", body, resp.Status, got, want)
		}
	}
	r := s.post(t, smallRun)
	r.URL.Path += "/scenario"
	if resp, body := do(t, r); resp.StatusCode != http.StatusOK || !strings.HasPrefix(body, "# gnnsched eval --scenario sandbox.yaml") {
		t.Errorf("%s: %.300s", resp.Status, body)
	}
}
