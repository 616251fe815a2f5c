package cli

import (
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	kubernetes "k8s.io/component-base/version"

	"gnnsched/internal/choice"
	"gnnsched/internal/exit"
)

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
