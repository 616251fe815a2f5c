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
	ended chan struct{} // closed when it has ended
	err   error         // then: how it ended
}

// start starts the command; output gets each line that it prints.
func start(command []string, output func(string)) (*process, error) {
	p := &process{cmd: exec.Command(command[0], command[1:]...), ended: make(chan struct{})}
	lines := &lineWriter{write: output}
	p.cmd.Stdout, p.cmd.Stderr = lines, lines
	// In a group of its own: Ctrl-C is the scheduler's to act on, and the trainer's stream
	// then ends in good order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = time.Second // for whoever else holds its output open
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

// close ends the stream.
func (p *process) close() { _ = p.stdin.Close() } // all that fails is a second time

// kill ends the trainer and all that it has started.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // all that fails is a group that has ended
}

// lineWriter hands on whole lines.
type lineWriter struct {
	write func(string)
	rest  []byte
}

// longestLine is where a line that does not end is cut.
const longestLine = 4096

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
