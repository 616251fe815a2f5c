package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"gnnsched/internal/exit"
)

// envReport is set in processes that Start starts. Its value is the file descriptor for reports to the
// parent process.
const envReport = "GNNSCHED_REPORT_FD"

// report is a line from a process that starts in the background. One of its fields is set.
type report struct {
	Progress string          `json:"progress,omitempty"`
	Ready    json.RawMessage `json:"ready,omitempty"`
	Failed   *failure        `json:"failed,omitempty"`
}

type failure struct {
	Code  int    `json:"code"`
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
}

// Parent is the process that waits until this one is ready. Write errors are ignored: the parent may
// have ended.
type Parent struct{ w io.WriteCloser }

// ParentFromEnv returns the parent if Start started this process, else nil. It must be called before the
// process starts others, and once.
func ParentFromEnv() (*Parent, error) {
	v := os.Getenv(envReport)
	if v == "" {
		return nil, nil
	}
	if err := os.Unsetenv(envReport); err != nil {
		return nil, err
	}
	fd, err := strconv.Atoi(v)
	if err != nil || fd < 3 {
		return nil, exit.Usagef("the environment variable %s is %q, not a file descriptor; it is for internal use, do not set it", envReport, v)
	}
	syscall.CloseOnExec(fd)
	return &Parent{os.NewFile(uintptr(fd), "report")}, nil
}

func (p *Parent) send(m report) {
	b, err := json.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("a report of strings and numbers does not marshal: %v", err)) // cannot happen
	}
	_, _ = p.w.Write(append(b, '\n'))
}

// Progress reports a step of the start.
func (p *Parent) Progress(step string) { p.send(report{Progress: step}) }

// Ready sends the last report: the process is ready. The parent shows message, encoded as JSON, to the user.
func (p *Parent) Ready(message any) error {
	b, err := json.Marshal(message)
	if err != nil {
		return err
	}
	p.send(report{Ready: b})
	return p.w.Close()
}

// Failed sends the last report if the start failed. It does nothing for a nil parent or error, or after
// Ready.
func (p *Parent) Failed(err error) {
	if p == nil || err == nil {
		return
	}
	f := &failure{Code: exit.Code(err), Error: err.Error()}
	var e *exit.Error
	if errors.As(err, &e) {
		f.Hint = e.Hint
	}
	p.send(report{Failed: f})
	_ = p.w.Close()
}
