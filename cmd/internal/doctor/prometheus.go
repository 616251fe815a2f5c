package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/promflags"
	"gnnsched/internal/exit"
	"gnnsched/internal/promapi"
	"gnnsched/workload/record/history"
)

// checkPrometheus refuses flags about Prometheus that do not fit the named commands.
func (x *examination) checkPrometheus(c *ucli.Context) error {
	const url = "prometheus"
	if !c.IsSet(url) {
		for _, f := range promflags.Flags("") {
			if name := f.Names()[0]; c.IsSet(name) {
				return exit.Usagef("--%s goes with --%s only", name, url)
			}
		}
		if slices.Contains(x.only, "convert") {
			return exit.New(exit.Usage, errors.New("convert needs something on another machine only with --prometheus"),
				"name the server with --prometheus URL")
		}
		return nil
	}
	if !x.asked("convert") {
		return exit.New(exit.Usage, errors.New("--prometheus is for convert, which is not among the commands"),
			"add convert, or leave out the flag")
	}
	if err := promflags.Server(c, "").Validate(); err != nil {
		return exit.New(exit.Usage, fmt.Errorf("--prometheus: %w", err), "")
	}
	return nil
}

// answerWithin is the time limit of Prometheus' answer.
const answerWithin = 20 * time.Second

// prometheus checks that a Prometheus server answers, and has the series that a record needs.
func (x *examination) prometheus(ctx context.Context, s promapi.Server) {
	f := finding{what: "convert Prometheus", detail: s.Address + " answers, and has " + fmt.Sprint(history.Needed()), code: exit.Unreachable}
	client, err := promapi.New(s)
	if err == nil {
		defer client.HTTP.CloseIdleConnections()
		err = has(ctx, client, history.Needed())
	}
	if err != nil {
		f = x.failure(f.what, promflags.Explain(fmt.Errorf("%s: %w", s.Address, err), ""))
	}
	x.add(f)
}

// has returns an error unless the server has all of some series now.
func has(ctx context.Context, client *promapi.Client, series []string) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	for _, name := range series {
		found, err := client.Query(ctx, "count("+name+")", time.Now())
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("it has no series %s now", name)
		}
	}
	return nil
}
