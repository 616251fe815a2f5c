package soak

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gnnsched/internal/logging"
)

func TestMain(m *testing.M) {
	logging.DropKlog() // etcd's client complains there while etcd is stopped
	goleak.VerifyTestMain(m)
}

// eventually waits until is returns true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for start := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// A process is started again when it ends. Only unrequested ends are reported.
func TestProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "output")
	p := &process{name: "test", output: file, command: func() *exec.Cmd {
		return exec.Command("sh", "-c", "echo started; trap 'exit 0' TERM; while :; do sleep 0.02; done")
	}}
	ctx, cancel := context.WithCancel(t.Context())
	var ends atomic.Int32
	done := make(chan error)
	go func() { done <- p.run(ctx, func(*os.ProcessState) { ends.Add(1) }) }()
	starts := func(n int) {
		eventually(t, "the process starts", func() bool {
			b, _ := os.ReadFile(file)
			return strings.Count(string(b), "started") == n && p.pid() != 0
		})
	}
	starts(1)
	if !p.end(syscall.SIGKILL) {
		t.Error("the process did not run")
	}
	starts(2)
	if n := ends.Load(); n != 0 {
		t.Errorf("%d ends reported that were asked for", n)
	}
	if err := syscall.Kill(p.pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	starts(3)
	if n := ends.Load(); n != 1 {
		t.Errorf("%d ends reported, want 1", n)
	}
	if p.lastLine() != "started" {
		t.Errorf("the last line is %q", p.lastLine())
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Without its program a process fails to start.
func TestProcessWithoutProgram(t *testing.T) {
	p := &process{
		name: "test", output: filepath.Join(t.TempDir(), "output"), command: func() *exec.Cmd { return exec.Command("/no/such/program") },
	}
	if err := p.run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "start test") {
		t.Errorf("got %v", err)
	}
}

// Only processes that lived all the time and kept their roles are compared, by quartiles, so that a single sample does not
// count.
func TestVerdicts(t *testing.T) {
	start := time.Unix(1000, 0)
	var m memory
	for i := range 100 {
		at := start.Add(time.Duration(i) * time.Second)
		m.add(sample{pid: 1, at: at, heap: 100 + float64(i%3)})
		m.add(sample{pid: 2, at: at, heap: 100 + float64(i)})
		if i < 50 {
			m.add(sample{pid: 3, at: at, heap: 100})
		}
		m.add(sample{pid: 4, at: at, heap: 100 + float64(i), role: roleOf(leaseMetric + fmt.Sprint("name=\"x\"} ", i/50, "\n"))})
	}
	m.add(sample{pid: 1, at: start.Add(99 * time.Second), heap: 1e9})
	got := m.verdicts(start, start.Add(99*time.Second))
	if len(got) != 2 || got[0].pid != 1 || got[1].pid != 2 {
		t.Fatalf("got %v, want the processes 1 and 2", got)
	}
	if g := got[0].growth(); math.Abs(g) > 0.01 {
		t.Errorf("flat memory grew by %v", g)
	}
	if g := got[1].growth(); g < memoryTolerance || g > 1 {
		t.Errorf("a heap that doubles grew by %v", g)
	}
}

// The children of a process agree with the system's.
func TestChildOf(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc")
	}
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	if pid := childOf(os.Getpid(), "sleep"); pid != child.Process.Pid {
		t.Errorf("got %d, want %d", pid, child.Process.Pid)
	}
	if pid := childOf(os.Getpid(), "other"); pid != 0 {
		t.Errorf("got %d for a program that does not run", pid)
	}
}

func TestHeapOf(t *testing.T) {
	if got := heapOf("# HELP x\ngo_memstats_heap_alloc_bytes 1.5e+06\nother 1\n"); got != 1.5e6 {
		t.Errorf("got %v", got)
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
