package soak

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gnnsched/internal/fatal"
	"gnnsched/internal/logging"
)

func TestMain(m *testing.M) {
	logging.DropKlog() // etcd's client complains there while etcd is stopped
	goleak.VerifyTestMain(m)
}

// A program is started again when it ends. Only unrequested ends are reported.
func TestProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "output")
	p := &program{name: "test", path: "sh", log: file, args: []string{
		"-c", "echo started; trap 'exit 0' INT; while :; do sleep 0.02; done",
	}}
	ctx, cancel := context.WithCancel(t.Context())
	ends := make(chan error, 1)
	done := make(chan error)
	go func() { done <- p.run(ctx, func(cause error) { ends <- cause }) }()
	starts := func(n int) {
		fatal.UntilTrue(t, "the process starts", func() bool {
			b, _ := os.ReadFile(file)
			return strings.Count(string(b), "started") == n && p.pid() != 0
		})
	}
	starts(1)
	if !p.end(syscall.SIGKILL) {
		t.Error("the process did not run")
	}
	starts(2)
	if len(ends) != 0 {
		t.Errorf("reported an end that was asked for: %v", <-ends)
	}
	fatal.If(t, syscall.Kill(p.pid(), syscall.SIGKILL))
	starts(3)
	if cause := <-ends; !strings.Contains(cause.Error(), "test ended: signal: killed: started") {
		t.Errorf("got %v", cause)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Without its program none starts.
func TestNoProgram(t *testing.T) {
	p := &program{name: "test", path: "/no/such/program", log: filepath.Join(t.TempDir(), "output")}
	if err := p.run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "start test") {
		t.Errorf("got %v", err)
	}
}

// The lower quartiles of the first and the last third count, so that a single sample does not, and a process must live all the time.
func TestThirds(t *testing.T) {
	start := time.Unix(1000, 0)
	var flat, grows []sample
	for i := range 100 {
		at := start.Add(time.Duration(i) * time.Second)
		flat = append(flat, sample{at, 100 + float64(i%3)})
		grows = append(grows, sample{at, 100 + float64(i)})
	}
	flat = append(flat, sample{start.Add(99 * time.Second), 1e9})
	for name, c := range map[string]struct {
		all         []sample
		first, last float64
		ok          bool
	}{
		"flat": {flat, 100, 100, true}, "growing": {grows, 108, 175, true}, "ended": {grows[:50], 0, 0, false}, "begun late": {grows[50:], 0, 0, false},
	} {
		first, last, ok := thirds(c.all, start, start.Add(99*time.Second))
		if math.Abs(first-c.first) > 1 || math.Abs(last-c.last) > 1 || ok != c.ok {
			t.Errorf("%s: %v, %v, %v; want %v, %v, %v", name, first, last, ok, c.first, c.last, c.ok)
		}
	}
}

// A run whose memory is judged leaves the time for it.
func TestFailing(t *testing.T) {
	for run, want := range map[time.Duration]time.Duration{
		10 * time.Minute: 6 * time.Minute, 31 * time.Minute: 1116 * time.Second, 45 * time.Minute: 15 * time.Minute,
		60 * time.Minute: 30 * time.Minute, 100 * time.Minute: 60 * time.Minute,
	} {
		if got := (Config{For: run}).failing(); got != want {
			t.Errorf("everything fails for %v of %v, want %v", got, run, want)
		}
	}
}
