package experience

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/utils/clock"
	clocktest "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"gnnsched/gnn/feature"
	"gnnsched/internal/fatal"
)

// drawStep draws a step.
func drawStep(t *rapid.T) Step {
	draw := func(what string) float64 { return rapid.Float64Range(0, 1e6).Draw(t, what) }
	s := Step{
		Actor: rapid.String().Draw(t, "actor"), Epoch: rapid.Uint64().Draw(t, "epoch"), Number: rapid.Uint64().Draw(t, "number"),
		Cluster: feature.Kinds{CPU: draw("cpu"), Memory: draw("memory"), Waiting: draw("waiting"), Nodes: draw("nodes"), Running: draw("running")},
	}
	for range rapid.IntRange(1, 5).Draw(t, "kinds") {
		s.Kinds = append(s.Kinds, Kind{Key: rapid.Uint64().Draw(t, "key"), Waits: draw("waits"), Seen: feature.Kind{
			Share: draw("share"), Expected: draw("expected"), Waiting: draw("pods"), Free: draw("free"), Places: draw("places"),
			Size: draw("size"), Breadth: draw("breadth"),
		}})
	}
	return s
}

// A reader returns the steps that a writer got.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(drawStep), 0, 4).Draw(t, "steps")
		var b bytes.Buffer
		w, err := NewWriter(&b)
		fatal.If(t, err)
		for _, s := range steps {
			fatal.If(t, w.Write(s))
		}
		whole := b.Len()
		cut := rapid.IntRange(0, whole).Draw(t, "cut at")
		half := bytes.NewReader(b.Bytes()[:cut])
		r, err := NewReader(&b)
		fatal.If(t, err)
		for _, want := range steps {
			got, err := r.Next()
			fatal.If(t, err)
			if d := cmp.Diff(want, got); d != "" {
				t.Fatal(d)
			}
		}
		if _, err := r.Next(); err != io.EOF { //nolint:errorlint // Next promises the bare io.EOF
			t.Errorf("at the end: %v", err)
		}
		checkHalf(t, half, len(steps), cut == whole)
	})
}

// checkHalf checks that a stream that ends early gives only its whole steps, and then an error.
func checkHalf(t *rapid.T, half io.Reader, steps int, whole bool) {
	r, err := NewReader(half)
	for n := 0; err == nil; n++ {
		if _, err = r.Next(); err == nil && (n >= steps || n == steps-1 && !whole) {
			t.Fatalf("step %d out of a stream that ends in it", n)
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	for name, stream := range map[string]string{
		"nothing":        "",
		"another schema": magic + "0123456789abcdef",
		"another format": "gnnstep\x06" + schema(),
		"a short head":   magic,
	} {
		if _, err := NewReader(bytes.NewReader([]byte(stream))); !errors.Is(err, errStream) {
			t.Errorf("%s: %v", name, err)
		}
	}
	good := rapid.Custom(drawStep).Example(1)
	for name, spoil := range map[string]func(*Step){
		"NaN":      func(s *Step) { s.Kinds[0].Seen.Free = math.NaN() },
		"infinity": func(s *Step) { s.Cluster.Running = math.Inf(1) },
		"negative": func(s *Step) { s.Kinds[0].Waits = -1 },
		"actor":    func(s *Step) { s.Actor = strings.Repeat("a", maxActor+1) },
		"no kinds": func(s *Step) { s.Kinds = nil },
		"kinds":    func(s *Step) { s.Kinds = make([]Kind, mostKinds+1) },
	} {
		bad := good
		bad.Kinds = slices.Clone(good.Kinds)
		spoil(&bad)
		refuses(t, name, bad)
	}
}

// refuses checks that a reader refuses a step.
func refuses(t *testing.T, name string, bad Step) {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b)
	if err == nil {
		err = w.Write(bad)
	}
	fatal.If(t, err)
	r, err := NewReader(&b)
	fatal.If(t, err)
	if _, err := r.Next(); !errors.Is(err, errStream) {
		t.Errorf("%s: %v", name, err)
	}
}

// A step over the size limit is neither written nor read.
func TestStepOverTheLimit(t *testing.T) {
	long := Step{Actor: strings.Repeat("a", maxStep)}
	var b bytes.Buffer
	w, err := NewWriter(&b)
	fatal.If(t, err)
	head := b.Len()
	if err := w.Write(long); err == nil || b.Len() > head {
		t.Errorf("%d bytes written, %v", b.Len()-head, err)
	}
	fatal.If(t, gob.NewEncoder(&b).Encode(long))
	r, err := NewReader(&b)
	fatal.If(t, err)
	if _, err := r.Next(); !errors.Is(err, errStream) {
		t.Errorf("read: %v", err)
	}
}

// On arbitrary bytes the reader ends with an error, and every step before that is valid.
func FuzzReader(f *testing.F) {
	var b bytes.Buffer
	w, err := NewWriter(&b)
	fatal.If(f, err)
	for seed := range 3 {
		fatal.If(f, w.Write(rapid.Custom(drawStep).Example(seed)))
	}
	head := len(magic) + len(schema())
	f.Add(b.Bytes()[head:])
	f.Add([]byte{})
	f.Add([]byte{255, 255, 255, 3, 1})
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := NewReader(io.MultiReader(bytes.NewReader(b.Bytes()[:head]), bytes.NewReader(body)))
		for err == nil {
			var s Step
			if s, err = r.Next(); err == nil && s.Validate() != nil {
				t.Fatalf("invalid step: %v", s.Validate())
			}
		}
	})
}

func TestReport(t *testing.T) {
	r := Report{
		Read: 300, Missing: 2, Updates: 70, Passed: 3, Refused: 1, Figures: map[string]float64{"loss": 0.25, "reward": -1e-9},
	}
	line := r.Line()
	if strings.ContainsAny(line, "\r\n") || len(line) > longestLine {
		t.Errorf("%q is not a line", line)
	}
	if got, ok := parseReport(line); !ok || !reflect.DeepEqual(got, r) {
		t.Errorf("%+v, %v, want %+v", got, ok, r)
	}
	r.Figures = map[string]float64{
		"loss": math.NaN(), "reward": math.Inf(-1), "norm": 1, "Bad Name": 1, "": 1, strings.Repeat("a", longestFigure+1): 1,
	}
	if got, ok := parseReport(r.Line()); !ok || !reflect.DeepEqual(got.Figures, map[string]float64{"norm": 1}) {
		t.Errorf("%+v, %v", got, ok)
	}
}

// A trainer's log lines are no reports.
func TestNoReport(t *testing.T) {
	for _, line := range []string{
		"", "learned from 300 placements", `{"read":1}`, reportPrefix, reportPrefix + "{", reportPrefix + `{"read":-1}`,
		reportPrefix + `{"figures":{"loss":"high"}}`,
		" " + reportPrefix + "{}", reportPrefix + `{"figures":{"a":1` + strings.Join(many(maxFigures), "") + `}}`,
	} {
		if r, ok := parseReport(line); ok {
			t.Errorf("%.80q is the report %+v", line, r)
		}
	}
}

// A report may have as many figures as the limit says.
func TestMostFigures(t *testing.T) {
	r, ok := parseReport(reportPrefix + `{"figures":{"a":1` + strings.Join(many(maxFigures-1), "") + `}}`)
	if !ok || len(r.Figures) != maxFigures {
		t.Errorf("%v, %d figures, want %d", ok, len(r.Figures), maxFigures)
	}
}

// many returns n more figures with different names.
func many(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = `,"` + strings.Repeat("b", i+1) + `":1`
	}
	return out
}

// For any output of a trainer, the figures that become metrics are few, named simply, and finite. A report stays equal when it is written
// and read again.
func FuzzReport(f *testing.F) {
	f.Add(Report{Read: 1, Figures: map[string]float64{"loss": 0.5}}.Line())
	f.Add(reportPrefix + `{"figures":{"a b":1,"c":1e308}}`)
	f.Add("learned from 300 placements")
	f.Fuzz(func(t *testing.T, line string) {
		r, ok := parseReport(line)
		if !ok {
			return
		}
		if len(r.Figures) > maxFigures {
			t.Errorf("%d figures", len(r.Figures))
		}
		for name, v := range r.Figures {
			if name == "" || len(name) > longestFigure || strings.ToLower(name) != name || strings.ContainsAny(name, " \"\n{}") || math.IsNaN(v) ||
				math.IsInf(v, 0) {
				t.Errorf("figure %q is %v", name, v)
			}
		}
		if again, ok := parseReport(r.Line()); !ok || !reflect.DeepEqual(again, r) {
			t.Errorf("%+v became %+v", r, again)
		}
	})
}

// trainerEnv makes the test binary act as a trainer; its value selects the kind.
const trainerEnv = "GNNSCHED_TEST_TRAINER"

// heldEnv names a FIFO that a trainer's child holds open while it lives.
const heldEnv = "GNNSCHED_TEST_HELD"

func TestMain(m *testing.M) {
	if kind := os.Getenv(trainerEnv); kind != "" {
		os.Exit(fakeTrainer(kind))
	}
	os.Exit(m.Run())
}

// fakeTrainer reads the stream to its end and prints the number of steps; some kinds misbehave.
func fakeTrainer(kind string) int {
	switch kind {
	case "dies":
		return 3
	case "deaf":
		_, _ = fmt.Println("deaf")
		time.Sleep(time.Hour)
	case "parent":
		child := exec.Command(os.Args[0])
		child.Env, child.Stdout = append(os.Environ(), trainerEnv+"=child"), os.Stdout
		_ = child.Run()
		return 0
	case "child":
		return fakeChild()
	}
	r, err := NewReader(os.Stdin)
	n := 0
	for err == nil {
		if _, err = r.Next(); err == nil {
			n++
			fmt.Printf("step %d\n", n)
			fmt.Println(Report{Read: uint64(n)}.Line())
			if kind == "dies after one" {
				return 3
			}
		}
	}
	fmt.Printf("%d steps, then %v", n, err)
	if !errors.Is(err, io.EOF) {
		return 1
	}
	return 0
}

// fakeChild lives longer than the test unless it is killed.
func fakeChild() int {
	held, err := os.OpenFile(os.Getenv(heldEnv), os.O_WRONLY, 0)
	if err != nil {
		return 1
	}
	_, _ = fmt.Println("holds")
	time.Sleep(time.Minute)
	_, _ = held.WriteString("outlived")
	return 0
}

// harness records the calls of a pipe's functions.
type harness struct {
	pipe  *Pipe
	lines chan string
	ended chan error
	again chan time.Duration
	sent  chan struct{}
	heard chan Report
}

func startPipe(t *testing.T, kind string, queue int, c clock.Clock) *harness {
	t.Helper()
	t.Setenv(trainerEnv, kind)
	h := &harness{
		lines: make(chan string, 1000), ended: make(chan error, 100), again: make(chan time.Duration, 100), sent: make(chan struct{}, 1000),
		heard: make(chan Report, 1000),
	}
	h.pipe = StartPipe(context.Background(), PipeConfig{
		Command: []string{os.Args[0]}, Queue: queue, Clock: c,
		Sent: func() { h.sent <- struct{}{} }, Output: func(l string) { h.lines <- l }, Reported: func(r Report) { h.heard <- r },
		Ended: func(err error, again time.Duration) { h.ended <- err; h.again <- again },
	})
	return h
}

func step(n int) Step {
	s := rapid.Custom(drawStep).Example(n)
	s.Number = uint64(n)
	return s
}

// The trainer gets every step in order, and may finish after the stream has ended.
func TestPipe(t *testing.T) {
	defer goleak.VerifyNone(t)
	h := startPipe(t, "reads", 10, clock.RealClock{})
	for i := range 5 {
		if !h.pipe.Offer(step(i)) {
			t.Fatal("no room")
		}
	}
	for i := range 5 {
		if l := <-h.lines; l != fmt.Sprintf("step %d", i+1) {
			t.Errorf("line %q", l)
		}
		<-h.sent
		if r := <-h.heard; r.Read != uint64(i+1) { // no line of the log
			t.Errorf("report %+v", r)
		}
	}
	h.pipe.Close()
	if l := <-h.lines; l != "5 steps, then EOF" {
		t.Errorf("last line %q", l)
	}
}

// A trainer is not started before it may begin. Steps wait for it.
func TestPipeBegins(t *testing.T) {
	defer goleak.VerifyNone(t)
	t.Setenv(trainerEnv, "reads")
	begin, lines := make(chan struct{}), make(chan string, 10)
	c := PipeConfig{
		Command: []string{os.Args[0]}, Queue: 10, Clock: clock.RealClock{}, Begin: begin,
		Sent: func() {}, Output: func(l string) { lines <- l }, Ended: func(err error, _ time.Duration) { t.Error(err) },
	}
	p, never := StartPipe(context.Background(), c), StartPipe(context.Background(), c)
	if !p.Offer(step(1)) || !never.Offer(step(1)) {
		t.Fatal("no room")
	}
	never.Close()
	select {
	case l := <-lines:
		t.Errorf("a trainer ran before it was to begin: %s", l)
	case <-time.After(200 * time.Millisecond):
	}
	close(begin)
	if l := <-lines; l != "step 1" {
		t.Errorf("line %q", l)
	}
	p.Close()
}

// Offer does not wait for a trainer that does not read: it drops steps once the queue is full.
// Close ends even a write that blocks.
func TestFullQueueDrops(t *testing.T) {
	defer goleak.VerifyNone(t)
	c := clocktest.NewFakeClock(time.Unix(0, 0))
	h := startPipe(t, "deaf", 3, c)
	<-h.lines // it runs
	large := step(1)
	large.Actor = strings.Repeat("a", 1<<19) // more than a pipe holds
	taken := 0
	for range 100 {
		if h.pipe.Offer(large) {
			taken++
		}
	}
	if taken < 3 || taken > 4 { // the queue, and the step being written
		t.Errorf("%d steps were taken, the queue holds 3", taken)
	}
	h.pipe.stop()
	for !c.HasWaiters() { // until it waits for the trainer to end
		time.Sleep(time.Millisecond)
	}
	c.Step(grace)
	h.pipe.Close()
}

// Killing a trainer also kills its children.
func TestKillsTheGroup(t *testing.T) {
	defer goleak.VerifyNone(t)
	path := filepath.Join(t.TempDir(), "held")
	fatal.If(t, syscall.Mkfifo(path, 0o600))
	t.Setenv(heldEnv, path)
	c := clocktest.NewFakeClock(time.Unix(0, 0))
	h := startPipe(t, "parent", 3, c)
	held, err := os.Open(path)
	fatal.If(t, err)
	defer held.Close()
	<-h.lines // the child runs
	h.pipe.stop()
	for !c.HasWaiters() { // until it waits for the trainer to end
		time.Sleep(time.Millisecond)
	}
	c.Step(grace)
	h.pipe.Close()
	if rest, err := io.ReadAll(held); err != nil || len(rest) > 0 { // which ends with the child
		t.Errorf("the child %s, error %v", rest, err)
	}
}

// A trainer that dies is started again after waits that grow.
func TestRestarts(t *testing.T) {
	defer goleak.VerifyNone(t)
	c := clocktest.NewFakeClock(time.Unix(0, 0))
	h := startPipe(t, "dies", 3, c)
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		if err := <-h.ended; err == nil || !strings.Contains(err.Error(), "exit status 3") {
			t.Errorf("ended with %v", err)
		}
		if got := <-h.again; got != want*time.Second {
			t.Errorf("wait %d is %v, want %vs", i, got, int(want))
		}
		for !c.HasWaiters() {
			time.Sleep(time.Millisecond)
		}
		c.Step(want * time.Second)
	}
	h.pipe.Close()
}

// The trainer after a dead one gets the following steps.
func TestGoesOnAfterADeath(t *testing.T) {
	defer goleak.VerifyNone(t)
	c := clocktest.NewFakeClock(time.Unix(0, 0))
	h := startPipe(t, "dies after one", 1, c)
	for i := range 3 {
		h.pipe.Offer(step(i))
		if l := <-h.lines; l != "step 1" {
			t.Errorf("line %q", l)
		}
		<-h.ended
		for !c.HasWaiters() {
			time.Sleep(time.Millisecond)
		}
		c.Step(longestWait)
	}
	h.pipe.Close()
}

func TestNoSuchTrainer(t *testing.T) {
	defer goleak.VerifyNone(t)
	ended := make(chan error, 1)
	f := StartPipe(context.Background(), PipeConfig{
		Command: []string{filepath.Join(t.TempDir(), "none")}, Clock: clocktest.NewFakeClock(time.Unix(0, 0)),
		Ended: func(err error, _ time.Duration) { ended <- err },
	})
	if err := <-ended; !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	f.Close()
}
