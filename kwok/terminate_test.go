package kwok

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
)

const (
	envHolder = "KWOK_TEST_HOLD_DIR"    // makes the test binary hold the lock of this directory
	envDeaf   = "KWOK_TEST_HOLDER_DEAF" // makes it also ignore SIGTERM
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(envHolder); dir != "" {
		hold(dir)
	}
	os.Exit(m.Run())
}

// hold locks the directory as a running cluster does, until SIGTERM.
func hold(dir string) {
	d, err := openDir(dir)
	if err == nil {
		err = d.writeRun(runFile{PID: os.Getpid(), Start: processStart(os.Getpid()), StartedAt: time.Now()})
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	fmt.Println("held")
	for range term {
		if os.Getenv(envDeaf) == "" {
			_ = d.close()
			os.Exit(0)
		}
	}
}

// startHolder starts a process that holds the lock of dir. A goroutine waits for the process, so
// that it does not become a zombie, which would look alive.
func startHolder(t *testing.T, dir string, env ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(append(os.Environ(), envHolder+"="+dir), env...)
	out, err := c.StdoutPipe()
	fatal.If(t, err)
	fatal.If(t, c.Start())
	said := bufio.NewReader(out)
	if line, err := said.ReadString('\n'); err != nil || line != "held\n" {
		t.Fatalf("the holder says %q, %v", line, err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = c.Wait()
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		<-gone
	})
	return c
}

func TestTerminate(t *testing.T) {
	for _, c := range []struct {
		name string
		env  []string
	}{{"one that obeys", nil}, {"one that does not", []string{envDeaf + "=1"}}} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			p := startHolder(t, dir, c.env...)
			if s, err := Inspect(context.Background(), dir); err != nil || s.Phase != Starting || s.PID != p.Process.Pid {
				t.Errorf("state %+v, %v", s, err)
			}
			ran, err := Terminate(context.Background(), dir, 300*time.Millisecond)
			if !ran || err != nil {
				t.Fatalf("ran %v, %v", ran, err)
			}
			if s, err := Inspect(context.Background(), dir); err != nil || s.Phase != Stopped {
				t.Errorf("state %+v, %v", s, err)
			}
			if ran, err := Terminate(context.Background(), dir, time.Second); ran || err != nil {
				t.Errorf("again: ran %v, %v", ran, err)
			}
		})
	}
}

func TestTerminateNeverHitsAStranger(t *testing.T) {
	stranger := exec.Command("sleep", "60")
	fatal.If(t, stranger.Start())
	t.Cleanup(func() { _ = stranger.Process.Kill(); _ = stranger.Wait() })
	dir := t.TempDir()
	d, err := openDir(dir) // the lock is held, but not by the process in the run file
	fatal.If(t, err)
	fatal.If(t, d.writeRun(runFile{PID: stranger.Process.Pid, Start: processStart(os.Getpid())}))
	if ran, err := Terminate(context.Background(), dir, 100*time.Millisecond); ran || err == nil ||
		!strings.Contains(err.Error(), "but not in process") {
		t.Errorf("ran %v, %v", ran, err)
	}
	// The run file is stale: no process holds the lock.
	fatal.If(t, d.lock.Close())
	if ran, err := Terminate(context.Background(), dir, 100*time.Millisecond); ran || err != nil {
		t.Errorf("stale: ran %v, %v", ran, err)
	}
	if err := stranger.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the stranger is gone: %v", err)
	}
}

func TestTerminateGivesUpWithItsContext(t *testing.T) {
	dir := t.TempDir()
	startHolder(t, dir, envDeaf+"=1")
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if ran, err := Terminate(ctx, dir, time.Minute); !ran || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ran %v, %v", ran, err)
	}
}

func TestInspectWithoutACluster(t *testing.T) {
	if s, err := Inspect(context.Background(), t.TempDir()+"/none"); err != nil || s.Phase != Absent {
		t.Errorf("%+v, %v", s, err)
	}
	file := t.TempDir() + "/file"
	touch(t, file)
	if _, err := Inspect(context.Background(), file); err != nil && exit.Code(err) != exit.Usage {
		t.Errorf("a file: %v", err)
	}
}

func TestProcessStartNamesOneProcess(t *testing.T) {
	me := processStart(os.Getpid())
	if me == "" || me != processStart(os.Getpid()) {
		t.Errorf("mine is %q, then %q", me, processStart(os.Getpid()))
	}
	if p := processStart(os.Getppid()); p == me {
		t.Errorf("my parent's is mine: %q", p)
	}
	if got := processStart(-1); got != "" {
		t.Errorf("of nobody: %q", got)
	}
}
