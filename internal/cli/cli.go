// Package cli holds what all command lines of the project share: the flags for clusters and logging,
// the spelling of flags, and running an application until it ends or is interrupted.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"gnnsched/internal/choice"
	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
	"gnnsched/internal/logging"
)

// ClusterFlags returns the flags --kubeconfig and --context, which work as in kubectl.
func ClusterFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "kubeconfig", Usage: "kubeconfig `FILE`; default: $KUBECONFIG, else the simulated cluster's, else ~/.kube/config"},
		&cli.StringFlag{Name: "context", Usage: "`NAME` of the context in the kubeconfig; default: its current one"},
	}
}

// Target returns the cluster that the flags of ClusterFlags name. If it comes from ~/.kube/config only because no simulated cluster is
// there, Target reports it on standard error.
func Target(c *cli.Context) kubeconfig.Target {
	t := kubeconfig.Target{Kubeconfig: c.String("kubeconfig"), Context: c.String("context")}
	if name := t.Fallback(); name != "" {
		fmt.Fprintf(c.App.ErrWriter, "%s: no simulated cluster in %s; using context %s of ~/.kube/config\n",
			c.App.Name, kubeconfig.SimulatedDir(), name)
	}
	return t
}

// FlagsOnly returns an action that refuses arguments beside the flags.
func FlagsOnly(run cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.NArg() > 0 {
			return exit.Usagef("unexpected argument %q", c.Args().First())
		}
		return run(c)
	}
}

// logs is the heading of the flags of logging in --help.
const logs = "logs"

// LogFlags returns the flags --log-dir and --log-level.
func LogFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "log-dir", Category: logs, Value: logDir(),
			DefaultText: "~/.local/state/gnnsched, or gnnsched in $XDG_STATE_HOME", Usage: "`DIR`ectory of the log file; empty for none"},
		&cli.StringFlag{Name: "log-level", Category: logs, Value: "info", Usage: "`LEVEL`: debug, info, warn or error"},
	}
}

// logDir is the one place of logs by default, wherever a command is started.
func logDir() string {
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			home = os.TempDir()
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "gnnsched")
}

// Log sets up logging as the flags of LogFlags say. If the default directory cannot be written, it warns
// and logs to the screen only. With quiet, nothing is logged to the screen,
// because the command draws on it. The caller closes the io.Closer at the end.
func Log(c *cli.Context, component string, quiet bool) (zerolog.Logger, io.Closer, error) {
	return logging.Setup(logging.Config{
		Component: component, Dir: c.String("log-dir"), Level: c.String("log-level"), Quiet: quiet,
		Optional: !c.IsSet("log-dir"), // a container's root may be read-only
		NoColor:  os.Getenv("NO_COLOR") != "" || !IsTerminal(os.Stderr),
	})
}

// IsTerminal reports whether f is a terminal, such as os.Stdout or what logging.Writer makes of it.
func IsTerminal(f interface{ Fd() uintptr }) bool { return term.IsTerminal(int(f.Fd())) }

// dashFlags replaces underscores by dashes in the names of long flags (--cpu_load), so that command
// lines written for similar tools work. It leaves values alone.
func dashFlags(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		if a == "--" {
			copy(out[i:], args[i:])
			break
		}
		out[i] = a
		if strings.HasPrefix(a, "--") {
			name, _, _ := strings.Cut(a, "=")
			out[i] = strings.ReplaceAll(name, "_", "-") + a[len(name):]
		}
	}
	return out
}

// Run runs app with args (args[0] is the program), reports its error on the app's ErrWriter and
// returns the exit code. The first SIGINT or SIGTERM cancels the app's context, the second one kills
// the process.
func Run(app *cli.App, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // restores the default effect for the second signal
	return RunContext(ctx, app, args)
}

// RunContext is Run with a context that the caller cancels, in place of the signals.
func RunContext(ctx context.Context, app *cli.App, args []string) int {
	app.ExitErrHandler = func(*cli.Context, error) {} // exit.Code below decides
	app.OnUsageError = usageError
	for _, sub := range app.Commands {
		sub.OnUsageError = usageError
		for _, s := range sub.Subcommands {
			s.OnUsageError = usageError
		}
	}
	out := &output{file: os.Stdout}
	if app.Writer == nil {
		app.Writer = logging.Writer(out)
	}
	if app.ErrWriter == nil {
		app.ErrWriter = logging.Writer(os.Stderr)
	}
	err := app.RunContext(ctx, flagsFirst(app, shortHelp(app, dashFlags(args))))
	if topic, unknown := noTopic(err); unknown {
		err = UnknownCommand(app.Name, topic, app.Commands)
	}
	err = kubeconfig.Refused(out.after(err))
	if err != nil && ctx.Err() != nil {
		err = interrupted(err)
	}
	exit.Report(app.ErrWriter, app.Name, err)
	return exit.Code(err)
}

// noTopic returns the unknown command that help was asked for, if err is urfave/cli's error for that.
func noTopic(err error) (topic string, unknown bool) {
	if err == nil {
		return "", false
	}
	topic, unknown = strings.CutPrefix(err.Error(), "No help topic for '")
	return strings.TrimSuffix(topic, "'"), unknown
}

// interrupted gives the error of an interrupted command its exit code. It replaces a bare cancellation error by "interrupted".
func interrupted(err error) error {
	if e := (*exit.Error)(nil); errors.As(err, &e) {
		return err
	}
	if errors.Is(err, context.Canceled) && (err == context.Canceled || !joined(err)) { //nolint:errorlint // only the unwrapped error
		err = errors.New("interrupted")
	}
	return exit.New(exit.Interrupted, err, "")
}

// joined reports whether err joins several errors, and so is more than the cancellation.
func joined(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if m, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // walking the chain
			return len(m.Unwrap()) > 1
		}
	}
	return false
}

var unknownFlag = regexp.MustCompile(`^flag provided but not defined: -+(.+)$`)

// usageError returns the error for wrong flags of a command. Its hint names the command's help and, if a
// flag looks like a misspelt one, that flag.
func usageError(c *cli.Context, err error, _ bool) error {
	name, flags := c.App.HelpName, c.App.Flags
	if c.Command != nil && c.Command.HelpName != "" {
		name, flags = c.Command.HelpName, c.Command.Flags
	}
	hint := "see `" + strings.TrimSpace(name) + " --help`"
	if wrong := unknownFlag.FindStringSubmatch(err.Error()); wrong != nil {
		if right := choice.Closest(wrong[1], flagNames(flags)); right != "" {
			hint = "did you mean --" + right + "? " + hint
		}
	}
	return exit.New(exit.Usage, err, hint)
}

// flagNames returns the long names of flags, "help" and "help-all".
func flagNames(flags []cli.Flag) []string {
	names := []string{"help", helpAll}
	for _, f := range flags {
		for _, n := range f.Names() {
			if len(n) > 1 {
				names = append(names, n)
			}
		}
	}
	return names
}

// UnknownCommand returns the error for an unknown command. path is the text typed before it. If a known command is similar, the hint names
// it.
func UnknownCommand(path, name string, known []*cli.Command) error {
	var names []string
	for _, c := range known {
		names = append(names, c.Names()...)
	}
	hint := "see `" + path + " --help`"
	if right := choice.Closest(name, names); right != "" {
		hint = "did you mean `" + path + " " + right + "`? " + hint
	}
	return exit.New(exit.Usage, fmt.Errorf("there is no command %q", name), hint)
}

// flagsFirst returns args with the named command's flags moved before its other arguments, so that `gnnsched compare prod.record --profile
// acgnn` works as in kubectl. Go's flag package stops at the first argument that is no flag. Arguments after "--" stay behind it.
func flagsFirst(app *cli.App, args []string) []string {
	if len(args) == 0 || args[len(args)-1] == "--generate-bash-completion" {
		return args // the word to complete is the last but one
	}
	flags, commands, start := app.Flags, app.Commands, 1
	for start < len(args) {
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(args[start]) })
		if i < 0 {
			break
		}
		flags, commands = commands[i].Flags, commands[i].Subcommands
		start++
	}
	if len(commands) > 0 {
		return args // a subcommand may follow, whose flags are others
	}
	first, others := slices.Clone(args[:start]), []string(nil)
	for i := start; i < len(args); i++ {
		switch a := args[i]; {
		case a == "--":
			return append(append(append(first, "--"), others...), args[i+1:]...)
		case len(a) < 2 || a[0] != '-':
			others = append(others, a)
		default:
			first = append(first, a)
			if takesNext(flags, a) && i+1 < len(args) {
				i++
				first = append(first, args[i])
			}
		}
	}
	return append(first, others...)
}

// takesNext reports whether the flag in arg, such as --name or -n, has its value in the next argument.
func takesNext(flags []cli.Flag, arg string) bool {
	name := strings.TrimLeft(arg, "-")
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			v, ok := f.(cli.DocGenerationFlag)
			return ok && v.TakesValue()
		}
	}
	return false
}
