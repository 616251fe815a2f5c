package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
)

// A command fails if its output is lost, even if it ignores the error: on a full disk, and with standard output closed (Go's runtime then
// opens /dev/null in both directions).
func TestLostOutput(t *testing.T) {
	for path, want := range map[string]struct {
		flags int
		code  int
		say   string
	}{
		"/dev/full":                          {os.O_WRONLY, exit.Internal, "no space left on device"},
		"/dev/null":                          {os.O_RDWR, exit.Internal, "standard output is closed"},
		filepath.Join(t.TempDir(), "a file"): {os.O_RDWR | os.O_CREATE, exit.OK, ""},
	} {
		f, err := os.OpenFile(path, want.flags, 0o600)
		if err != nil {
			t.Skip(err)
		}
		out := &output{file: f}
		fmt.Fprintln(out, "a table") // as a command that ignores the error
		fmt.Fprintln(out, "and more")
		err = out.after(nil)
		if exit.Code(err) != want.code || want.say != "" && !strings.Contains(fmt.Sprint(err), want.say) {
			t.Errorf("%s: %v, want code %d, %q", path, err, want.code, want.say)
		}
		if again := out.after(err); want.code != exit.OK && strings.Count(again.Error(), want.say) != 1 {
			t.Errorf("%s: an error that the command returned is told again: %v", path, again)
		}
		fatal.If(t, f.Close())
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	fatal.If(t, err)
	defer null.Close()
	if closed(null) {
		t.Error(">/dev/null counts as closed")
	}
}

// TestMain runs a program in place of the tests where TestClosedOutput asks for it.
func TestMain(m *testing.M) {
	if os.Getenv("GNNSCHED_TEST_PROGRAM") == "" {
		os.Exit(m.Run())
	}
	app := &cli.App{Name: "program", Version: "1", Commands: []*cli.Command{{Name: "say", Action: func(c *cli.Context) error {
		fmt.Fprintln(c.App.Writer, "a table")
		return nil
	}}}}
	os.Exit(Run(app, os.Args))
}

// A process whose output is lost ends with 1, for any output and in each locale; a process that prints to /dev/null does not.
func TestClosedOutput(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	for to, want := range map[string]int{">&-": exit.Internal, ">/dev/full": exit.Internal, ">/dev/null": exit.OK} {
		for _, argument := range []string{"say", "--help", "--version"} {
			for _, locale := range []string{"C", "C.UTF-8"} {
				c := exec.Command(sh, "-c", `exec "$0" "$1" `+to, os.Args[0], argument)
				c.Env = append(os.Environ(), "GNNSCHED_TEST_PROGRAM=1", "LC_ALL="+locale)
				said, _ := c.CombinedOutput()
				if code := c.ProcessState.ExitCode(); code != want {
					t.Errorf("%s %s in the locale %s: code %d, want %d: %s", argument, to, locale, code, want, said)
				}
			}
		}
	}
}

// Help for an unknown command is a usage error.
func TestHelpOfNothing(t *testing.T) {
	app := &cli.App{Name: "program", Writer: io.Discard, ErrWriter: io.Discard, Commands: []*cli.Command{{Name: "say"}}}
	if code := Run(app, []string{"program", "help", "sya"}); code != exit.Usage {
		t.Errorf("code %d, want %d", code, exit.Usage)
	}
}
