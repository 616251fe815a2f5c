package soak

import (
	"context"
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
