package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"gnnsched/internal/exit"
)

// Command is a start of the running program in the background.
type Command struct {
	Args     []string                   // without the program's name
	Output   *os.File                   // for stdout and stderr
	Progress func(step string)          // called for each step of the start
	Ready    func(message []byte) error // called with the message of Parent.Ready
}

// ErrEnded is the error of Start if the process ended before it was ready and gave no reason.
var ErrEnded = errors.New("the process ended during its start")

// Start starts the process in a new session and waits until it is ready. If the start fails, the error has
// the exit code and hint of the process. When ctx ends before that, Start ends the process.
func Start(ctx context.Context, c Command) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	defer r.Close() //nolint:errcheck // only read
	child := exec.Command(self, c.Args...)
	child.Stdout, child.Stderr = c.Output, c.Output
	child.ExtraFiles = []*os.File{w}
	child.Env = append(os.Environ(), envReport+"="+strconv.Itoa(3)) // the number of the first extra file
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = child.Start()
	_ = w.Close()
	if err != nil {
		return fmt.Errorf("start %s in the background: %w", self, err)
	}
	result := make(chan error, 1)
	go func() { result <- c.follow(r) }()
	select {
	case err := <-result:
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%w: %v", ErrEnded, child.Wait())
		}
		if err != nil {
			_ = child.Wait() // it ends soon; err has its error
		}
		return err
	case <-ctx.Done():
		_ = child.Process.Signal(syscall.SIGTERM)
		_ = child.Wait()
		return ctx.Err()
	}
}

// follow passes the reports on until the process is ready or has failed. It returns
// io.ErrUnexpectedEOF if the reports end before that.
func (c Command) follow(r io.Reader) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var m report
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("read the report of the process in the background: %w", err)
		}
		switch {
		case m.Failed != nil:
			return exit.New(m.Failed.Code, errors.New(m.Failed.Error), m.Failed.Hint)
		case m.Ready != nil:
			return c.Ready(m.Ready)
		default:
			c.Progress(m.Progress)
		}
	}
	return io.ErrUnexpectedEOF
}
