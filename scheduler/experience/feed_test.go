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
)

// trainerEnv makes the test binary a trainer: its value says which.
const trainerEnv = "GNNSCHED_TEST_TRAINER"

// heldEnv names a pipe that a trainer's child holds open for as long as it lives.
const heldEnv = "GNNSCHED_TEST_HELD"

func TestMain(m *testing.M) {
	if kind := os.Getenv(trainerEnv); kind != "" {
		os.Exit(fakeTrainer(kind))
	}
	os.Exit(m.Run())
}

// fakeTrainer reads the stream to its end and says how much there was of it, unless the kind
// wants otherwise.
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
		if _, err = r.Read(); err == nil {
			n++
			fmt.Printf("step %d\n", n)
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

// fakeChild outlives the test unless it is killed.
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

// harness collects what a feed tells.
type harness struct {
	feed  *Feed
	lines chan string
	ended chan error
	again chan time.Duration
	sent  chan struct{}
}

func feed(t *testing.T, kind string, queue int, c clock.Clock) *harness {
	t.Helper()
	t.Setenv(trainerEnv, kind)
	h := &harness{lines: make(chan string, 1000), ended: make(chan error, 100), again: make(chan time.Duration, 100), sent: make(chan struct{}, 1000)}
	h.feed = Start(context.Background(), Config{
		Command: []string{os.Args[0]}, Queue: queue, Clock: c,
		Sent: func() { h.sent <- struct{}{} }, Output: func(l string) { h.lines <- l },
		Ended: func(err error, again time.Duration) { h.ended <- err; h.again <- again },
	})
	return h
}

func step(n int) Step {
	s := rapid.Custom(drawStep).Example(n)
	s.Number = uint64(n)
	return s
}

// The trainer gets every step in order, and the time to end well.
func TestFeed(t *testing.T) {
	defer goleak.VerifyNone(t)
	h := feed(t, "reads", 10, clock.RealClock{})
	for i := range 5 {
		if !h.feed.Offer(step(i)) {
			t.Fatal("no room")
		}
	}
	for i := range 5 {
		if l := <-h.lines; l != fmt.Sprintf("step %d", i+1) {
			t.Errorf("line %q", l)
		}
		<-h.sent
	}
	h.feed.Close()
	if l := <-h.lines; l != "5 steps, then EOF" {
		t.Errorf("last line %q", l)
	}
}

// A trainer that does not read lets nobody wait: what the queue has no room for is dropped,
// and even a write that hangs in a full pipe ends with the feed.
func TestFullQueueDrops(t *testing.T) {
	defer goleak.VerifyNone(t)
	c := clocktest.NewFakeClock(time.Unix(0, 0))
	h := feed(t, "deaf", 3, c)
	<-h.lines // it runs
	large := step(1)
	large.State.Resize(1 << 20 / 4) // more than a pipe holds
	taken := 0
	for range 100 {
		if h.feed.Offer(large) {
			taken++
		}
	}
	if taken < 3 || taken > 4 { // the queue, and the one that is being written
		t.Errorf("%d steps were taken, the queue holds 3", taken)
	}
	h.feed.stop()
	for !c.HasWaiters() { // until it waits for the trainer to end
		time.Sleep(time.Millisecond)
	}
	c.Step(grace)
	h.feed.Close()
}

// What a trainer has started is killed with it.
func TestKillsTheGroup(t *testing.T) {
	defer goleak.VerifyNone(t)
	path := filepath.Join(t.TempDir(), "held")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(heldEnv, path)
	c := clocktest.NewFakeClock(time.Unix(0, 0))
	h := feed(t, "parent", 3, c)
	held, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	<-h.lines // the child runs
	h.feed.stop()
	for !c.HasWaiters() { // until it waits for the trainer to end
		time.Sleep(time.Millisecond)
	}
	c.Step(grace)
	h.feed.Close()
	if rest, err := io.ReadAll(held); err != nil || len(rest) > 0 { // which ends with the child
		t.Errorf("the child %s, error %v", rest, err)
	}
}

// A trainer that dies is started again and again, ever less often.
func TestRestarts(t *testing.T) {
	defer goleak.VerifyNone(t)
	c := clocktest.NewFakeClock(time.Unix(0, 0))
	h := feed(t, "dies", 3, c)
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
	h.feed.Close()
}

// Steps go on to the next trainer.
func TestGoesOnAfterADeath(t *testing.T) {
	defer goleak.VerifyNone(t)
	c := clocktest.NewFakeClock(time.Unix(0, 0))
	h := feed(t, "dies after one", 1, c)
	for i := range 3 {
		h.feed.Offer(step(i))
		if l := <-h.lines; l != "step 1" {
			t.Errorf("line %q", l)
		}
		<-h.ended
		for !c.HasWaiters() {
			time.Sleep(time.Millisecond)
		}
		c.Step(longestWait)
	}
	h.feed.Close()
}

func TestNoSuchTrainer(t *testing.T) {
	defer goleak.VerifyNone(t)
	ended := make(chan error, 1)
	f := Start(context.Background(), Config{
		Command: []string{filepath.Join(t.TempDir(), "none")}, Clock: clocktest.NewFakeClock(time.Unix(0, 0)),
		Ended: func(err error, _ time.Duration) { ended <- err },
	})
	if err := <-ended; !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	f.Close()
}
