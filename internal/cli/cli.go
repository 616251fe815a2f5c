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
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"
	kubernetes "k8s.io/component-base/version"

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

// helpAll is the flag that shows everything; --help of a command with many flags shows only the most important ones.
const helpAll = "help-all"

// maxFlags is the number of flags that --help shows. A command with more flags shows only the flags outside of its groups.
const maxFlags = 16

// More separates the part of a command's description that --help-all shows only. The text after it begins with a heading and a colon.
const More = "\f"

// Group is a heading in --help with the names of its flags, separated by spaces. The first name stands for the group.
type Group struct{ Heading, Flags string }

// Grouped returns flags under headings, in the order of the groups. The flags without a heading come first: the most important ones.
// Grouped panics if a group names an unknown flag.
func Grouped(flags []cli.Flag, groups ...Group) []cli.Flag {
	rest := slices.Clone(flags)
	var grouped []cli.Flag
	for _, g := range groups {
		for _, name := range strings.Fields(g.Flags) {
			i := slices.IndexFunc(rest, func(f cli.Flag) bool { return f.Names()[0] == name })
			if i < 0 {
				panic("cli: no flag --" + name + " for the group " + g.Heading)
			}
			reflect.ValueOf(rest[i]).Elem().FieldByName("Category").SetString(g.Heading)
			grouped = append(grouped, rest[i])
			rest = slices.Delete(rest, i, i+1)
		}
	}
	first := slices.IndexFunc(rest, func(f cli.Flag) bool { return heading(f) != "" })
	if first < 0 {
		first = len(rest)
	}
	return slices.Concat(rest[:first], grouped, rest[first:])
}

// heading returns the heading of a flag in --help, "" for none.
func heading(f cli.Flag) string {
	if c, ok := f.(cli.CategorizableFlag); ok {
		return c.GetCategory()
	}
	return ""
}

// shortHelp lets --help of the application and its commands show what people need first, unless the arguments ask for all. It returns
// the arguments with --help in place of --help-all.
func shortHelp(app *cli.App, args []string) []string {
	all := false
	args = slices.Clone(args)
	for i, a := range args {
		if a == "--" {
			break
		}
		if a == "--"+helpAll {
			args[i], all = "--help", true
		}
	}
	shorten := func(flags []cli.Flag, description *string, template *string, full string) {
		first, more, _ := strings.Cut(*description, More)
		if all || len(VisibleFlags(flags)) <= maxFlags {
			*description = first + more
			return
		}
		*description = strings.TrimRight(first, "\n")
		*template = strings.Replace(full, `{{template "visibleFlagCategoryTemplate" .}}`,
			`{{range .VisibleFlagCategories}}{{if not .Name}}{{range .Flags}}
   {{.}}{{end}}{{end}}{{end}}`+"\n\nMORE, WITH --help-all:\n"+hidden(flags, more), 1)
	}
	shorten(app.Flags, &app.Description, &app.CustomAppHelpTemplate, cli.AppHelpTemplate)
	for _, c := range app.Commands {
		full := cli.CommandHelpTemplate
		if len(c.Subcommands) > 0 {
			full = cli.SubcommandHelpTemplate
		}
		shorten(c.Flags, &c.Description, &c.CustomHelpTemplate, full)
		for _, s := range c.Subcommands {
			shorten(s.Flags, &s.Description, &s.CustomHelpTemplate, cli.CommandHelpTemplate)
		}
	}
	return args
}

// hidden describes the omissions of --help, with a line for each group of flags and one for the rest of the description.
func hidden(flags []cli.Flag, more string) string {
	var lines [][2]string
	for _, g := range Groups(flags) {
		if g.Heading == "" {
			continue
		}
		names := strings.Fields(g.Flags)
		text := "--" + names[0]
		if len(names) > 1 {
			text += fmt.Sprintf(" and %d more", len(names)-1)
		}
		lines = append(lines, [2]string{g.Heading, text})
	}
	if heading, _, ok := strings.Cut(strings.TrimSpace(more), ":"); ok {
		lines = append(lines, [2]string{strings.ToLower(heading), "a list of all"})
	}
	width := 0
	for _, l := range lines {
		width = max(width, len(l[0]))
	}
	var out strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&out, "   %-*s   %s\n", width, l[0], l[1])
	}
	return strings.TrimRight(out.String(), "\n")
}

// Names returns the names of flags as a Group has them.
func Names(flags []cli.Flag) string {
	return strings.Join(choice.Names(flags, func(f cli.Flag) string { return f.Names()[0] }), " ")
}

// VisibleFlags returns the flags that help shows.
func VisibleFlags(flags []cli.Flag) (out []cli.Flag) {
	for _, f := range flags {
		if v, ok := f.(cli.VisibleFlag); (!ok || v.IsVisible()) && f.Names()[0] != "help" {
			out = append(out, f)
		}
	}
	return out
}

// Groups returns the groups of the visible flags in the order of their first flags. The flags without a heading come first.
func Groups(flags []cli.Flag) []Group {
	out := []Group{{}}
	for _, f := range VisibleFlags(flags) {
		i := slices.IndexFunc(out, func(g Group) bool { return g.Heading == heading(f) })
		if i < 0 {
			i = len(out)
			out = append(out, Group{Heading: heading(f)})
		}
		out[i].Flags = strings.TrimSpace(out[i].Flags + " " + f.Names()[0])
	}
	return out
}

// Manual returns the hidden command man, which prints the manual page of a program and its commands.
func Manual() *cli.Command {
	return &cli.Command{
		Name: "man", Usage: "print the manual page of this program and its commands, in roff", Hidden: true,
		Action: FlagsOnly(func(c *cli.Context) error {
			text, err := documented(c.App).ToMan()
			if err != nil {
				return fmt.Errorf("the manual page of %s: %w", c.App.Name, err)
			}
			_, err = fmt.Fprint(c.App.Writer, text)
			return err
		}),
	}
}

// Reference returns the page of docs/reference with the flags of a program and its commands.
func Reference(program *cli.App) (string, error) {
	text, err := documented(program).ToMarkdown()
	if err != nil {
		return "", fmt.Errorf("the flags of %s: %w", program.Name, err)
	}
	from := strings.Index(text, "\n# GLOBAL OPTIONS")
	if from < 0 {
		from = strings.Index(text, "\n# COMMANDS")
	}
	flags := strings.TrimSpace(strings.ReplaceAll(text[max(from, 0):], "\n#", "\n##"))
	return fmt.Sprintf("# Flags of %s\n\n`make docs` writes this page from the commands. [Flags](flags.md) says what all share.\n\n"+
		"<!-- generated: flags -->\n\n%s\n\n<!-- end -->\n", program.Name, flags), nil
}

// documented returns a program whose description is Markdown with the exit codes, without the help command that every program has.
func documented(program *cli.App) *cli.App {
	p := *program
	p.Commands = slices.DeleteFunc(slices.Clone(p.Commands), func(c *cli.Command) bool { return c.Name == "help" })
	p.Description = strings.NewReplacer(More, "", "\n   ", "\n       ").Replace(p.Description) + "\n\n# EXIT STATUS\n"
	for _, m := range exit.Meanings() {
		p.Description += fmt.Sprintf("\n**%d**: %s\n", m.Code, m.Text)
	}
	return &p
}

// Versions adds the version of Kubernetes that a program is built with to the program's own.
func Versions(own string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "k8s.io/kubernetes" {
				return own + ", Kubernetes " + m.Version
			}
		}
	}
	return own + ", Kubernetes " + kubernetes.Get().GitVersion // as the linker set it
}
