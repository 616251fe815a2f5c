package testbed

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"gnnsched/internal/exit"
)

// process is a running program whose output goes to a log.
type process struct {
	name string // in errors
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// start starts a program. hint is the user's next step if it is not installed.
func start(name, hint, log, program string, args ...string) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("write the log of %s: %w", name, err),
			"choose a directory that you can write to with --log-dir")
	}
	defer out.Close() // the process has its own handle
	p := &process{name: name, log: log, cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Stderr, p.cmd.Stdout = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C must reach it after the scheduler has stopped
	if err := p.cmd.Start(); err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("start %s: %w", name, err), hint)
	}
	go func() {
		_ = p.cmd.Wait() // the log tells the reason
		close(p.done)
	}()
	return p, nil
}

const stopWithin = 10 * time.Second

// wait asks whether the process is ready until it is.
func (p *process) wait(ctx context.Context, ready func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.done:
			return fmt.Errorf("%s did not start: %s (its log is %s)", p.name, p.lastLine(), p.log)
		case <-ctx.Done():
			return fmt.Errorf("%s was not ready: %w; its log ends with: %s", p.name, context.Cause(ctx), p.lastLine())
		case <-tick.C:
			if ready(ctx) {
				return nil
			}
		}
	}
}

// Done is closed when the process has ended.
func (p *process) Done() <-chan struct{} { return p.done }

// Err returns why the process ended without Stop.
func (p *process) Err() error { return fmt.Errorf("%s ended; its log is %s", p.name, p.log) }

// Stop interrupts the process and waits until it has ended.
func (p *process) Stop() error {
	_ = p.cmd.Process.Signal(os.Interrupt) // it may have ended already
	select {
	case <-p.done:
		return nil
	case <-time.After(stopWithin):
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("%s did not stop within %v and was killed", p.name, stopWithin)
	}
}

// lastLine returns the last line of the log that is not empty.
func (p *process) lastLine() string {
	f, err := os.Open(p.log)
	if err != nil {
		return "no log"
	}
	defer f.Close()
	last := "no output"
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadString('\n')
		if l := strings.TrimSpace(line); l != "" {
			last = l
		}
		if err != nil {
			return last
		}
	}
}
