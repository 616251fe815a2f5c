package soak

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a child process that is started again whenever it ends.
type process struct {
	name string
	// command returns the command for the next start.
	command func() *exec.Cmd
	output  string        // file for its output
	pause   time.Duration // before it is started again

	mu   sync.Mutex
	cmd  *exec.Cmd
	told bool // the soak ended the running process
}

// stopWithin is the time in which a process must end after a signal, before it is killed.
const stopWithin = 15 * time.Second

// run keeps the process running until ctx ends, and then stops it. onEnd gets the state of a process that ended although the soak did not
// end it.
func (p *process) run(ctx context.Context, onEnd func(*os.ProcessState)) error {
	for ctx.Err() == nil {
		cmd, done, err := p.start()
		if err != nil {
			return err
		}
		select {
		case <-done:
		case <-ctx.Done():
			p.end(syscall.SIGTERM)
			select {
			case <-done:
			case <-time.After(stopWithin):
				p.end(syscall.SIGKILL)
				<-done
			}
			return nil
		}
		p.mu.Lock()
		told := p.told
		p.cmd = nil
		p.mu.Unlock()
		if !told {
			onEnd(cmd.ProcessState)
		}
		pause(ctx, p.pause)
	}
	return nil
}

// start starts the process in a process group of its own, so that Ctrl-C on the terminal does not reach
// it. done is closed when it has ended.
func (p *process) start() (*exec.Cmd, <-chan struct{}, error) {
	out, err := os.OpenFile(p.output, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("write the output of %s: %w", p.name, err)
	}
	defer out.Close() // the process has its own handle
	cmd := p.command()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	p.mu.Lock()
	p.cmd, p.told = cmd, false
	p.mu.Unlock()
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the state tells the exit status
		close(done)
	}()
	return cmd, done, nil
}

// end sends a signal to the process and reports whether it ran.
func (p *process) end(s syscall.Signal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return false
	}
	p.told = true
	return p.cmd.Process.Signal(s) == nil
}

// pid returns the process ID, or 0 if the process does not run.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// lastLine returns the last line of the output that is not empty.
func (p *process) lastLine() string {
	b, err := os.ReadFile(p.output)
	if err != nil {
		return "no output"
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}

// childOf returns the ID of a child process of parent whose program has the given name, or 0.
func childOf(parent int, program string) int {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || parent == 0 {
		return 0
	}
	for _, stat := range stats {
		b, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state parent …; see proc_pid_stat(5)
		head, rest, _ := strings.Cut(string(b), ") ")
		pid, name, _ := strings.Cut(head, " (")
		fields := strings.Fields(rest)
		if name == program && len(fields) > 1 && fields[1] == strconv.Itoa(parent) && fields[0] != "Z" {
			n, _ := strconv.Atoi(pid)
			return n
		}
	}
	return 0
}
