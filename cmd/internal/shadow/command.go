package shadow

import (
	"fmt"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	"gnnsched/scheduler/serve"
	"gnnsched/scheduler/shadow"
)

// roleName is the name of the printed role.
const roleName = "gnnsched-shadow"

// Command returns `gnnsched shadow`.
func Command() *ucli.Command {
	return &ucli.Command{
		Name:      "shadow",
		Usage:     "read the report of a scheduler that watched another one with --shadow",
		ArgsUsage: "[REPORT]",
		Description: "`rungnn --shadow --shadow-report REPORT` writes the report. This command says what follows from it: safe to switch, not\n" +
			"yet, or not worth it, and why.\n\n" +
			"Examples:\n" +
			"   rungnn --shadow --shadow-report shadow.json          # watch, beside the default scheduler; Ctrl-C ends it\n" +
			"   gnnsched shadow shadow.json                          # what was found so far\n" +
			"   gnnsched shadow --gate shadow.json                   # exit code 99 unless it is safe to switch\n" +
			"   gnnsched shadow -o json shadow.json | jq .gain\n" +
			"   gnnsched shadow --print-rbac | kubectl apply -f -    # the rights that rungnn --shadow needs: it only reads",
		Flags: []ucli.Flag{
			&ucli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "`FORMAT`: text or json"},
			&ucli.BoolFlag{Name: "gate", Usage: "end with exit code 99 unless it is safe to switch"},
			&ucli.BoolFlag{Name: "print-rbac", Usage: "print the ServiceAccount and the ClusterRole with the rights to watch, and exit"},
			&ucli.StringFlag{Name: "namespace", Aliases: []string{"n"}, Value: "kube-system",
				Usage: "`NAMESPACE` of the ServiceAccount, for --print-rbac"},
		},
		Action: read,
	}
}

func read(c *ucli.Context) error {
	if c.Bool("print-rbac") {
		return cli.Written(c)(serve.Role{Name: roleName, Namespace: c.String("namespace"), Delegates: true}.RBAC())
	}
	if c.NArg() != 1 {
		return exit.New(exit.Usage, fmt.Errorf("there are %d arguments, want the file of a report", c.NArg()),
			"rungnn --shadow --shadow-report FILE writes it")
	}
	path := c.Args().First()
	text, err := files.Read(path, files.Text)
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("read the report: %w", err),
			"rungnn --shadow --shadow-report FILE writes it every minute, and at its end")
	}
	r, err := shadow.Parse(text)
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("%s: %w", path, err), "rungnn --shadow --shadow-report FILE writes a report")
	}
	switch c.String("output") {
	case "text":
		err = r.WriteText(c.App.Writer)
	case "json":
		err = cli.JSON(c.App.Writer, r)
	default:
		return exit.Usagef("--output %q: choose text or json", c.String("output"))
	}
	if err == nil && c.Bool("gate") && r.Verdict.Answer != shadow.Safe {
		return exit.New(exit.Gate, fmt.Errorf("the verdict is %q", r.Verdict.Answer), "")
	}
	return err
}
