package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/kwok"
)

// envReport is set in processes that `up --detach` starts. Its value is the file descriptor for
// reports to the parent process.
const envReport = "KWOKCLUSTER_REPORT_FD"

// report is a line from a cluster that starts in the background. One of its fields is set.
type report struct {
	Progress string        `json:"progress,omitempty"`
	Ready    *readyMessage `json:"ready,omitempty"`
	Failed   *failure      `json:"failed,omitempty"`
}

type failure struct {
	Code  int    `json:"code"`
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
}

// detach starts this program again as a background process in a new session, and waits until the
// cluster is ready or has failed.
func detach(c *ucli.Context, args []string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if err := kwok.MakeDir(dir(c)); err != nil {
		return err
	}
	out, err := openOutput(c)
	if err != nil {
		return err
	}
	defer out.Close() //nolint:errcheck // the child has its own
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	defer r.Close() //nolint:errcheck // only read
	child := exec.Command(self, args[1:]...)
	child.Stdout, child.Stderr = out, out
	child.ExtraFiles = []*os.File{w}
	child.Env = append(os.Environ(), envReport+"="+strconv.Itoa(3)) // the number of the first extra file
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = child.Start()
	_ = w.Close()
	if err != nil {
		return fmt.Errorf("start %s in the background: %w", self, err)
	}
	result := make(chan error, 1)
	go func() { result <- follow(c, r) }()
	select {
	case err := <-result:
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return exit.New(exit.Internal, fmt.Errorf("the cluster ended during its start: %v", child.Wait()), "see "+logPath(c, outputFile)+" and its log, "+logPath(c, component+".log"))
		}
		if err != nil {
			_ = child.Wait() // it ends soon; err has its error
		}
		return err
	case <-c.Context.Done():
		_ = child.Process.Signal(syscall.SIGTERM)
		_ = child.Wait()
		return c.Context.Err()
	}
}

// outputFile receives what a cluster in the background writes besides its log, such as a panic.
const outputFile = component + ".err"

// openOutput opens the file for the output of a background process and empties it.
func openOutput(c *ucli.Context) (*os.File, error) {
	path := logPath(c, outputFile)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("make the log directory: %w", err), "choose another directory with --log-dir")
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("open the file for the cluster's output: %w", err), "choose another directory with --log-dir")
	}
	return f, nil
}

// downLine is the command that stops the cluster.
func downLine(c *ucli.Context) string {
	if d := c.String("dir"); d != "" {
		return "kwokcluster down --dir " + shellQuote(d)
	}
	return "kwokcluster down"
}

// follow prints the reports of a cluster in the background until it is ready or has failed. It
// returns io.ErrUnexpectedEOF if the reports end before that.
func follow(c *ucli.Context, r io.Reader) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var m report
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("read the report of the cluster in the background: %w", err)
		}
		switch {
		case m.Failed != nil:
			return exit.New(m.Failed.Code, errors.New(m.Failed.Error), m.Failed.Hint)
		case m.Ready != nil:
			m.Ready.print(c, "`"+downLine(c)+"` stops it")
			return nil
		default:
			fmt.Fprintf(c.App.ErrWriter, "%s: %s\n", component, m.Progress)
		}
	}
	return io.ErrUnexpectedEOF
}

// reporter sends the progress of the start to the parent process. It ignores write errors: the
// parent may have ended.
type reporter struct{ w io.WriteCloser }

// reporterFromEnv returns the reporter if detach started this process, else nil.
func reporterFromEnv() (*reporter, error) {
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
	return &reporter{os.NewFile(uintptr(fd), "report")}, nil
}

func (r *reporter) send(m report) {
	b, err := json.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("a report of strings and numbers does not marshal: %v", err)) // cannot happen
	}
	_, _ = r.w.Write(append(b, '\n'))
}

func (r *reporter) progress(step string) { r.send(report{Progress: step}) }

// ready sends the last report: the cluster is ready.
func (r *reporter) ready(m readyMessage) {
	r.send(report{Ready: &m})
	_ = r.w.Close()
}

// failed sends the last report if the start failed. It does nothing for a nil reporter or error,
// or after ready.
func (r *reporter) failed(err error) {
	if r == nil || err == nil {
		return
	}
	f := &failure{Code: exit.Code(err), Error: err.Error()}
	var e *exit.Error
	if errors.As(err, &e) {
		f.Hint = e.Hint
	}
	r.send(report{Failed: f})
	_ = r.w.Close()
}
