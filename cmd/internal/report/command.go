package report

import (
	"errors"
	"fmt"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	"gnnsched/internal/quote"
	"gnnsched/internal/runfolder"
)

// Command returns the command.
func Command() *ucli.Command {
	return &ucli.Command{
		Name:      "report",
		Usage:     "make one HTML page of the folders of runs",
		ArgsUsage: "DIR|FILE...",
		Description: "The page works offline: verdict, differences, distributions, the cluster over time, waiting by class, decisions,\n" +
			"learning curves, and the commands that do it again. gnnsched eval --out DIR, gnnsched compare\n" +
			"--out DIR, runsim --out DIR and gnntrain leave such folders. A FILE holds the decisions of a scheduler (--decision-log).\n" +
			"docs/how-to/evaluate.md says which runs leave folders. A page has at most 3 MB; it says what was thinned out.\n\n" +
			"Examples:\n" +
			"   gnnsched eval --scenario mixed --out run && gnnsched report --out report.html run\n" +
			"   gnnsched report --out both.html run logs/gnn           # an evaluation and a training run\n" +
			"   gnnsched report load decisions.jsonl                   # what runsim --out load saw, and what the scheduler decided\n" +
			"   gnnsched report --title 'Monday' --out - run >monday.html",
		Flags: []ucli.Flag{
			&ucli.StringFlag{Name: "out", Value: "report.html", Usage: "write to `FILE`; - is standard output"},
			&ucli.StringFlag{Name: "title", Usage: "`TITLE` of the page; default: the first run's"},
		},
		Action: act,
	}
}

func act(c *ucli.Context) error {
	dirs, to, err := arguments(c)
	if err != nil {
		return err
	}
	var runs []*runfolder.Run
	for _, dir := range dirs {
		r, err := read(dir)
		if err != nil {
			return err
		}
		runs = append(runs, r)
		if why := incomplete(r); why != "" {
			fmt.Fprintf(c.App.ErrWriter, "%s: %s\n", dir, why)
		}
		if err := c.Context.Err(); err != nil {
			return err
		}
	}
	command := []string{"gnnsched", "report", "--out", to}
	if title := c.String("title"); title != "" {
		command = append(command, "--title", title)
	}
	text, err := render(config{title: c.String("title"), version: c.App.Version, command: quote.Shell(append(command, dirs...)...)}, runs)
	if err != nil {
		return err
	}
	if to == "-" {
		_, err = c.App.Writer.Write(text)
		return err
	}
	if err := files.Write(to, text, 0o644); err != nil {
		return exit.New(exit.Usage, fmt.Errorf("write the report: %w", err), "choose a file that you can write to with --out")
	}
	fmt.Fprintf(c.App.ErrWriter, "wrote %s, %s kB; open it in a browser\n", to, number(float64(len(text))/1000, 0))
	return nil
}

// arguments returns the folders and the file.
func arguments(c *ucli.Context) (dirs []string, to string, err error) {
	dirs, to = c.Args().Slice(), c.String("out")
	switch {
	case len(dirs) == 0:
		return nil, "", exit.New(exit.Usage, errors.New("name the folder of a run"), "gnnsched eval --out DIR leaves one")
	case to == "":
		return nil, "", exit.Usagef("--out is empty; name a file, or - for standard output")
	}
	return dirs, to, nil
}
