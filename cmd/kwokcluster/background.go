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

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/kwok"
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

// detach starts the cluster in the background and waits until it is ready or has failed.
func detach(c *ucli.Context, args []string) error {
	if err := kwok.MakeDir(dir(c)); err != nil {
		return err
	}
	if s, err := kwok.Inspect(c.Context, dir(c)); err == nil && s.Phase == kwok.Ready { // what follows says that it runs already
		exportKubeconfig(c, s.Kubeconfig)
	}
	out, err := openOutput(c)
	if err != nil {
		return err
	}
	defer out.Close() //nolint:errcheck // the background process has its own
	err = Start(c.Context, Command{
		Args: args[1:], Output: out,
		Progress: func(step string) { fmt.Fprintf(c.App.ErrWriter, "%s: %s\n", component, step) },
		Ready: func(message []byte) error {
			var m readyMessage
			if err := json.Unmarshal(message, &m); err != nil {
				return err
			}
			m.print(c, "`"+downLine(c)+"` stops it")
			return nil
		},
	})
	if errors.Is(err, ErrEnded) {
		return exit.New(exit.Internal, err, "see "+logPath(c, outputFile)+" and its log, "+logPath(c, component+".log"))
	}
	return err
}

// outputFile receives a background cluster's output besides its log, such as a panic.
const outputFile = component + ".err"

// openOutput opens the file for the output of a background process and empties it.
func openOutput(c *ucli.Context) (*os.File, error) {
	f, err := os.OpenFile(logPath(c, outputFile), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("open the file for the cluster's output: %w", err), "choose another directory with --log-dir")
	}
	return f, nil
}

// downLine is the command that stops the cluster.
func downLine(c *ucli.Context) string {
	if d := c.String("dir"); d != "" {
		return "kwokcluster down --dir " + exit.ShellLine(d)
	}
	return "kwokcluster down"
}

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
