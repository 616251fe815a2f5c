package main

import (
	"net/url"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/server"
)

func healthcheckCommand() *ucli.Command {
	return &ucli.Command{
		Name:  "healthcheck",
		Usage: "ask a running scheduler whether it is ready; exit 0 if so, 3 if not",
		Description: "For health checks of containers that hold no other program. It sends nothing secret and does not verify\n" +
			"the scheduler's certificate, which is self-signed.\n\n" +
			"Examples:\n" +
			"   gnnsched healthcheck                                           # is it ready: caches filled, scheduling?\n" +
			"   gnnsched healthcheck --url https://127.0.0.1:10259/healthz     # is it alive?",
		Flags: []ucli.Flag{
			&ucli.StringFlag{Name: "url", Value: "https://127.0.0.1:10259/readyz", Usage: "`URL` that answers with status 200 if all is well"},
			&ucli.DurationFlag{Name: "timeout", Value: 5 * time.Second, Usage: "`TIME` to wait for the answer"},
		},
		Action: cli.FlagsOnly(func(c *ucli.Context) error {
			u, err := url.Parse(c.String("url"))
			if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
				return exit.Usagef("--url %q is not an http or https URL", c.String("url"))
			}
			return server.CheckHealth(c.Context, u, c.Duration("timeout"), c.App.Writer)
		}),
	}
}
