package experience

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// process is a running trainer.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{} // closed when the process has ended
	err   error         // how it ended; set before ended is closed
}

// start starts the command; output gets each line that it prints.
func start(command []string, output func(string)) (*process, error) {
	p := &process{cmd: exec.Command(command[0], command[1:]...), ended: make(chan struct{})}
	lines := &lineWriter{write: output}
	p.cmd.Stdout, p.cmd.Stderr = lines, lines
	// The trainer gets a process group of its own, so that Ctrl-C reaches the scheduler alone.
	// The scheduler then ends the stream in good order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = time.Second // a grandchild may still hold the output open
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the trainer: %w", err)
	}
	go func() {
		defer close(p.ended)
		if err := p.cmd.Wait(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
			p.err = fmt.Errorf("the trainer: %w", err)
		}
		lines.flush()
	}()
	return p, nil
}

// close ends the stream. It may be called more than once.
func (p *process) close() { _ = p.stdin.Close() } // the only possible error: it is closed already

// kill ends the trainer and every process that it started.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // the only possible error: the group has ended
}

// lineWriter splits its input into lines and passes on the lines that are not blank.
type lineWriter struct {
	write func(string)
	rest  []byte // the beginning of a line without its end
}

// longestLine is the length in bytes at which a line without an end is cut.
const longestLine = 4096

// Write implements io.Writer; it never fails.
func (l *lineWriter) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		i := bytes.IndexAny(l.rest, "\n\r")
		if i < 0 {
			break
		}
		l.line(l.rest[:i])
		l.rest = l.rest[i+1:]
	}
	if len(l.rest) > longestLine {
		l.flush()
	}
	return len(b), nil
}

func (l *lineWriter) flush() {
	l.line(l.rest)
	l.rest = nil
}

func (l *lineWriter) line(b []byte) {
	if b = bytes.TrimSpace(b); len(b) > 0 {
		l.write(string(b))
	}
}
