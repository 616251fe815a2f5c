package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	clocktesting "k8s.io/utils/clock/testing"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/policy"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// hostile is text that a pod's owner may write unchecked.
const hostile = `<script>window.pwned=true</script><img src=x onerror="window.pwned=true">`

// frozen is a source that never changes.
type frozen struct {
	frame   state.Frame
	waiting int // more pending pods, each with a reason of its own
	placed  []state.Placed
}

func (f frozen) Frame(most int) state.Frame {
	out := f.frame
	out.Pending = out.Pending[:min(len(out.Pending), most)]
	return out
}

func (f frozen) Stop() {}

func (f frozen) Details(ask state.Ask) state.Details {
	var d state.Details
	if ask.Node != "" {
		d.Node, d.Pods = ask.Node, []state.ListedPod{{
			Namespace: "shop", Name: hostile, Workload: "Deployment/web", Scheduler: "gnn", CPU: 500, Memory: 1 << 30, GPU: 500, Devices: 0b10,
			Created: noon,
		}}
		d.Cards = []state.Card{
			{Milli: 1000, Unnamed: 1000}, {Milli: 500, Parts: []state.Part{{Pod: "shop/" + hostile, Milli: 500}}}, {},
			{Name: "gpu-3", Partitions: true, Milli: 750, Parts: []state.Part{{Pod: "ml/tune", Claim: "ml/tune-gpu", Device: "gpu-3-mig-3g20gb-4",
				Milli: 500}, {Claim: "ml/left", Device: "gpu-3-mig-1g10gb-0", Milli: 250}}},
		}
	}
	if ask.Placed {
		d.Placed = f.placed
	}
	if ask.Pending {
		d.Pending = []state.PendingPod{
			{Namespace: "shop", Name: hostile, Workload: "Deployment/" + hostile, Scheduler: "gnn", Created: noon, Reason: "Unschedulable",
				Message: "0/3 nodes are available: 1 node(s) had untolerated taint {" + hostile +
					"}, 2 Insufficient cpu. preemption: 0/3 nodes are available: 3 No preemption victims found."},
			{Namespace: "shop", Name: "web-1", Workload: "Deployment/web", Scheduler: "gnn", Created: noon.Add(time.Minute),
				Reason: "Unschedulable", Message: "0/3 nodes are available: 3 Insufficient cpu."},
			{Namespace: "shop", Name: "new", Scheduler: hostile, Created: noon.Add(time.Hour)},
		}
		for i := range f.waiting {
			d.Pending = append(d.Pending, state.PendingPod{
				Namespace: "many", Name: fmt.Sprint("p-", i), Scheduler: "gnn", Created: noon.Add(time.Hour), Reason: fmt.Sprint("Reason", i),
			})
		}
	}
	if ask.Events {
		d.Events = []state.Event{{
			Time: noon, Type: "Warning", Reason: "FailedScheduling", Object: "Pod shop/web-0", From: "gnn", Message: hostile, Count: 2,
		}}
		d.EventsErr = errors.New("list the events: forbidden")
	}
	return d
}

// frameOf returns a cluster of n nodes in three zones.
func frameOf(n int) state.Frame {
	f := state.Frame{Time: noon, PendingCount: 1, CPUSpread: state.Spread{Std: 0.123456},
		Schedulers: []state.Scheduler{{Name: "gnn", Bound: 7, Pending: 1, Rate: 3.14159}},
		Pending: []state.PendingPod{{
			Namespace: "shop", Name: "waiting", Scheduler: "gnn", Created: noon, Reason: "Unschedulable", Message: hostile,
		}},
	}
	for i := range n {
		f.Nodes = append(f.Nodes, state.Node{
			Name: fmt.Sprint("node-", i), Zone: "zone-" + string(rune('a'+i%3)), Status: "Ready", Ready: true, Worker: true,
			CPU:    state.Usage{Requested: int64(i%65) * 1000, Allocatable: 64_000},
			Memory: state.Usage{Requested: int64(i%257) << 30, Allocatable: 256 << 30},
			Pods:   state.Usage{Requested: int64(i % 111), Allocatable: 110},
		})
	}
	f.Totals = state.Totals{Nodes: n, Ready: n, CPU: state.Usage{Requested: 1000, Allocatable: int64(n) * 64_000}}
	return f
}

// decided is the decision about pod number i.
func decided(i int, name string) decision.Decision {
	read := &policy.Reading{Kind: policy.LinearReading, Features: []float32{0.25}, Weights: []float32{2}}
	return decision.Decision{
		Number: uint64(i), Profile: "gnn", Pod: decision.Pod{Namespace: "shop", Name: name, UID: fmt.Sprint("uid-", i)},
		At: noon.Add(time.Duration(i) * time.Second), Policy: "linear", Latency: 12 * time.Microsecond, Nodes: 3, Feasible: 2, Preferred: 2,
		Best:    []decision.Candidate{{Node: "node-1", Score: 0.5, Read: read}, {Node: "node-2", Score: 0.25}},
		Default: &decision.Default{Candidate: decision.Candidate{Node: "node-2", Score: 0.25}, Ties: 1, Preferred: true},
		Node:    "node-1", Bound: true,
	}
}

// testServer is a server of a source with a clock that the test moves, unless its configuration has one.
type testServer struct {
	*server
	http  *httptest.Server
	clock *clocktesting.FakeClock
	book  *decision.Book
}

func newTestServer(t *testing.T, c config, src source) *testServer {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	out := &testServer{clock: clocktesting.NewFakeClock(noon), book: decision.NewBook(1000, nil)}
	d := doorWith("sesame")
	c.Title, c.Book, c.door = "test", out.book, &d
	if c.Clock == nil {
		c.Clock = out.clock
	}
	out.server = newServer(c)
	if src != nil {
		out.source.Store(&src)
	}
	ctx, cancel := context.WithCancel(context.Background())
	out.tasks.Go(func() { out.publish(ctx) })
	out.http = httptest.NewServer(out.handler())
	t.Cleanup(func() {
		out.http.CloseClientConnections()
		out.http.Close()
		cancel()
		out.tasks.Wait()
		http.DefaultClient.CloseIdleConnections()
	})
	return out
}

// request returns a request with the key.
func (s *testServer) request(t *testing.T, method, path string) *http.Request {
	t.Helper()
	r := fatal.Value(http.NewRequestWithContext(t.Context(), method, s.http.URL+path, nil))(t)
	r.AddCookie(&http.Cookie{Name: s.door.cookie, Value: s.door.key})
	return r
}

// do returns the answer's status and body.
func do(t *testing.T, r *http.Request) (*http.Response, string) {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	resp := fatal.Value(client.Do(r))(t)
	defer resp.Body.Close()
	body := fatal.Value(io.ReadAll(resp.Body))(t)
	return resp, string(body)
}

// events is an open stream.
type openStream struct {
	t    *testing.T
	body io.ReadCloser
	text *bufio.Reader
	read map[string][]string // by topic: events that came while another was waited for
}

func (s *testServer) open(t *testing.T) *openStream {
	t.Helper()
	resp := fatal.Value(http.DefaultClient.Do(s.request(t, http.MethodGet, "/api/stream")))(t)
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s, %s", resp.Status, resp.Header.Get("Content-Type"))
	}
	return newStream(t, resp.Body)
}

func newStream(t *testing.T, body io.ReadCloser) *openStream {
	return &openStream{t, body, bufio.NewReader(body), map[string][]string{}}
}

// next returns the data of the next event of a topic.
func (e *openStream) next(topic string) string {
	e.t.Helper()
	for name := ""; len(e.read[topic]) == 0; {
		line, err := e.text.ReadString('\n')
		if err != nil {
			e.t.Fatalf("no event %s: %v", topic, err)
		}
		if n, is := strings.CutPrefix(line, "event: "); is {
			name = strings.TrimSpace(n)
		}
		if data, is := strings.CutPrefix(line, "data: "); is {
			e.read[name] = append(e.read[name], data)
		}
	}
	first := e.read[topic][0]
	e.read[topic] = e.read[topic][1:]
	return first
}

func indented(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(text), "", "  "); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return b.String()
}

// A client gets the cluster and the last decisions at once, and each further decision as it is made. No name can be
// markup in it.
func TestStream(t *testing.T) {
	frame := frameOf(2)
	frame.Nodes[1].Used = &state.Measured{CPU: 5000, Memory: 1 << 30}
	frame.Lost = &state.Lost{Since: noon, Reason: "connection refused"}
	s := newTestServer(t, config{}, frozen{frame: frame})
	s.book.Decided(decided(1, hostile))
	s.book.Decided(decision.Decision{
		Profile: "gnn", Pod: decision.Pod{Namespace: "shop", Name: "big", UID: "uid-0"}, At: noon, Nodes: 3, Failure: "0/3 nodes are available",
	})
	stream := s.open(t)
	first, cluster := stream.next(eventDecisions), stream.next(topicCluster)
	if strings.Contains(first+cluster, "<script") {
		t.Error("a name is markup")
	}
	fatal.Golden(t, "stream.json", indented(t, first)+"\n"+indented(t, cluster)+"\n")
	s.book.Decided(decided(2, "web-2"))
	s.clock.Step(tick)
	var got decisions
	fatal.If(t, json.Unmarshal([]byte(stream.next(eventDecisions)), &got))
	if len(got.Records) != 1 || got.Total != 3 || !strings.Contains(string(got.Records[0]), `"pod":"web-2"`) ||
		strings.Contains(string(got.Records[0]), "features") {
		t.Errorf("%+v", got)
	}
}

// Of many decisions a client gets the newest, and the number of the others.
func TestStreamBounds(t *testing.T) {
	s := newTestServer(t, config{}, nil)
	for i := range 700 {
		s.book.Decided(decided(i, fmt.Sprint("web-", i)))
	}
	var got decisions
	fatal.If(t, json.Unmarshal([]byte(s.open(t).next(eventDecisions)), &got))
	if len(got.Records) != decision.AnswerSize || !strings.Contains(string(got.Records[0]), `"web-699"`) {
		t.Errorf("%d records, first %.80s", len(got.Records), got.Records[0])
	}
}

// Five thousand nodes are one message of a bounded size.
func TestManyNodes(t *testing.T) {
	s := newTestServer(t, config{}, frozen{frame: frameOf(5000)})
	text := s.open(t).next(topicCluster)
	if n := len(text); n > 1_200_000 {
		t.Errorf("%d bytes", n)
	}
	if n := strings.Count(text, `"name":"node-`); n != 5000 {
		t.Errorf("%d nodes", n)
	}
}

// The number of clients is limited; a client that leaves makes room.
func TestTooManyClients(t *testing.T) {
	s := newTestServer(t, config{}, frozen{frame: frameOf(1)})
	var open []*openStream
	for range maxClients {
		e := s.open(t)
		e.next(topicCluster)
		open = append(open, e)
	}
	if resp, _ := do(t, s.request(t, http.MethodGet, "/api/stream")); resp.StatusCode != http.StatusServiceUnavailable ||
		resp.Header.Get("Retry-After") == "" {
		t.Errorf("one more: %s", resp.Status)
	}
	_ = open[0].body.Close()
	fatal.UntilTrue(t, "it to be so", func() bool { s.feed.mu.Lock(); defer s.feed.mu.Unlock(); return s.feed.clients == maxClients-1 })
	s.open(t).next(topicCluster)
	if resp, _ := do(t, s.request(t, http.MethodHead, "/api/stream")); resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("HEAD: %s", resp.Status)
	}
}

// broken is a source with a bug.
type broken struct{ frozen }

func (broken) Frame(int) state.Frame { panic("a bug") }

// A panic while the page's data are read, or a number that JSON lacks, ends neither the stream nor the scheduler.
func TestFaults(t *testing.T) {
	s := newTestServer(t, config{}, broken{})
	stream := s.open(t)
	s.book.Decided(decided(1, "web-1"))
	s.clock.Step(tick)
	stream.next(eventDecisions)
	endless := decided(2, "web-2")
	endless.Best[0].Score = float32(math.Inf(1))
	s.book.Decided(endless)
	s.book.Decided(decided(3, "web-3"))
	s.clock.Step(tick)
	var got decisions
	if err := json.Unmarshal([]byte(stream.next(eventDecisions)), &got); err != nil || !strings.Contains(string(got.Records[0]), "web-3") {
		t.Errorf("%v, %+v", err, got)
	}
	frame := frameOf(1)
	frame.CPUSpread.Std = math.NaN()
	s.tell(topicCluster, s.clusterOf(&frame))
}

func TestDetails(t *testing.T) {
	s := newTestServer(t, config{}, frozen{frame: frameOf(1)})
	s.book.Decided(decided(1, "web-1"))
	other := decided(2, "web-2")
	other.Node = "node-2"
	s.book.Decided(other)
	var all strings.Builder
	for _, path := range []string{"/api/node?name=node-1", "/api/pending", "/api/pending?filter=web", "/api/events",
		"/api/decision?uid=uid-1&time=2026-11-23T12:00:01Z"} {
		resp, body := do(t, s.request(t, http.MethodGet, path))
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" || strings.Contains(body, "<script") {
			t.Errorf("%s: %s, %s", path, resp.Status, body)
		}
		fmt.Fprintf(&all, "%s\n%s\n", path, indented(t, body))
	}
	fatal.Golden(t, "details.json", all.String())
	for path, want := range map[string]int{
		"/api/pending?filter=" + strings.Repeat("a", maxFilter):   200,
		"/api/pending?filter=" + strings.Repeat("a", maxFilter+1): 400, "/api/node": 400, "/api/node?name=" + strings.Repeat("a", 300): 400,
		"/api/decision?uid=none&time=x": 404, "/api/decision": 400, "/api/nothing": 404, "/doc.go": 404, "/assets/": 404,
	} {
		if resp, _ := do(t, s.request(t, http.MethodGet, path)); resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", path, resp.Status, want)
		}
	}
}

// Of many pending pods the page gets some, and the number of all; the filter searches all.
func TestManyPending(t *testing.T) {
	s := newTestServer(t, config{}, frozen{frame: frameOf(1), waiting: 3000})
	for path, want := range map[string][5]int{
		"/api/pending": {mostPending, 3003, mostCauses, 3003, 3003}, "/api/pending?filter=p-2999": {1, 1, 1, 1, 3003},
		"/api/pending?filter=nothing": {0, 0, 0, 0, 3003},
	} {
		_, body := do(t, s.request(t, http.MethodGet, path))
		var got struct {
			Pods   list[pending]
			Causes list[state.Cause]
			All    int
		}
		fatal.If(t, json.Unmarshal([]byte(body), &got))
		if have := [5]int{len(got.Pods.Rows), got.Pods.Total, len(got.Causes.Rows), got.Causes.Total, got.All}; have != want {
			t.Errorf("%s: %v, want %v", path, have, want)
		}
	}
}

// stock holds the pods that a scheduler of another process has bound.
func stock(name string) state.Placed {
	p := state.Placed{Scheduler: name, Bound: 400, Nodes: 7, Most: 90}
	for i := range 200 {
		d := state.Decision{Counted: true, Record: decision.Record{
			Profile: name, Namespace: "shop", Pod: fmt.Sprint(hostile, i), Node: "node-1", Outcome: decision.Bound,
		}}
		if i < 3 {
			d.Time = noon
		}
		p.Last = append(p.Last, d)
	}
	return p
}

// The list of placed pods is bounded, and no name is markup.
func TestPlacements(t *testing.T) {
	many := make([]state.Placed, 30)
	for i := range many {
		many[i] = stock(fmt.Sprint(hostile, i))
	}
	s := newTestServer(t, config{}, frozen{frame: frameOf(1), placed: many})
	_, body := do(t, s.request(t, http.MethodGet, "/api/placed"))
	var got list[placed]
	if err := json.Unmarshal([]byte(body), &got); err != nil || strings.Contains(body, "<script") {
		t.Fatalf("%v: %.300s", err, body)
	}
	if got.Total != 30 || len(got.Rows) != mostPlaced || len(got.Rows[0].Last) != lastPlaced || got.Rows[0].Bound != 400 {
		t.Errorf("%d of %d, %d pods", len(got.Rows), got.Total, len(got.Rows[0].Last))
	}
}

// slow is a source that answers once it is let.
type slow struct {
	frozen
	asked, answer chan struct{}
}

func (s slow) Details(state.Ask) state.Details {
	close(s.asked)
	<-s.answer
	return state.Details{}
}

// Stopping waits for a request that is being answered, also if its connection was closed before the answer. No goroutine
// is left.
func TestStopWaitsForRequests(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	src, d := slow{frozen{frame: frameOf(1)}, make(chan struct{}), make(chan struct{})}, doorWith("sesame")
	var out bytes.Buffer
	ready := make(chan struct{})
	_, stop, err := start(t.Context(), config{
		Address: "127.0.0.1:0", Out: &out, door: &d, grace: time.Nanosecond,
		read: func(context.Context) (source, error) { close(ready); return src, nil },
	})
	fatal.If(t, err)
	<-ready
	address, _, _ := strings.Cut(strings.TrimPrefix(out.String(), "Open "), "?")
	failed := make(chan error)
	go func() {
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		for {
			r, err := http.NewRequest(http.MethodGet, address+"api/events", nil)
			if err != nil {
				failed <- err
				return
			}
			r.AddCookie(&http.Cookie{Name: d.cookie, Value: d.key})
			resp, err := client.Do(r)
			if err != nil {
				failed <- err
				return
			}
			_ = resp.Body.Close() // the cluster is not stored yet
		}
	}()
	<-src.asked
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	<-failed // the connection was closed
	select {
	case <-stopped:
		t.Error("it did not wait for the request")
	case <-time.After(200 * time.Millisecond): // long enough for an operation that does not wait
	}
	close(src.answer)
	<-stopped
}

// The cluster is read again until it answers; meanwhile the page explains its absence.
func TestClusterAfterTrouble(t *testing.T) {
	tries := 0
	s := newTestServer(t, config{read: func(context.Context) (source, error) {
		if tries++; tries == 1 {
			return nil, errors.New("connection refused")
		}
		return frozen{frame: frameOf(1)}, nil
	}}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	s.tasks.Go(func() { s.readCluster(ctx) })
	t.Cleanup(cancel)
	stream := s.open(t)
	if got := stream.next(topicTrouble); got != `{"message":"connection refused"}`+"\n" {
		t.Errorf("trouble: %s", got)
	}
	if resp, _ := do(t, s.request(t, http.MethodGet, "/api/events")); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("without a cluster: %s", resp.Status)
	}
	fatal.UntilTrue(t, "it to be so", func() bool { s.clock.Step(againAfter); return s.source.Load() != nil })
	if got := stream.next(topicTrouble); got != "null\n" {
		t.Errorf("the trouble is over: %s", got)
	}
	stream.next(topicCluster)
}
