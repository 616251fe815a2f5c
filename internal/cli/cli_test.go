package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
)

func TestDashFlags(t *testing.T) {
	got := dashFlags([]string{"runsim", "--cpu_load", "0.2", "--scheduler_name=my_name", "-n", "a_b", "file_name", "--", "--left_alone"})
	want := []string{"runsim", "--cpu-load", "0.2", "--scheduler-name=my_name", "-n", "a_b", "file_name", "--", "--left_alone"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestRunContextCodes(t *testing.T) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		args []string
		act  func(*cli.Context) error
		want int
	}{
		{"ok", context.Background(), []string{"p"}, func(*cli.Context) error { return nil }, exit.OK},
		{"unknown flag", context.Background(), []string{"p", "--nope"}, func(*cli.Context) error { return nil }, exit.Usage},
		{"bad value", context.Background(), []string{"p", "--n=x"}, func(*cli.Context) error { return nil }, exit.Usage},
		{"failure", context.Background(), []string{"p"}, func(*cli.Context) error { return errors.New("no") }, exit.Internal},
		{"interrupted", cancelled, []string{"p"}, func(c *cli.Context) error { return c.Context.Err() }, exit.Interrupted},
	} {
		var stderr bytes.Buffer
		app := &cli.App{Name: "p", Flags: []cli.Flag{&cli.IntFlag{Name: "n"}}, Action: c.act, Writer: &bytes.Buffer{}, ErrWriter: &stderr}
		if got := RunContext(c.ctx, app, c.args); got != c.want {
			t.Errorf("%s: code %d, want %d; stderr %q", c.name, got, c.want, stderr.String())
		}
		if (stderr.Len() == 0) != (c.want == exit.OK) {
			t.Errorf("%s: stderr %q", c.name, stderr.String())
		}
	}
}

// The hint about a wrong flag names the help of the command without the flag.
func TestUsageErrorNamesTheCommand(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"p", "--nope"}, "see `p --help`"},
		{[]string{"p", "eval", "--nope"}, "see `p eval --help`"},
		{[]string{"p", "eval", "openb", "--nope"}, "see `p eval openb --help`"},
	} {
		var stderr bytes.Buffer
		app := &cli.App{Name: "p", Writer: &bytes.Buffer{}, ErrWriter: &stderr, Commands: []*cli.Command{
			{Name: "eval", Subcommands: []*cli.Command{{Name: "openb"}}},
		}}
		if got := RunContext(context.Background(), app, c.args); got != exit.Usage || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%v: code %d, stderr %q lacks %q", c.args, got, stderr.String(), c.want)
		}
	}
}

// For a misspelt flag or command, the answer suggests the probable one, at every level. For others, it shows the help only.
func TestSuggestions(t *testing.T) {
	flags := []cli.Flag{&cli.StringFlag{Name: "policies", Aliases: []string{"policy", "p"}}, &cli.IntFlag{Name: "seeds"}}
	app := func() *cli.App {
		return &cli.App{Name: "p", Flags: flags, Writer: &bytes.Buffer{}, Commands: []*cli.Command{
			{Name: "eval", Flags: flags, Subcommands: []*cli.Command{{Name: "openb", Flags: flags}}},
		}}
	}
	for _, c := range []struct{ args, want string }{
		{"--polcy x", "did you mean --policy? see `p --help`"},
		{"--polices=x", "did you mean --policies? see `p --help`"},
		{"eval --sedes 3", "did you mean --seeds? see `p eval --help`"},
		{"eval openb --polcy x", "did you mean --policy? see `p eval openb --help`"},
		{"eval openb --halp", "did you mean --help? see `p eval openb --help`"},
		{"eval openb --nope", "hint: see `p eval openb --help`"},
		{"-x", "hint: see `p --help`"},
	} {
		a, stderr := app(), &bytes.Buffer{}
		a.ErrWriter = stderr
		if got := RunContext(context.Background(), a, append([]string{"p"}, strings.Fields(c.args)...)); got != exit.Usage ||
			!strings.Contains(stderr.String(), c.want) {
			t.Errorf("%s: code %d, stderr %q lacks %q", c.args, got, stderr.String(), c.want)
		}
	}
	var typo, other *exit.Error
	if err := UnknownCommand("p", "evla", app().Commands); !errors.As(err, &typo) || typo.Code != exit.Usage ||
		!strings.Contains(typo.Hint, "did you mean `p eval`?") {
		t.Errorf("evla: %+v", typo)
	}
	if err := UnknownCommand("p", "deploy", app().Commands); !errors.As(err, &other) || other.Hint != "see `p --help`" {
		t.Errorf("deploy: %+v", other)
	}
}

// A command that is interrupted and then fails reports its own error: "interrupted" alone would hide it.
func TestInterruptionHidesNoError(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		err  error
		code int
		want string
	}{
		{ctx.Err(), exit.Interrupted, "p: error: interrupted\n"},
		{fmt.Errorf("wait for pods: %w", ctx.Err()), exit.Interrupted, "p: error: interrupted\n"},
		{errors.Join(ctx.Err(), errors.New("disk full")), exit.Interrupted, "p: error: context canceled\ndisk full\n"},
		{errors.New("disk full"), exit.Interrupted, "p: error: disk full\n"},
		{exit.New(exit.Unreachable, errors.New("gone"), ""), exit.Unreachable, "p: error: gone\n"},
	} {
		var stderr bytes.Buffer
		app := &cli.App{Name: "p", Action: func(*cli.Context) error { return c.err }, Writer: &bytes.Buffer{}, ErrWriter: &stderr}
		if code := RunContext(ctx, app, []string{"p"}); code != c.code || stderr.String() != c.want {
			t.Errorf("%v: code %d, %q; want %d, %q", c.err, code, stderr.String(), c.code, c.want)
		}
	}
}

// MakeDir says once that it made a directory, and names the flag when it cannot.
func TestMakeDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	var said bytes.Buffer
	for range 2 {
		fatal.If(t, MakeDir(&said, dir, "--events", 0o755))
	}
	if want := "made the directory " + dir + "; choose another with --events\n"; said.String() != want {
		t.Errorf("it said %q, want %q", said.String(), want)
	}
	file := filepath.Join(dir, "file")
	fatal.If(t, os.WriteFile(file, nil, 0o600))
	said.Reset()
	var refused *exit.Error
	if err := MakeDir(&said, filepath.Join(file, "c"), "--events", 0o755); !errors.As(err, &refused) || refused.Code != exit.Usage ||
		!strings.Contains(refused.Hint, "--events") || said.Len() > 0 {
		t.Errorf("below a file: %v, %q", err, said.String())
	}
}

// Flags may stand before and after a command's arguments.
func TestFlagsMayFollowArguments(t *testing.T) {
	for line, want := range map[string]string{
		"p do file":                        "file",
		"p do --name x file":               "file name=x",
		"p do file --name x":               "file name=x",
		"p do file --name=x other":         "file other name=x",
		"p do file -n x --quick other":     "file other name=x quick",
		"p do file --quick -":              "file - quick",
		"p do --quick -- file --name x":    "file --name x quick",
		"p do file -- --name x":            "file --name x",
		"p do one --name -1 two":           "one two name=-1",
		"p group do file --quick --name x": "file name=x quick",
	} {
		var got string
		do := &cli.Command{
			Name: "do", Flags: []cli.Flag{&cli.StringFlag{Name: "name", Aliases: []string{"n"}}, &cli.BoolFlag{Name: "quick"}},
			Action: func(c *cli.Context) error {
				got = strings.Join(c.Args().Slice(), " ")
				if c.IsSet("name") {
					got += " name=" + c.String("name")
				}
				if c.Bool("quick") {
					got += " quick"
				}
				return nil
			},
		}
		app := &cli.App{Name: "p", Commands: []*cli.Command{do, {Name: "group", Subcommands: []*cli.Command{do}}}, ErrWriter: &strings.Builder{}}
		if code := RunContext(context.Background(), app, strings.Fields(line)); code != exit.OK {
			t.Errorf("%s: code %d, %s", line, code, app.ErrWriter)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", line, d)
		}
	}
}

// An unknown flag behind an argument is an error, and completion sees the original line.
func TestFlagsFirstLeavesTheRest(t *testing.T) {
	app := &cli.App{Name: "p", Flags: []cli.Flag{&cli.StringFlag{Name: "name"}}, ErrWriter: &strings.Builder{}}
	if code := RunContext(context.Background(), app, []string{"p", "file", "--nmae", "x"}); code != exit.Usage {
		t.Errorf("code %d", code)
	}
	typed := []string{"p", "file", "--na", "--generate-bash-completion"}
	if d := cmp.Diff(typed, flagsFirst(app, typed)); d != "" {
		t.Error(d)
	}
}
