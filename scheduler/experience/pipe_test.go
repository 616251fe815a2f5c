package experience

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/utils/clock"
	clocktest "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"gnnsched/internal/fatal"
)

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
	large.State.Resize(1 << 20 / 4) // more than a pipe holds
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
