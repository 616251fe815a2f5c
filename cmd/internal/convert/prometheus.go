package convert

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/recording"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/promapi"
	"gnnsched/workload/record"
	"gnnsched/workload/record/history"
)

// prometheusFlags are the flags of a record of Prometheus' history.
func prometheusFlags() []ucli.Flag {
	return append([]ucli.Flag{
		&ucli.StringFlag{Name: "prometheus", Usage: "make a record of the history that the Prometheus server at `URL` has, or go on with one; " +
			"needs --from and --out"},
		&ucli.StringFlag{Name: "from", Usage: "with --prometheus, begin at `TIME`, such as 2026-03-01T00:00:00Z"},
		&ucli.StringFlag{Name: "to", Usage: "with --prometheus, end at `TIME`; default: now"},
		&ucli.DurationFlag{Name: "chunk", Value: time.Hour, Usage: "with --prometheus, `TIME` that one query covers"},
		&ucli.DurationFlag{Name: "usage", Value: 5 * time.Minute,
			Usage: "with --prometheus, `TIME` between two measurements of usage; 0 for none"},
	}, promapi.Flags("")...)
}

// historyToRecord makes a record of Prometheus' data, or continues the record of an earlier call.
func historyToRecord(c *ucli.Context, log zerolog.Logger) (err error) {
	if c.NArg() > 0 {
		return exit.Usagef("%s: --prometheus reads no files", c.Args().First())
	}
	conf, err := historyConfig(c)
	if err != nil {
		return err
	}
	client, err := promapi.ClientFromFlags(c, "", log)
	if err != nil {
		return err
	}
	defer client.HTTP.CloseIdleConnections()
	out, err := record.Create(c.String("out"), record.Options{})
	if err != nil {
		return exit.New(exit.Usage, err, "name another folder with --out")
	}
	defer func() { err = errors.Join(err, recording.Closed(out, log)) }()
	if record.Is(c.String("out")) {
		if conf.Earlier, err = history.Resume(c.String("out")); err != nil {
			return exit.New(exit.Usage, err, "name another folder with --out")
		}
		if until := conf.Earlier.Until; until.After(conf.From) {
			conf.From = until
		}
		if !conf.To.After(conf.From) {
			log.Info().Time("until", conf.Earlier.Until).Msg("the record is complete already")
			return nil
		}
		log.Info().Time("from", conf.From).Msg("going on with the record")
	}
	view := cli.NewBar(c.App.ErrWriter, cli.OnTerminal(), log)
	defer view.Close()
	conf.Out = out
	conf.Ask = client
	conf.Progress = func(done float64, pods int) { view.Show(done, "reading", fmt.Sprintf("read %d pods", pods)) }
	got, err := history.Read(c.Context, conf)
	if err != nil {
		return historyError(c.Context, c.String("prometheus"), err)
	}
	for _, w := range got.Wrong {
		log.Warn().Str("lacks", w).Msg("series of Prometheus do not fit each other, or have gaps")
	}
	log.Info().Str("out", c.String("out")).Int("nodes", got.Nodes).Int("pods", got.Pods).Str("lacks", got.Missing).Msg("converted")
	return nil
}

// historyError tells a Prometheus that does not answer from a disk that takes no rows.
func historyError(ctx context.Context, address string, err error) error {
	const again = "; the same command goes on where it ended"
	var refused promapi.Refused
	var unanswered history.Unanswered
	var several history.SeveralClusters
	switch {
	case ctx.Err() != nil:
		return err
	case errors.As(err, &several):
		return exit.New(exit.Usage, err, fmt.Sprintf("choose one: --cluster-label %s=%s", several.Label, several.Values[0]))
	case errors.As(err, &refused):
		return exit.New(exit.Unreachable, err, "a shorter --chunk asks for less at once; --from must lie within what Prometheus keeps"+again)
	case errors.As(err, &unanswered):
		known := promapi.Explain(fmt.Errorf("%s: %w", address, err), "")
		known.Hint += again
		return known
	}
	return exit.New(exit.Internal, fmt.Errorf("write the record: %w", err), "make room on the disk of --out"+again)
}

// historyConfig reads the times.
func historyConfig(c *ucli.Context) (history.Config, error) {
	conf := history.Config{To: time.Now(), Chunk: c.Duration("chunk"), Usage: c.Duration("usage"), Program: c.App.Version, Pause: pause}
	for _, t := range []struct {
		flag string
		to   *time.Time
	}{{"from", &conf.From}, {"to", &conf.To}} {
		if c.String(t.flag) == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, c.String(t.flag))
		if err != nil || at.Unix() <= 0 {
			return conf, exit.Usagef("--%s: %q is no time such as 2026-03-01T12:00:00Z", t.flag, c.String(t.flag))
		}
		*t.to = at
	}
	switch {
	case conf.From.IsZero():
		return conf, exit.Usagef("--prometheus needs --from, the time at which the record begins")
	case !conf.To.After(conf.From):
		return conf, exit.Usagef("--to is not after --from")
	case conf.Chunk < time.Minute || conf.Chunk > 24*time.Hour:
		return conf, exit.Usagef("--chunk %v is not 1m to 24h", conf.Chunk)
	case conf.Usage != 0 && (conf.Usage < 15*time.Second || conf.Usage > conf.Chunk):
		return conf, exit.Usagef("--usage %v is not 0, and not 15s to --chunk", conf.Usage)
	}
	return conf, nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
