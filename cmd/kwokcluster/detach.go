package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	ucli "github.com/urfave/cli/v2"
	"gnnsched/internal/exit"
	"gnnsched/kwok"
)

// detach starts the cluster in the background and waits until it is ready or has failed.
func detach(c *ucli.Context, args []string) error {
	if err := kwok.MakeDir(dir(c)); err != nil {
		return err
	}
	if s, err := kwok.Inspect(c.Context, dir(c)); err == nil && s.Phase == kwok.Ready { // what follows says that it runs already
		exportKubeconfig(c, s.Kubeconfig)
	}
	out, err := openOutput(c)
	if err != nil {
		return err
	}
	defer out.Close() //nolint:errcheck // the background process has its own
	err = Start(c.Context, Command{
		Args: args[1:], Output: out,
		Progress: func(step string) { fmt.Fprintf(c.App.ErrWriter, "%s: %s\n", component, step) },
		Ready: func(message []byte) error {
			var m readyMessage
			if err := json.Unmarshal(message, &m); err != nil {
				return err
			}
			m.print(c, "`"+downLine(c)+"` stops it")
			return nil
		},
	})
	if errors.Is(err, ErrEnded) {
		return exit.New(exit.Internal, err, "see "+logPath(c, outputFile)+" and its log, "+logPath(c, component+".log"))
	}
	return err
}

// outputFile receives a background cluster's output besides its log, such as a panic.
const outputFile = component + ".err"

// openOutput opens the file for the output of a background process and empties it.
func openOutput(c *ucli.Context) (*os.File, error) {
	f, err := os.OpenFile(logPath(c, outputFile), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("open the file for the cluster's output: %w", err), "choose another directory with --log-dir")
	}
	return f, nil
}

// downLine is the command that stops the cluster.
func downLine(c *ucli.Context) string {
	if d := c.String("dir"); d != "" {
		return "kwokcluster down --dir " + exit.ShellLine(d)
	}
	return "kwokcluster down"
}
