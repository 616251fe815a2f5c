// Package cli holds what every command line of the project shares: flag spelling, the
// flags that name a cluster and a log, and the way from an error to an exit code.
package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
	"gnnsched/internal/logging"
)

// ClusterFlags are --kubeconfig and --context, as in kubectl.
func ClusterFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "kubeconfig", Usage: "kubeconfig `FILE`; default: $KUBECONFIG, else the simulated cluster's, else ~/.kube/config"},
		&cli.StringFlag{Name: "context", Usage: "`NAME` of the context in the kubeconfig; default: its current one"},
	}
}

// Target reads the flags of ClusterFlags.
func Target(c *cli.Context) kubeconfig.Target {
	return kubeconfig.Target{Kubeconfig: c.String("kubeconfig"), Context: c.String("context")}
}

// LogFlags are --log-dir and --log-level.
func LogFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "log-dir", Value: "logs", Usage: "`DIR`ectory of the log file; empty for none"},
		&cli.StringFlag{Name: "log-level", Value: "info", Usage: "`LEVEL`: debug, info, warn or error"},
	}
}

// Log sets up logging for a command from the flags of LogFlags. quiet keeps it off the
// screen, for commands that draw on it.
func Log(c *cli.Context, component string, quiet bool) (zerolog.Logger, io.Closer, error) {
	return logging.Setup(logging.Config{
		Component: component, Dir: c.String("log-dir"), Level: c.String("log-level"), Quiet: quiet,
		NoColor: os.Getenv("NO_COLOR") != "" || !IsTerminal(os.Stderr),
	})
}

// IsTerminal tells whether f is a terminal that a person reads.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// DashFlags rewrites the underscore spelling of long flags (--cpu_load) to the dashed one,
// so that command lines written for similar tools work. Values are left alone.
func DashFlags(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		if a == "--" {
			copy(out[i:], args[i:])
			break
		}
		if strings.HasPrefix(a, "--") {
			name, value, eq := strings.Cut(a, "=")
			a = strings.ReplaceAll(name, "_", "-")
			if eq {
				a += "=" + value
			}
		}
		out[i] = a
	}
	return out
}

// Run runs app with args (args[0] is the program) until it ends or the first SIGINT or
// SIGTERM cancels its context; a second signal kills the process. It returns the exit code
// after reporting the error on the app's ErrWriter.
func Run(app *cli.App, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // so that the second signal has its default effect
	return RunContext(ctx, app, args)
}

// RunContext is Run without the signals.
func RunContext(ctx context.Context, app *cli.App, args []string) int {
	app.ExitErrHandler = func(*cli.Context, error) {} // codes are decided below, in one place
	app.OnUsageError = usageError
	for _, sub := range app.Commands {
		sub.OnUsageError = usageError
		for _, s := range sub.Subcommands {
			s.OnUsageError = usageError
		}
	}
	if app.ErrWriter == nil {
		app.ErrWriter = os.Stderr
	}
	err := app.RunContext(ctx, DashFlags(args))
	if err != nil && ctx.Err() != nil {
		err = interrupted(err)
	}
	exit.Report(app.ErrWriter, app.Name, err)
	return exit.Code(err)
}

// interrupted is the error of a command that was told to stop: the code for that, and the
// error's own words unless it only says that the context ended.
func interrupted(err error) error {
	if e := (*exit.Error)(nil); errors.As(err, &e) {
		return err
	}
	if errors.Is(err, context.Canceled) && (err == context.Canceled || !joined(err)) { //nolint:errorlint // the bare error
		err = errors.New("interrupted")
	}
	return exit.New(exit.Interrupted, err, "")
}

// joined tells whether err holds several errors, of which the cancellation is but one.
func joined(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if m, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // walking the chain
			return len(m.Unwrap()) > 1
		}
	}
	return false
}

func usageError(c *cli.Context, err error, _ bool) error {
	return exit.New(exit.Usage, err, "see `"+strings.TrimSpace(c.App.HelpName)+" --help`")
}
