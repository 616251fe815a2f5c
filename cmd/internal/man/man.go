// Package man makes manual pages of the help of commands.
package man

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
)

// section is the manual section for system administration commands.
const section = 8

// Command returns the hidden command man of a program, which writes a page for the program and one for each of its
// commands into a folder.
func Command(program, version string, commands func() []*ucli.Command) *ucli.Command {
	example := program + " man ~/.local/share/man/man8"
	return &ucli.Command{
		Name:        "man",
		Usage:       "write manual pages of this program and its commands, made from their help",
		ArgsUsage:   "DIR",
		Description: "Examples:\n   " + example + " && man " + program,
		Hidden:      true,
		Flags:       []ucli.Flag{&ucli.StringFlag{Name: markdownFlag, Usage: "write the flags into their part of this Markdown `FILE` instead"}},
		Action: func(c *ucli.Context) error {
			if c.IsSet(markdownFlag) {
				return writeReference(c.App, commands(), c.String(markdownFlag))
			}
			if c.NArg() != 1 {
				return exit.New(exit.Usage, fmt.Errorf("%d arguments, want a directory", c.NArg()), "for example "+example)
			}
			return write(c.App, commands(), version, c.Args().First())
		},
	}
}

// linked are the commands that have a link of their name.
var linked = []string{"rungnn", "rundqn", "runacgnn", "runacdqn", "runsim", "cleancluster", "ktop"}

// write writes the pages. The directory is made if it is missing.
func write(program *ucli.App, commands []*ucli.Command, version, dir string) error {
	pages := map[string]*ucli.App{program.Name: overview(program, commands, version)}
	for _, c := range commands {
		if c.Hidden {
			continue
		}
		name := program.Name + " " + c.Name
		if slices.Contains(linked, c.Name) {
			name = c.Name
		}
		usage := cmp.Or(c.UsageText, strings.TrimSpace(name+" [options] "+c.ArgsUsage))
		name = strings.ReplaceAll(name, " ", "-")
		pages[name] = &ucli.App{
			Name: name, Usage: c.Usage, UsageText: usage,
			Description: c.Description, Flags: c.Flags, Commands: c.Subcommands, Version: version,
		}
	}
	err := os.MkdirAll(dir, 0o755)
	for name, p := range pages {
		text, failed := page(p)
		if failed != nil {
			return failed
		}
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s.%d", name, section)), []byte(text), 0o644))
	}
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("write the manual pages: %w", err), "choose a directory that you can write to")
	}
	return nil
}

// overview returns the content of a program's page: its behaviour without a command, and its commands.
func overview(program *ucli.App, commands []*ucli.Command, version string) *ucli.App {
	out := &ucli.App{Name: program.Name, Usage: program.Usage, UsageText: program.Name + " COMMAND [options]", Version: version}
	var text strings.Builder
	if program.Description != "" {
		text.WriteString(program.Description + "\n\n")
	}
	for _, f := range program.Flags {
		if name := f.Names()[0]; name != "help" && name != "version" && name != "generate-bash-completion" { // every program has these flags
			out.Flags = append(out.Flags, f)
			out.UsageText = program.Name + " [options]\n" + program.Name + " COMMAND [options]"
		}
	}
	text.WriteString("The commands, each with a page of its own:\n")
	for _, c := range commands {
		if !c.Hidden {
			fmt.Fprintf(&text, "   %-14s %s\n", c.Name, c.Usage)
		}
	}
	out.Description = text.String()
	return out
}

// page returns the manual page of a program in roff.
func page(program *ucli.App) (string, error) {
	p := *program
	p.Description = markdown(p.Description)
	p.Usage = escaper.Replace(p.Usage)
	p.HideHelpCommand = true
	p.Setup() // adds --help and --version
	text, err := p.ToManWithSection(section)
	if err != nil {
		return "", fmt.Errorf("the manual page of %s: %w", p.Name, err)
	}
	return strings.TrimRight(text, "\n") + "\n" + exitStatus(), nil
}

// exitStatus returns the section about exit codes, which all programs share.
func exitStatus() string {
	var out strings.Builder
	out.WriteString("\n.SH EXIT STATUS\n")
	for _, m := range exit.Meanings() {
		fmt.Fprintf(&out, ".TP\n\\fB%d\\fP\n%s\n", m.Code, m.Text)
	}
	return out.String()
}

// markdown converts a help text to Markdown: its indented lines stay as they are, and stars and underscores are escaped.
func markdown(help string) string {
	help = strings.ReplaceAll(help, cli.More, "")
	var out bytes.Buffer
	code := false
	for line := range strings.Lines(help) {
		indented := strings.HasPrefix(line, "   ")
		if indented != code && !strings.HasSuffix(out.String(), "\n\n") {
			out.WriteByte('\n')
		}
		code = indented
		if indented {
			line = "    " + strings.TrimPrefix(line, "   ")
		} else {
			line = escaper.Replace(line)
		}
		out.WriteString(line)
	}
	return out.String()
}

var escaper = strings.NewReplacer("*", `\*`, "_", `\_`, "<", `\<`)
