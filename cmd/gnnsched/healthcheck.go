package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
)

func healthcheckCommand() *ucli.Command {
	return &ucli.Command{
		Name:  "healthcheck",
		Usage: "ask a running scheduler whether it schedules; exit 0 if so, 3 if not",
		Description: "For health checks of containers, which have no other program to ask with. The scheduler's certificate is\n" +
			"its own and is not verified: nothing secret is sent.\n\n" +
			"Examples:\n" +
			"   gnnsched healthcheck                                           # ready: caches filled, scheduling\n" +
			"   gnnsched healthcheck --url https://127.0.0.1:10259/healthz     # alive",
		Flags: []ucli.Flag{
			&ucli.StringFlag{Name: "url", Value: "https://127.0.0.1:10259/readyz", Usage: "`URL` that answers 200 if all is well"},
			&ucli.DurationFlag{Name: "timeout", Value: 5 * time.Second, Usage: "`TIME` to wait for the answer"},
		},
		Action: func(c *ucli.Context) error {
			if c.NArg() > 0 {
				return exit.Usagef("unexpected argument %q", c.Args().First())
			}
			u, err := url.Parse(c.String("url"))
			if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
				return exit.Usagef("--url %q is not an http or https URL", c.String("url"))
			}
			return healthy(c.Context, u, c.Duration("timeout"), c.App.Writer)
		},
	}
}

// healthy writes the answer to out, and returns an error with exit code 3 unless it is 200.
func healthy(ctx context.Context, u *url.URL, timeout time.Duration, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return exit.New(exit.Usage, err, "")
	}
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	response, err := client.Do(request)
	if err != nil {
		return exit.New(exit.Unreachable, fmt.Errorf("no scheduler answers: %w", err), "is it running, with this port? see rungnn --port")
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return exit.New(exit.Unreachable, fmt.Errorf("read the scheduler's answer: %w", err), "")
	}
	if response.StatusCode != http.StatusOK {
		return exit.New(exit.Unreachable, fmt.Errorf("the scheduler says %s: %s", response.Status, strings.TrimSpace(string(body))), "its log says why")
	}
	fmt.Fprintln(out, strings.TrimSpace(string(body)))
	return nil
}
