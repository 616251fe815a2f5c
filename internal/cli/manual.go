package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
)

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
