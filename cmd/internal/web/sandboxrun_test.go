package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/plugin/learningcurve"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/shadow"
)

// request is a small cluster.
func request() runRequest {
	return runRequest{
		Nodes: []podGroup{{Count: 2, CPU: 8, Memory: 32}, {Count: 1, CPU: 16, Memory: 64}}, Pods: "small", Load: 0.5, Seed: 1,
		Objective: map[string]float64{"balance": 1}, Policy: greedy, Other: "kube-scheduler",
	}
}

// play returns the lines of a run.
func play(t *testing.T, r runRequest) []line {
	t.Helper()
	var lines []line
	fatal.If(t, r.Validate())
	err := runSandbox(t.Context(), clocktesting.NewFakeClock(time.Unix(0, 0)), r, func(l line) error {
		lines = append(lines, l)
		return nil
	})
	fatal.If(t, err)
	return lines
}

// steps returns the decisions of a run.
func steps(lines []line) (out []*runStep) {
	for _, l := range lines {
		if l.Step != nil {
			out = append(out, l.Step)
		}
	}
	return out
}

// nodes returns the chosen nodes of a run.
func nodes(lines []line) []int32 {
	return each.Map(steps(lines), func(s *runStep) int32 { return s.Node })
}

func TestRun(t *testing.T) {
	r := request()
	r.Load = 0.15
	var text strings.Builder
	for _, l := range play(t, r) {
		line := fatal.Value(json.Marshal(l))(t)
		fmt.Fprintf(&text, "%s\n", line)
	}
	fatal.Golden(t, "run.jsonl", text.String())
}

// The nodes' changes in the lines add up to the pods' requests.
func TestChangedAddsUp(t *testing.T) {
	lines := play(t, request())
	last := lines[len(lines)-1].End
	if last == nil || last.Cut != "" || last.Policy.Unscheduled != 0 {
		t.Fatalf("the last line is %+v", lines[len(lines)-1])
	}
	state := map[int64][4]int64{}
	var cpu, memory int64
	for _, s := range steps(lines) {
		for _, c := range s.Changed {
			state[c[0]] = c
		}
		cpu, memory = cpu+s.CPU, memory+s.Memory
		i := slices.Index(s.Rows, s.Node)
		if i < 0 || s.Scores[i] == nil || len(s.Scores) != len(s.Rows) || len(s.OtherScores) != len(s.Rows) || !slices.Contains(s.Rows, s.Other) {
			t.Errorf("%+v", s)
		}
	}
	for _, c := range last.Changed {
		state[c[0]] = c
	}
	for _, c := range state {
		cpu, memory = cpu-c[1], memory-c[2]
	}
	if cpu != 0 || memory != 0 {
		t.Errorf("%d millicores and %d bytes are missing", cpu, memory)
	}
}

// A run repeats itself, and other weights, objectives and nodes lead to other decisions.
func TestDecisionsChange(t *testing.T) {
	r := request()
	r.Policy, r.Weights = ownWeights, map[string]float64{"balance": 1}
	even := nodes(play(t, r))
	if !reflect.DeepEqual(even, nodes(play(t, r))) {
		t.Error("the same request led to other decisions")
	}
	for name, change := range map[string]func(*runRequest){
		"weights":            func(r *runRequest) { r.Weights = map[string]float64{"used": 1} },
		"policy":             func(r *runRequest) { r.Policy = "most-allocated" },
		"nodes":              func(r *runRequest) { r.Nodes[0].Count = 4 },
		"greedy for packing": func(r *runRequest) { r.Policy, r.Objective = greedy, map[string]float64{"pack": 1} },
	} {
		other := request()
		other.Policy, other.Weights = r.Policy, r.Weights
		change(&other)
		if reflect.DeepEqual(even, nodes(play(t, other))) {
			t.Errorf("%s: the decisions are the same", name)
		}
	}
	balance, pack := request(), request()
	pack.Objective = map[string]float64{"pack": 1}
	if reflect.DeepEqual(nodes(play(t, balance)), nodes(play(t, pack))) {
		t.Error("the objective changes nothing for greedy")
	}
	packed, spread := play(t, pack), play(t, balance)
	if p, s := packed[len(packed)-1].End.Policy, spread[len(spread)-1].End.Policy; p.NodesInUse >= s.NodesInUse {
		t.Errorf("packing uses %d nodes, balancing %d", p.NodesInUse, s.NodesInUse)
	}
}

// Every policy plays on a cluster with and without GPUs.
func TestEveryPolicy(t *testing.T) {
	o := sandboxOptions()
	for _, name := range append(o.Policies, o.GPUPolicies...) {
		r := request()
		r.Policy, r.Other, r.Pods, r.Load, r.Zones, r.Turnover = name, name, "gpu and mixed", 0.3, 2, 1
		r.Nodes = []podGroup{{Count: 1, CPU: 64, Memory: 256, GPUs: 4}, {Count: 2, CPU: 16, Memory: 64}}
		r.Weights, r.Objective = o.Weights, map[string]float64{"gpu-idle": 1, "zones": 0.5, "fragmentation": 1, "pack": 0.25}
		if got := steps(play(t, r)); len(got) < 5 {
			t.Errorf("%s: %d decisions", name, len(got))
		}
		r.Nodes, r.Pods = r.Nodes[1:], "mixed"
		if got := steps(play(t, r)); len(got) < 5 {
			t.Errorf("%s without GPUs: %d decisions", name, len(got))
		}
	}
}

// With spread, replicas take other nodes.
func TestSpread(t *testing.T) {
	r := request()
	r.Load = 0.8
	apart := r
	apart.Spread = true
	if reflect.DeepEqual(nodes(play(t, r)), nodes(play(t, apart))) {
		t.Error("the decisions are the same")
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*runRequest)
		want   string
	}{
		"no nodes":              {func(r *runRequest) { r.Nodes = nil }, "nodes: 0 in all, want 1 to 64"},
		"many nodes":            {func(r *runRequest) { r.Nodes[0].Count = 64 }, "nodes: 65 in all"},
		"a billion nodes":       {func(r *runRequest) { r.Nodes[0].Count = 1 << 30 }, "of one kind, want 0 to 64"},
		"negative nodes":        {func(r *runRequest) { r.Nodes[0].Count = -1 }, "nodes: -1 of one kind"},
		"many groups":           {func(r *runRequest) { r.Nodes = make([]podGroup, 100) }, "100 groups"},
		"a node of nothing":     {func(r *runRequest) { r.Nodes[0].CPU = 0 }, "want 1 to 256 CPU, 1 to 2048 GiB"},
		"a huge node":           {func(r *runRequest) { r.Nodes[0].CPU = 1 << 40 }, "want 1 to 256 CPU, 1 to 2048 GiB"},
		"too many GPUs":         {func(r *runRequest) { r.Nodes[0].GPUs = 17 }, "want 1 to 256 CPU, 1 to 2048 GiB"},
		"zones":                 {func(r *runRequest) { r.Zones = 9 }, "zones: 9, want 0 to 8"},
		"no load":               {func(r *runRequest) { r.Load = 0 }, "load: 0 %"},
		"overload":              {func(r *runRequest) { r.Load = 1.5 }, "load: 150 %"},
		"turnover":              {func(r *runRequest) { r.Turnover = 1000 }, "turnover: 1000"},
		"pods":                  {func(r *runRequest) { r.Pods = "<script>" }, `"<script>"`},
		"no objective":          {func(r *runRequest) { r.Objective = nil }, "no term"},
		"an unknown term":       {func(r *runRequest) { r.Objective = map[string]float64{"energy": 1} }, "energy"},
		"a negative term":       {func(r *runRequest) { r.Objective = map[string]float64{"pack": -1} }, "-1"},
		"an unknown policy":     {func(r *runRequest) { r.Policy = "none" }, `no policy is called "none"`},
		"a file of weights":     {func(r *runRequest) { r.Policy = "linear:/etc/passwd" }, "no policy is called"},
		"a file of a profile":   {func(r *runRequest) { r.Other = "stock:/etc/passwd" }, "no policy is called"},
		"another objective":     {func(r *runRequest) { r.Policy = "greedy:energy" }, "no policy is called"},
		"what knows the future": {func(r *runRequest) { r.Policy = "clairvoyant:gnn" }, "no policy is called"},
		"an unknown feature":    {func(r *runRequest) { r.Policy, r.Weights = ownWeights, map[string]float64{"luck": 1} }, "luck"},
		"a huge weight":         {func(r *runRequest) { r.Policy, r.Weights = ownWeights, map[string]float64{"used": 1e300} }, "1e+300"},
	} {
		r := request()
		c.change(&r)
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}
}

// A run is cut after a number of decisions, and ends with its context and with an error of the reader.
func TestBounds(t *testing.T) {
	r := request()
	r.Nodes, r.Pods, r.Load, r.Policy = []podGroup{{Count: 40, CPU: 64, Memory: 256}}, "small", 1, "round-robin"
	r.Other = r.Policy
	lines := play(t, r)
	if got := len(steps(lines)); got != maxDecisions || lines[len(lines)-1].End.Cut != "after 1000 decisions" {
		t.Errorf("%d decisions, then %+v", got, lines[len(lines)-1].End)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err := runSandbox(ctx, clock.RealClock{}, r, func(line) error {
		if n++; n == 3 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || n != 3 {
		t.Errorf("%d lines, then %v", n, err)
	}
	gone := errors.New("gone")
	if err := runSandbox(t.Context(), clock.RealClock{}, r, func(line) error { return gone }); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
}

// tired is a clock on which each look takes a while of work, and a rest lasts exactly its duration.
type tired struct {
	clock.Clock
	now          time.Time
	look         time.Duration
	work, rest   time.Duration
	longest      time.Duration // stretch of work without a rest
	since        time.Duration // of work since the last rest
	restsOfStart int           // rests before the first line
	started      bool
}

func (c *tired) Now() time.Time {
	c.now = c.now.Add(c.look)
	c.work += c.look
	c.since += c.look
	c.longest = max(c.longest, c.since)
	return c.now
}

func (c *tired) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *tired) After(d time.Duration) <-chan time.Time {
	c.now = c.now.Add(d)
	c.rest += d
	c.since = 0
	if !c.started {
		c.restsOfStart++
	}
	done := make(chan time.Time, 1)
	done <- c.now
	return done
}

// However long its parts take, a run rests as long as it works, while it makes the policies too, and is cut when its time is
// over.
func TestPace(t *testing.T) {
	for _, look := range []time.Duration{100 * time.Microsecond, time.Millisecond, 4 * time.Millisecond, 7 * time.Millisecond,
		300 * time.Millisecond} {
		c := &tired{now: time.Unix(0, 0), look: look}
		var last line
		err := runSandbox(t.Context(), c, request(), func(l line) error {
			c.started = true
			last = l
			return nil
		})
		if err != nil || last.End == nil {
			t.Fatalf("%v: %v, %+v", look, err, last)
		}
		// Only the look after each rest, with which the next stretch begins, is work that no rest answers.
		if unanswered := c.work - c.rest; unanswered > worked+4*look+c.work/3 || c.rest > c.work {
			t.Errorf("a look of %v: %v of work, %v of rest", look, c.work, c.rest)
		}
		if most := worked + 4*look; c.longest > most {
			t.Errorf("a look of %v: %v of work without a rest, want %v at most", look, c.longest, most)
		}
		if look >= worked && c.restsOfStart == 0 {
			t.Errorf("a look of %v: no rest before the first line", look)
		}
		if cut := last.End.Cut == "after 20s"; cut != (c.now.Sub(time.Unix(0, 0)) > maxTime) {
			t.Errorf("a look of %v: cut %q after %v", look, last.End.Cut, c.now.Sub(time.Unix(0, 0)))
		}
	}
}

// The scenario of a request is one that gnnsched eval reads, with the same cluster, and its first line is the command.
func TestScenario(t *testing.T) {
	r := request()
	r.Objective["pack"], r.Other, r.Zones, r.Spread = 0.5, ownWeights, 2, true
	r.Weights = map[string]float64{"used": -2}
	text := fatal.Value(r.Scenario())(t)
	lines := strings.Split(text, "\n")
	if lines[0] != "# gnnsched eval --scenario sandbox.yaml --seed 1 --seeds 20 --policies greedy:balance+pack=0.5,linear:own.json" {
		t.Error(lines[0])
	}
	file := filepath.Join(t.TempDir(), weightsFile)
	weights, named := strings.CutPrefix(lines[1], "# own.json: ")
	if err := os.WriteFile(file, []byte(weights), 0o600); err != nil || !named {
		t.Fatal(lines[1], err)
	}
	if p, err := linear.Load(file); err != nil || p.Weights()[slices.Index(linear.Features, "used")] != -2 {
		t.Errorf("%v, %v", p, err)
	}
	all := fatal.Value(eval.Read("sandbox.yaml", []byte(text)))(t)
	want := fatal.Value(r.config())(t)
	if d := cmp.Diff(want, all[0].Config, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	r.Policy = "nobody"
	if _, err := r.Scenario(); err == nil || !strings.Contains(err.Error(), `no policy is called "nobody"`) {
		t.Error(err)
	}
}

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
	fatal.UntilTrue(t, "it to be so", func() bool { return len(s.playing) == 0 })
}

// Errors about the body use JSON's words and field names, not the program's.
func TestErrorsInWords(t *testing.T) {
	s := newTestServer(t, config{}, nil)
	for body, want := range map[string]string{
		"": "it is no JSON object", "{": "it is no JSON object", `{"x"}`: "the body is not JSON", `[]`: "the body: want an object, got array",
		`{"file":1}`:                      `no field is called "file"`,
		`{"nodes":[{"count":1.5}]}`:       "nodes.0.count: want a whole number, got number 1.5",
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

// metrics returns the metrics of a learning scheduler that has sent the given number of steps.
func metrics(sent float64) []*dto.MetricFamily {
	label := func(pairs ...string) (out []*dto.LabelPair) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, &dto.LabelPair{Name: proto.String(pairs[i]), Value: proto.String(pairs[i+1])})
		}
		return out
	}
	return []*dto.MetricFamily{
		{Name: proto.String("gnnsched_learning_steps_total"),
			Metric: []*dto.Metric{{Label: label("profile", "gnn", "result", "sent"), Counter: &dto.Counter{Value: proto.Float64(sent)}}}},
		{Name: proto.String("gnnsched_trainer_placements_total"),
			Metric: []*dto.Metric{{Label: label("profile", "gnn", "result", "read"), Counter: &dto.Counter{Value: proto.Float64(sent)}}}},
		{Name: proto.String("gnnsched_trainer_figure"), Metric: []*dto.Metric{
			{Label: label("profile", "gnn", "figure", "loss"), Gauge: &dto.Gauge{Value: proto.Float64(1 / sent)}},
			{Label: label("profile", "gnn", "figure", "score"), Gauge: &dto.Gauge{Value: proto.Float64(1.25)}},
			{Label: label("profile", "gnn", "figure", "score_limit"), Gauge: &dto.Gauge{Value: proto.Float64(1.5)}},
			{Label: label("profile", "gnn", "figure", hostile), Gauge: &dto.Gauge{Value: proto.Float64(1)}},
		}},
	}
}

// taught is a sampler with n samples; each sent ten steps more.
func taught(t *testing.T, n int) *learningcurve.Sampler {
	t.Helper()
	clock := clocktesting.NewFakeClock(noon)
	sent := 0.0
	c := learningcurve.New(func() ([]*dto.MetricFamily, error) { sent += 10; return metrics(sent), nil }, clock)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	for i := range n {
		fatal.UntilTrue(t, "it to be so", func() bool { return len(c.Samples().Times) == i+1 && clock.HasWaiters() })
		if i < n-1 {
			clock.Step(10 * time.Second)
		}
	}
	cancel()
	running.Wait()
	return c
}

// A scheduler that does not learn says nothing of it.
func TestNotLearning(t *testing.T) {
	for name, c := range map[string]*learningcurve.Sampler{"none": nil, "without samples": learningcurve.New(nil, nil)} {
		s := newServer(config{Curves: c})
		s.publishLearning()
		if fresh, _ := s.feed.since(map[string]int{}); len(fresh) != 0 {
			t.Errorf("%s: %q", name, fresh)
		}
	}
}

// watched returns the findings of a scheduler in the shadow.
func watched(context.Context) (shadow.Live, error) {
	var l shadow.Live
	err := json.Unmarshal([]byte(`{
		"profile": "gnn", "of": ["default-scheduler"], "objective": "balance", "from": "2026-11-23T11:00:00Z", "to": "2026-11-23T12:00:00Z",
		"results": [{"what": "same", "text": "the same node", "pods": 9, "share": 0.23}, {"what": "different", "text": "another node", "pods": 30, "share": 0.77}, {"what": "unschedulable", "text": "no node fits", "fails": true, "pods": 1, "share": 0.025}], "agreement": 0.23,
		"counts": {"bound": 41, "compared": 40, "results": {"same": 9, "different": 30, "unschedulable": 1}, "waitingOurs": 1}, "oneStep": {"better": 5, "equal": 20, "worse": 5},
		"time": {"median": 0.0005, "p99": 0.0021, "max": 0.1}, "whole": {"seconds": 3600, "theirs": 0.2, "ours": 0.25}, "gain": {"mean": -0.05, "low": -0.09, "high": -0.01},
		"verdict": {"answer": "not worth it", "why": ["the cost would be higher"]}, "course": [{"seconds": 60, "theirs": 0.1, "ours": 0.1}, {"seconds": 60, "theirs": 0.2, "ours": 0.3}]}`), &l)
	l.Recent = []shadow.Comparison{
		{Time: noon, Pod: "shop/" + hostile, What: "different", Theirs: "node-1", Node: "node-2", Gained: -0.0125, Took: 0.0015},
		{Time: noon.Add(-time.Second), Pod: "shop/big", What: "unschedulable", Theirs: "node-1", Why: "3 Insufficient cpu", Took: 0.0005},
	}
	return l, err
}

// A page of a shadow scheduler gets its findings at once and again when they change. A watcher that does not answer delays nothing else on
// the page.
func TestShadow(t *testing.T) {
	asked := make(chan shadow.Live)
	s := newTestServer(t, config{Shadow: func(ctx context.Context) (shadow.Live, error) {
		select {
		case l := <-asked:
			return l, nil
		case <-ctx.Done():
			return shadow.Live{}, ctx.Err()
		case <-time.After(time.Millisecond):
			return shadow.Live{}, errors.New("it works off events")
		}
	}}, frozen{frame: frameOf(2)})
	stream := s.open(t)
	stream.next(topicCluster)
	l := fatal.Value(watched(t.Context()))(t)
	for _, compared := range []int{40, 41} {
		l.Counts.Compared = compared
		for sent := false; !sent; {
			s.clock.Step(tick)
			select {
			case asked <- l:
				sent = true
			case <-time.After(time.Millisecond):
			}
		}
		var got shadow.Live
		fatal.If(t, json.Unmarshal([]byte(stream.next(topicShadow)), &got))
		if got.Counts.Compared != compared || got.Verdict.Answer != "not worth it" || len(got.Recent) != 2 || got.Recent[0].Node != "node-2" ||
			len(got.Course) != 2 {
			t.Errorf("%+v", got)
		}
	}
}
