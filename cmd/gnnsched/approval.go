package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/workload/cleanup"
)

// approval asks a person before a command changes a cluster that is not simulated.
type approval struct {
	host        string // of the API server, for the question
	look        string // how to see what would be done, such as "with --dry-run"
	yes         bool   // approved in advance
	interactive bool   // stdin is a terminal, so that a person can answer
	in          io.Reader
	question    io.Writer
}

// yesFlag is the flag --yes, which approvalFor reads.
func yesFlag() ucli.Flag {
	return &ucli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask, even on a cluster that is not simulated"}
}

func approvalFor(c *ucli.Context) approval {
	return approval{look: "with --dry-run", yes: c.Bool("yes"),
		interactive: cli.IsTerminal(os.Stdin), in: c.App.Reader, question: c.App.ErrWriter}
}

// ask returns nil if the nodes are simulated or the user approves. intent is a question such as "Remove 3 pods from it?". The error has the
// exit code exit.Declined if the user refuses, and exit.Usage if there is no terminal to ask on. The caller must not have changed anything
// before.
func (a approval) ask(nodes cleanup.NodeCounts, intent string) error {
	if nodes.Simulated() || a.yes {
		return nil
	}
	reason := fmt.Sprintf("the cluster at %s is not simulated: %d of its %d nodes are real", a.host, nodes.Real, nodes.Total)
	if nodes.Total == 0 {
		reason = fmt.Sprintf("the cluster at %s has no nodes, so it may be a real one", a.host)
	}
	if !a.interactive {
		return exit.New(exit.Usage, errors.New(reason+"; stdin is not a terminal, so nobody can confirm"),
			"look "+a.look+", then confirm with --yes")
	}
	fmt.Fprintf(a.question, "%s.\n%s [y/N] ", strings.ToUpper(reason[:1])+reason[1:], intent)
	answer, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return exit.New(exit.Declined, errors.New("not confirmed: nothing was changed"),
		"only y or yes confirms; the command "+a.look+" shows what would be done")
}
