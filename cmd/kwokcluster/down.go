package main

import (
	"fmt"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/kwok"
)

func downCommand() *ucli.Command {
	return &ucli.Command{
		Name: "down", Usage: "stop the cluster; its data is kept unless --purge is given",
		Description: "It is no error if the cluster is not running.\n\nEXAMPLES:\n   " +
			"kwokcluster down\n   kwokcluster down --purge --dir /tmp/experiment",
		Flags: []ucli.Flag{
			dirFlag(),
			&ucli.BoolFlag{Name: "purge", Usage: "delete the data too; only what kwokcluster made is deleted"},
			&ucli.DurationFlag{Name: "timeout", Value: 10 * time.Second, Usage: "`TIME` after which it is killed"},
		},
		Before: noArguments,
		Action: down,
	}
}

func down(c *ucli.Context) error {
	if c.Duration("timeout") <= 0 {
		return exit.Usagef("--timeout %v is not a time to wait", c.Duration("timeout"))
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
		say("no cluster runs in %s", d)
	}
	if !c.Bool("purge") {
		return nil
	}
	left, err := kwok.Purge(d)
	switch {
	case err != nil:
		return err
	case len(left) > 0:
		say("deleted the cluster's data in %s and kept what kwokcluster did not make: %s", d, strings.Join(left, ", "))
	default:
		say("deleted %s", d)
	}
	return nil
}
