package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
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

// A command with many flags shows the most important ones, and names the groups of the others.
func TestHelpShowsWhatPeopleNeedFirst(t *testing.T) {
	app := func() *cli.App {
		flags := []cli.Flag{&cli.StringFlag{Name: "first", Usage: "what people need"}}
		var names []string
		for i := range maxFlags {
			names = append(names, fmt.Sprintf("rare-%d", i))
			flags = append(flags, &cli.BoolFlag{Name: names[i], Usage: "what few need"})
		}
		few := []cli.Flag{&cli.BoolFlag{Name: "few", Usage: "one of few"}}
		return &cli.App{Name: "p", Commands: []*cli.Command{
			{Name: "many", Flags: Grouped(flags, Group{"rare things", strings.Join(names, " ")}),
				Description: "It runs.\n" + More + "Policies:\n   fgd"},
			{Name: "few", Flags: Grouped(few, Group{"few things", "few"}), Description: "It walks.\n" + More + "Gaits:\n   trot"},
		}}
	}
	for _, c := range []struct {
		args        string
		has, hasNot []string
	}{
		{"many --help", []string{"--first", "It runs.", "MORE, WITH --help-all:", "rare things   --rare-0 and 15 more",
			"policies      a list of all"}, []string{"what few need", "fgd"}},
		{"many --help-all", []string{"--first", "what few need", "rare things\n", "Policies:\n   fgd"}, []string{"WITH --help-all"}},
		{"few --help", []string{"one of few", "It walks.", "trot"}, []string{"WITH --help-all"}},
		{"few --help_all", []string{"one of few", "trot"}, nil},
	} {
		var out bytes.Buffer
		p := app()
		p.Writer = &out
		if code := RunContext(context.Background(), p, append([]string{"p"}, strings.Fields(c.args)...)); code != exit.OK {
			t.Errorf("%s: code %d", c.args, code)
		}
		for _, text := range c.has {
			if !strings.Contains(strings.ReplaceAll(out.String(), "\n      ", "\n   "), text) {
				t.Errorf("%s lacks %q:\n%s", c.args, text, out.String())
			}
		}
		for _, text := range c.hasNot {
			if strings.Contains(out.String(), text) {
				t.Errorf("%s has %q:\n%s", c.args, text, out.String())
			}
		}
	}
}

// The page of a program has its flags, its commands with theirs, and the exit codes.
func TestManual(t *testing.T) {
	var out bytes.Buffer
	program := &cli.App{
		Name: "weigh", Usage: "weigh things", Description: "It weighs.\n\nExamples:\n   weigh --kind heavy",
		Writer: &out, Flags: []cli.Flag{&cli.StringFlag{Name: "kind", Value: "light", Usage: "`KIND` of things"}},
		Commands: []*cli.Command{
			{Name: "all", Usage: "weigh all", Flags: []cli.Flag{&cli.BoolFlag{Name: "fast", Usage: "weigh fast"}}},
			{Name: "secret", Hidden: true}, Manual(),
		},
	}
	if code := RunContext(context.Background(), program, []string{"weigh", "man"}); code != exit.OK {
		t.Fatalf("code %d: %s", code, out.String())
	}
	fatal.Golden(t, "weigh.8", out.String())
	page := fatal.Value(Reference(program))(t)
	fatal.Golden(t, "weigh.md", page)
}

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
	for flags, want := range map[int]bool{os.O_WRONLY: false, os.O_RDONLY: true, os.O_RDWR: true} {
		null := fatal.Value(os.OpenFile(os.DevNull, flags, 0))(t)
		if closed(null) != want {
			t.Errorf("/dev/null opened with %d counts as closed: %v", flags, !want)
		}
		fatal.If(t, null.Close())
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

// On a terminal, progress is one line that does not wrap. A new phase is a log line.
func TestBar(t *testing.T) {
	var screen, lines bytes.Buffer
	v := NewBar(&screen, true, zerolog.New(&lines))
	for range 3 {
		v.Show(0.5, "a", strings.Repeat("long ", 100))
	}
	v.Show(1, "b", "short")
	v.Close()
	for drawn := range strings.SplitSeq(screen.String(), "\r") {
		if len([]rune(drawn)) > 100 { // 80 columns and the codes that draw over the line
			t.Errorf("too wide: %q", drawn)
		}
	}
	if strings.Contains(screen.String(), "\n") || strings.Count(lines.String(), "\n") != 2 {
		t.Errorf("screen %q, lines %q", screen.String(), lines.String())
	}
}

// The time left follows from the time that the done share took, and is not said too early.
func TestLeft(t *testing.T) {
	at := time.Unix(0, 0)
	l := TimeLeft{now: func() time.Time { return at }}
	for _, c := range []struct {
		after time.Duration // since the last step
		done  float64
		want  string
	}{
		{0, 0, ""}, {time.Second, 0.5, ""}, // too early
		{9 * time.Second, 0.5, ", about 10 s left"}, {90 * time.Second, 0.5, ", about 2 min left"}, {5 * time.Hour, 0.75, ", about 1.7 h left"},
		{time.Second, 1, ""},
	} {
		at = at.Add(c.after)
		if got := l.After(c.done); got != c.want {
			t.Errorf("%v later at %v: %q, want %q", c.after, c.done, got, c.want)
		}
	}
}
