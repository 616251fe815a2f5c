package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
)

// roles are the behaviours of the test binary. Start passes the name of one as the argument.
var roles = map[string]func(*Parent){
	"ready": func(p *Parent) {
		p.Progress("one")
		p.Progress("two")
		if err := p.Ready(map[string]int{"pid": os.Getpid()}); err != nil {
			panic(err)
		}
		p.Failed(errors.New("later")) // no report any more
		waitForSignal()
	},
	"failed": func(p *Parent) {
		p.Failed(exit.New(exit.Unreachable, errors.New("no answer"), "try again"))
		os.Exit(exit.Unreachable)
	},
	"silent": func(*Parent) {
		fmt.Println("last words")
		os.Exit(7)
	},
	"waiting": func(p *Parent) {
		p.Progress("waiting")
		waitForSignal()
	},
}

func waitForSignal() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	select {
	case <-c:
	case <-time.After(time.Minute): // should the test be killed
	}
	os.Exit(0)
}

// playRole plays the role in the arguments of a process that Start began; otherwise it returns.
func playRole() {
	parent, err := ParentFromEnv()
	if err != nil {
		panic(err)
	}
	if parent != nil {
		roles[os.Args[1]](parent)
		os.Exit(0)
	}
}

// start starts a role and returns its reports, its output and the error.
func start(t *testing.T, ctx context.Context, role string, progress func(string)) (reports []string, output string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "output")
	f, err := os.Create(path)
	fatal.If(t, err)
	defer f.Close()
	err = Start(ctx, Command{
		Args: []string{role}, Output: f,
		Progress: func(step string) {
			reports = append(reports, step)
			progress(step)
		},
		Ready: func(message []byte) error {
			reports = append(reports, string(message))
			return nil
		},
	})
	b, readErr := os.ReadFile(path)
	if readErr != nil {
		t.Fatal(readErr)
	}
	return reports, string(b), err
}

// A process that is ready lives on after Start, in a session of its own.
func TestReady(t *testing.T) {
	reports, _, err := start(t, context.Background(), "ready", func(string) {})
	if err != nil || len(reports) != 3 || !slices.Equal(reports[:2], []string{"one", "two"}) {
		t.Fatalf("reports %q, error %v", reports, err)
	}
	var message struct{ PID int }
	fatal.If(t, json.Unmarshal([]byte(reports[2]), &message))
	group, err := syscall.Getpgid(message.PID)
	if err != nil || group != message.PID {
		t.Errorf("the process is in group %d: %v", group, err)
	}
	if err := syscall.Kill(message.PID, syscall.SIGTERM); err != nil {
		t.Errorf("the process has ended: %v", err)
	}
}

// An error of the start keeps its exit code and hint.
func TestFailed(t *testing.T) {
	_, _, err := start(t, context.Background(), "failed", func(string) {})
	var e *exit.Error
	if !errors.As(err, &e) || e.Code != exit.Unreachable || e.Error() != "no answer" || e.Hint != "try again" {
		t.Errorf("%#v", err)
	}
}

func TestEnded(t *testing.T) {
	_, output, err := start(t, context.Background(), "silent", func(string) {})
	if !errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), "exit status 7") || output != "last words\n" {
		t.Errorf("%v, output %q", err, output)
	}
}

// When the context ends, the process has ended too.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	if _, _, err := start(t, ctx, "waiting", func(string) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestFollow(t *testing.T) {
	for in, want := range map[string]string{
		"{\"progress\":\"a\"}\n{\"ready\":{\"n\":1}}\n{\"progress\":\"b\"}": `[a {"n":1}] <nil>`,
		`{"failed":{"code":2,"error":"port taken","hint":"another"}}`:       "[] port taken",
		`{"progress":"a"}`: "[a] unexpected EOF",
		"panic: no":        "[] read the report of the process in the background: invalid character 'p' looking for beginning of value",
	} {
		var got []string
		c := Command{
			Progress: func(step string) { got = append(got, step) },
			Ready:    func(b []byte) error { got = append(got, string(b)); return nil },
		}
		err := c.follow(strings.NewReader(in))
		if s := fmt.Sprintf("%v %v", got, err); s != want {
			t.Errorf("%q: %s, want %s", in, s, want)
		}
	}
}

func TestParentFromEnv(t *testing.T) {
	if p, err := ParentFromEnv(); p != nil || err != nil {
		t.Errorf("%v, %v", p, err)
	}
	for _, bad := range []string{"x", "2"} {
		t.Setenv(envReport, bad)
		if _, err := ParentFromEnv(); exit.Code(err) != exit.Usage {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
