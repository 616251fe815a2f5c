package demo

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/internal/golden"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/eval/testbed/inprocess"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/sim"
)

func both(t *testing.T) (mixed, gpus part) {
	t.Helper()
	all, err := parts("gnn")
	if err != nil || len(all) != 2 {
		t.Fatalf("%d parts, %v", len(all), err)
	}
	return all[0], all[1]
}

// The results of both parts and the explanation, as a terminal of 80 columns shows them.
func TestOutput(t *testing.T) {
	mixed, gpus := both(t)
	c := config{Seeds: 2, Seed: 1}
	learned := result{
		scheduler: "gnn", attempt: 210 * time.Microsecond,
		rounds: []round{{pods: 349, bound: 349, cpuStd: 0.03, memoryStd: 0.04}, {pods: 321, bound: 320, cpuStd: 0.05, memoryStd: 0.06}},
	}
	base := result{
		scheduler: "default-scheduler", attempt: 180 * time.Microsecond,
		rounds: []round{{pods: 349, bound: 347, cpuStd: 0.07, memoryStd: 0.1}, {pods: 321, bound: 320, cpuStd: 0.09, memoryStd: 0.1}},
	}
	var b bytes.Buffer
	d := newDirector(c, mixed)
	d.results["gnn"], d.results[server.DefaultProfile] = &learned, &base
	d.explanation = &explanation{
		scheduler: "gnn", pod: &cluster.Pod{Name: "calm-otter", Requests: cluster.Resources{MilliCPU: 8000, Memory: 32 << 30}},
		outlook: outlook{same: 3, more: 11, less: 6}, chosen: "cpu64-2", other: "cpu32-7", imbalance: 0.05, nodes: []candidate{
			{"cpu64-2", -1.5, 90, shares{0.5, 0.55}, shares{0.625, 0.675}, 0.045},
			{"cpu64-0", -1.75, 92, shares{0.5, 0.5}, shares{0.625, 0.625}, 0.046},
			{"cpu64-1", -1.76, 91, shares{0.5, 0.5}, shares{0.625, 0.625}, 0.0461},
			{"cpu64-3", -2, 91, shares{0.5, 0.5}, shares{0.625, 0.625}, 0.0461},
			{"cpu32-7", -3, 95, shares{0.3, 0.35}, shares{0.55, 0.6}, 0.06},
		},
	}
	if err := d.write(&b, fixed(mixed, sim.Outcome{CPUStd: 0.09, MemoryStd: 0.08, Unscheduled: 2},
		sim.Outcome{CPUStd: 0.04, MemoryStd: 0.05, Unscheduled: 1})); err != nil {
		t.Fatal(err)
	}
	d = newDirector(c, gpus)
	learned = result{
		scheduler: "gpu-gnn", attempt: 300 * time.Microsecond, fallbacks: 3,
		rounds: []round{{pods: 155, bound: 140, gpus: 116_000, allocated: 112_000, asked: 120_000}},
	}
	base = result{
		scheduler: "default-scheduler", attempt: 301 * time.Microsecond,
		rounds: []round{{pods: 155, bound: 145, gpus: 116_000, allocated: 100_000, asked: 120_000}},
	}
	d.results["gpu-gnn"], d.results[server.DefaultProfile] = &learned, &base
	d.config.Seeds = 1
	if err := d.write(&b, fixed(gpus, sim.Outcome{GPU: &sim.GPUOutcome{Allocation: 0.9}, Unscheduled: 8},
		sim.Outcome{GPU: &sim.GPUOutcome{Allocation: 0.96}, Unscheduled: 15})); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "results.txt", b.String())
	for _, line := range strings.Split(b.String(), "\n") {
		if n := len([]rune(line)); n > columns {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// fixed returns a comparison of one seed in which the learned policy has one outcome and all others
// another.
func fixed(p part, base, learned sim.Outcome) *eval.Comparison {
	c := &eval.Comparison{Scenario: p.scenario, Seeds: []uint64{101}}
	for _, name := range p.policies() {
		o := base
		if name == p.learned {
			o = learned
		}
		c.Results = append(c.Results, eval.Result{Name: name, Outcomes: []sim.Outcome{o}})
	}
	return c
}

func TestJudge(t *testing.T) {
	less, more := measure{}, measure{more: true}
	for _, c := range []struct {
		m             measure
		learned, base float64
		want          judgement
		words         string
	}{
		{less, 1, 2, won, "-50% better"},
		{less, 2, 1, lost, "+100% worse"},
		{more, 2, 1, won, "+100% better"},
		{more, 1, 2, lost, "-50% worse"},
		{less, 1, 1.005, same, "same"},
		{less, 0, 0, same, "same"},
		{less, 2, 0, lost, "worse"},
		{more, 2, 0, won, "better"},
	} {
		if got, words := c.m.judge(c.learned, c.base); got != c.want || words != c.words {
			t.Errorf("%v and %v: %v, %q; want %q", c.learned, c.base, got, words, c.words)
		}
	}
}

// If the default's choice is more even at first, the sentences mention it.
func TestSentencesAreHonest(t *testing.T) {
	e := explanation{scheduler: "gnn", chosen: "a", other: "b", nodes: []candidate{
		{"a", 1, 80, shares{}, shares{}, 0.07}, {"b", 0, 80, shares{}, shares{}, 0.06},
	}}
	text := e.sentences()
	if !strings.Contains(text, "At once that is no more even") || strings.Contains(text, "because") || strings.Contains(e.why(), "because") {
		t.Error(text, e.why())
	}
	e.nodes[1].imbalance = 0.08
	if text := e.sentences(); strings.Contains(text, "At once") || !strings.Contains(e.why(), "because it shows where evenness is won") {
		t.Error(text, e.why())
	}
}

// The demo explains one of the decisions that the network wins by the scores; decisions with the largest gain are tried first.
func TestByGain(t *testing.T) {
	p, _ := both(t)
	plan, err := p.plan(2)
	if err != nil {
		t.Fatal(err)
	}
	env, err := sim.New(p.scenario.Config)
	if err != nil {
		t.Fatal(err)
	}
	if err := env.Reset(2); err != nil {
		t.Fatal(err)
	}
	at := len(plan.Steps) / 2
	for i := range at {
		env.Step(i % len(env.Candidates()))
	}
	s := env.Snapshot()
	d := newDirector(config{}, p)
	steps, count, err := d.byGain(s, plan.Steps[at:at+explainOf])
	if err != nil || len(steps) != explainOf || count.more+count.less+count.same != explainOf || count.more == 0 {
		t.Fatalf("%d steps, %+v, %v", len(steps), count, err)
	}
	last := math.Inf(1)
	for i, step := range steps {
		nodes, err := candidates(s, pod(step), "gnn")
		if err != nil {
			t.Fatal(err)
		}
		gain := defaultImbalance(nodes) - nodes[0].imbalance
		if gain > last || (gain > tiny) != (i < count.more) {
			t.Errorf("step %d gains %v after %v; %+v", i, gain, last, count)
		}
		last = gain
	}
	drawn := []candidate{{byDefault: 90, imbalance: 1}, {byDefault: 95, imbalance: 3}, {byDefault: 95, imbalance: 5}}
	if got := defaultImbalance(drawn); got != 4 {
		t.Errorf("of equal best nodes one is drawn: %v, want 4", got)
	}
}

func TestOrdinal(t *testing.T) {
	for n, want := range map[int]string{1: "best", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 21: "21st", 22: "22nd",
		23: "23rd", 112: "112th"} {
		if got := ordinal(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// The demo's workloads are the simulator's episodes: the same pods in the same order on the same nodes.
func TestPlanIsTheEpisode(t *testing.T) {
	for _, p := range []part{first(both(t)), second(both(t))} {
		env, err := sim.New(p.scenario.Config)
		if err != nil {
			t.Fatal(err)
		}
		if err := env.Reset(3); err != nil {
			t.Fatal(err)
		}
		plan, err := p.plan(3)
		if err != nil {
			t.Fatal(err)
		}
		if err := plan.Validate(); err != nil {
			t.Fatal(err)
		}
		arrivals := env.Plan()
		if len(arrivals) != len(plan.Steps) {
			t.Fatalf("%s: %d steps for %d pods", p.title, len(plan.Steps), len(arrivals))
		}
		for i, s := range plan.Steps {
			if s.Deployment.Requests() != arrivals[i].Pod.Requests || !math.IsInf(arrivals[i].Lifetime, 1) {
				t.Fatalf("%s: step %d is %+v, the pod %+v", p.title, i, s, arrivals[i])
			}
		}
	}
}

func first(a, _ part) part  { return a }
func second(_, b part) part { return b }

// A small run on a real cluster and scheduler: every pod is counted, the network decides, and its
// decision is explained.
func TestRun(t *testing.T) {
	p, _ := both(t)
	for i := range p.scenario.Pools {
		p.scenario.Pools[i].Count = sim.IntRange{Min: 2, Max: 2}
	}
	p.scenario.Load = sim.FloatRange{Min: 0.5, Max: 0.5}
	var out, progress bytes.Buffer
	c := config{Seeds: 1, Seed: 1, Variant: "gnn", Launcher: inprocess.Launcher{}, Out: &out, Err: &progress}
	if err := c.play(t.Context(), p); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	plan, err := p.plan(1)
	if err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{"Mixed nodes under load", "Typical: 40 other workloads", "40 of 40", "One decision", "gnn chose ",
		"default-scheduler took "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	pods := strings.Fields(line(text, "│ pods  "))
	if want := whole(float64(len(plan.Steps))); len(pods) < 6 || pods[3] != want || pods[5] != want {
		t.Errorf("%q, want %s pods twice", pods, want)
	}
	if got := line(text, "which has its "); !strings.Contains(text, "which has its best score") {
		t.Errorf("the scheduler did not choose what the network scores best: %s", got)
	}
	if strings.Contains(text, "the network failed") {
		t.Error(text)
	}
}

// line returns the first line of a text with some part.
func line(text, part string) string {
	for _, l := range strings.Split(text, "\n") {
		if strings.Contains(l, part) {
			return l
		}
	}
	return ""
}

func TestQuantile(t *testing.T) {
	h := &dto.Histogram{SampleCount: ptr.To[uint64](100)}
	for _, b := range [][2]float64{{0.001, 0}, {0.002, 50}, {0.004, 90}, {0.008, 100}} {
		h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: ptr.To(b[0]), CumulativeCount: ptr.To(uint64(b[1]))})
	}
	for q, want := range map[float64]float64{0.5: 0.002, 0.25: 0.0015, 0.7: 0.003, 0.95: 0.006, 1: 0.008} {
		if got := quantile(since(h, nil), q).Seconds(); math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
	if got := quantile(since(h, h), 0.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	half := &dto.Histogram{SampleCount: ptr.To[uint64](50)}
	for _, b := range h.Bucket {
		half.Bucket = append(half.Bucket, &dto.Bucket{UpperBound: b.UpperBound, CumulativeCount: ptr.To(min(b.GetCumulativeCount(), 50))})
	}
	if got, want := quantile(since(h, half), 0.8).Seconds(), 0.004; math.Abs(got-want) > 1e-9 {
		t.Errorf("of what came since: %v, want %v", got, want)
	}
}

func TestValidate(t *testing.T) {
	good := config{Seeds: 1, Variant: "gnn"}
	if err := good.validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []config{{Variant: "gnn"}, {Seeds: 101, Variant: "gnn"}, {Seeds: 1}, {Seeds: 1, Variant: "default-scheduler"}} {
		if exit.Code(c.validate()) != exit.Usage {
			t.Errorf("%+v: accepted", c)
		}
	}
}

// If kwokcluster cannot start, the error shows its last output and nothing is left.
func TestClusterThatFails(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "kwokcluster")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho first\necho the port is in use >&2\nexit 2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var out, progress bytes.Buffer
	c := config{Seeds: 1, Variant: "gnn", Launcher: testbed.Program(program), LogDir: dir, Out: &out, Err: &progress}
	err := run(context.Background(), c)
	if err == nil || !bytes.Contains([]byte(err.Error()), []byte("the port is in use")) {
		t.Errorf("got %v", err)
	}
	if out.Len() != 0 {
		t.Errorf("results of nothing: %s", out.String())
	}
	c.Launcher = testbed.Program(filepath.Join(dir, "none"))
	if err := run(context.Background(), c); exit.Code(err) != exit.Usage {
		t.Errorf("missing program: %v", err)
	}
}
