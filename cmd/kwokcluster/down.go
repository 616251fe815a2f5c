package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/kwok"
)

func downCommand() *ucli.Command {
	return &ucli.Command{
		Name: "down", Usage: "stop the cluster; its data is kept unless --purge is given",
		Description: "If the cluster is not running, that is not an error.\n\nExamples:\n   " +
			"kwokcluster down\n   kwokcluster down --purge --dir ./experiment",
		Flags: []ucli.Flag{
			dirFlag(),
			&ucli.BoolFlag{Name: "purge", Usage: "delete the data too, but no files that kwokcluster did not make"},
			&ucli.DurationFlag{Name: "timeout", Value: 10 * time.Second, Usage: "kill the cluster after this `TIME`"},
		},
		Before: noArguments,
		Action: down,
	}
}

func down(c *ucli.Context) error {
	if c.Duration("timeout") <= 0 {
		return exit.Usagef("--timeout %v must be over 0", c.Duration("timeout"))
	}
	say := func(format string, a ...any) {
		fmt.Fprintf(c.App.ErrWriter, component+": "+format+"\n", a...)
	}
	d := dir(c)
	begin := time.Now()
	ran, err := kwok.Terminate(c.Context, d, c.Duration("timeout"))
	switch {
	case err != nil:
		return err
	case ran:
		say("stopped after %.1f s", time.Since(begin).Seconds())
	default:
		say("no cluster is running in %s", d)
	}
	if !c.Bool("purge") {
		return nil
	}
	_, err = os.Stat(d)
	there := err == nil
	left, err := kwok.Purge(d)
	switch {
	case err != nil:
		return err
	case len(left) > 0:
		say("deleted the cluster's data in %s; kept files that kwokcluster did not make: %s", d, strings.Join(left, ", "))
	case there:
		say("deleted %s", d)
	}
	return nil
}
