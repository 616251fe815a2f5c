package man

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/choice"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
)

// markdownFlag names the page that gets the flags.
const markdownFlag = "markdown"

// writeReference writes the flags of a program into its part of a Markdown page.
func writeReference(program *ucli.App, commands []*ucli.Command, file string) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return exit.New(exit.Usage, err, "docs/reference/flags.md is such a page")
	}
	fresh, err := reference(page, program, commands)
	if err == nil {
		err = os.WriteFile(file, fresh, 0o644)
	}
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("--%s: %w", markdownFlag, err), "")
	}
	return nil
}

// reference returns a Markdown page with a new part about a program's flags. The part is between the comments `<!-- generated: flags
// PROGRAM -->` and `<!-- end -->`.
func reference(page []byte, program *ucli.App, commands []*ucli.Command) ([]byte, error) {
	begin := fmt.Appendf(nil, "<!-- generated: flags %s -->\n", program.Name)
	head, rest, found := bytes.Cut(page, begin)
	_, tail, closed := bytes.Cut(rest, []byte("<!-- end -->"))
	if !found || !closed {
		return nil, fmt.Errorf("the page has no part %q with an end", strings.TrimSpace(string(begin)))
	}
	var out strings.Builder
	all := blocks(program, commands)
	for i, s := range all {
		s.write(&out, all[:i])
	}
	return slices.Concat(head, begin, []byte("\n"+strings.TrimSpace(out.String())+"\n\n<!-- end -->"), tail), nil
}

// Check returns an error if a page's part about a program's flags is stale. It names the first line that differs.
func Check(file string, program *ucli.App, commands []*ucli.Command) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	fresh, err := reference(page, program, commands)
	if err != nil || bytes.Equal(page, fresh) {
		return err
	}
	is, want := strings.Split(string(page), "\n"), strings.Split(string(fresh), "\n")
	for i := range min(len(is), len(want)) {
		if is[i] != want[i] {
			return fmt.Errorf("%s:%d is stale (make docs renews it): %q, want %q", file, i+1, is[i], want[i])
		}
	}
	return fmt.Errorf("%s is stale (make docs renews it): it has %d lines, want %d", file, len(is), len(want))
}

// block is a command and its flags.
type block struct {
	name    string // as one types it
	program bool   // the program without a command
	usage   string
	args    string
	flags   []ucli.Flag
}

// blocks returns the program, if it has flags of its own, and its visible commands and subcommands.
func blocks(program *ucli.App, commands []*ucli.Command) (out []block) {
	if own := overview(program, nil, "").Flags; len(own) > 0 {
		out = append(out, block{name: program.Name, program: true, usage: program.Usage, flags: own})
	}
	var add func(prefix string, list []*ucli.Command)
	add = func(prefix string, list []*ucli.Command) {
		for _, c := range list {
			if c.Hidden || c.Name == "help" {
				continue
			}
			name := prefix + c.Name
			if slices.Contains(linked, c.Name) {
				name = c.Name
			}
			out = append(out, block{name: name, usage: c.Usage, args: c.ArgsUsage, flags: cli.VisibleFlags(c.Flags)})
			add(name+" ", c.Subcommands)
		}
	}
	add(program.Name+" ", commands)
	return out
}

// write writes a section, given the sections before it. A section with nearly the flags of an earlier one shows only the difference.
func (s block) write(w *strings.Builder, before []block) {
	if !s.program {
		fmt.Fprintf(w, "### %s\n\n", s.name)
	}
	fmt.Fprintf(w, "%s.\n", strings.ToUpper(s.usage[:1])+s.usage[1:])
	if s.args != "" {
		fmt.Fprintf(w, "Arguments: `%s`.\n", s.args)
	}
	w.WriteByte('\n')
	mine := s.rows()
	for _, b := range before {
		other := b.rows()
		lacks := without(choice.Names(other, row.title), choice.Names(mine, row.title))
		differ := without(mine, other)
		if 5*(len(lacks)+len(differ)) > len(mine) || len(mine) < 20 {
			continue
		}
		fmt.Fprintf(w, "It has the flags of [%s](#%s)", b.name, strings.ReplaceAll(b.name, " ", "-"))
		if len(lacks) > 0 {
			fmt.Fprintf(w, " without `%s`", strings.Join(lacks, "`, `"))
		}
		w.WriteString(", and these:\n\n")
		table(w, differ)
		return
	}
	for _, g := range cli.Groups(s.flags) {
		if g.Flags == "" {
			continue
		}
		if g.Heading != "" {
			fmt.Fprintf(w, "*%s*\n\n", g.Heading)
		}
		var rows []row
		for _, name := range strings.Fields(g.Flags) {
			rows = append(rows, mine[slices.IndexFunc(mine, func(r row) bool { return r.name == "--"+name })])
		}
		table(w, rows)
	}
}

// row is a flag as a table shows it.
type row struct{ name, flag, value, text string }

func (r row) title() string { return r.name }

func (s block) rows() (out []row) {
	for _, f := range s.flags {
		doc, ok := f.(ucli.DocGenerationFlag)
		if !ok {
			continue
		}
		r := row{name: "--" + f.Names()[0], value: strings.Trim(doc.GetDefaultText(), `"`), text: strings.ReplaceAll(doc.GetUsage(), "|", `\|`)}
		if b, ok := f.(*ucli.BoolFlag); ok && (!b.Value && b.DefaultText == "" || b.DisableDefaultText) {
			r.value = ""
		}
		for i, name := range f.Names() {
			if i > 0 {
				r.flag += ", "
			}
			if len(name) > 1 {
				r.flag += "-"
			}
			r.flag += "-" + name
		}
		if _, rest, quoted := strings.Cut(doc.GetUsage(), "`"); quoted && doc.TakesValue() {
			value, _, _ := strings.Cut(rest, "`")
			r.flag += " " + strings.ReplaceAll(value, "|", `\|`)
		}
		out = append(out, r)
	}
	return out
}

func table(w *strings.Builder, rows []row) {
	w.WriteString("| flag | default | |\n|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(w, "| `%s` | %s | %s |\n", r.flag, r.value, r.text)
	}
	w.WriteByte('\n')
}

// without returns the elements of a that b has not.
func without[T comparable](a, b []T) []T {
	return slices.DeleteFunc(slices.Clone(a), func(x T) bool { return slices.Contains(b, x) })
}
