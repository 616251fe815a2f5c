// Package work has the command `gnnsched work`, and the flag --workers of the commands that give work away.
package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/metric"
	"gnnsched/internal/workers"
)

// Command returns the command work of a program.
func Command(p Program) *ucli.Command {
	return &ucli.Command{
		Name: "work", Usage: p.Usage, Description: p.Description,
		Flags: cli.Grouped(slices.Concat([]ucli.Flag{
			&ucli.StringFlag{Name: "connect", Usage: "take work from the queue at this `URL`"},
			&ucli.StringFlag{Name: "listen", Usage: "have a queue at this `ADDRESS`, HOST:PORT; another host than 127.0.0.1 needs certificates"},
			&ucli.IntFlag{Name: "slots", Value: runtime.GOMAXPROCS(0), DefaultText: "the number of processors",
				Usage: "`NUMBER` of " + p.Work + " at a time; 0 with --listen: none"},
			&ucli.DurationFlag{Name: "grace", Value: 20 * time.Second,
				Usage: "when told to end, `TIME` for the " + p.Work + " that are at work; others get the rest"},
			&ucli.DurationFlag{Name: "idle", Usage: "end after this `TIME` without work; 0: never"},
			&ucli.StringFlag{Name: "metrics-address", Usage: "serve /metrics and /healthz at this `ADDRESS`, such as 127.0.0.1:9090"},
			&ucli.StringFlag{Name: "child", Hidden: true},
			approximate(),
		}, queueFlags(), cli.LogFlags()),
			cli.Group{Heading: "certificates, with --listen on other hosts and with tls:// URLs",
				Flags: "tls-dir"}),
		Action: cli.FlagsOnly(p.run),
	}
}

func (p Program) run(c *ucli.Context) error {
	if dir := c.String("child"); dir != "" {
		return workers.Child(c.Context, dir, p.Handlers(), os.Stdin, c.App.Writer)
	}
	url, listen := c.String("connect"), c.String("listen")
	switch {
	case (url == "") == (listen == ""):
		return exit.Usagef("give --connect with the URL of a queue, or --listen with an address for a new one")
	case c.Int("slots") < 0 || c.Int("slots") > 10_000 || c.Int("slots") == 0 && listen == "":
		return exit.Usagef("--slots %d: choose 1 to 10000", c.Int("slots"))
	case c.Duration("grace") < 0 || c.Duration("idle") < 0:
		return exit.Usagef("--grace and --idle must be 0 or more")
	}
	log, closer, err := cli.Log(c, "work", false)
	if err != nil {
		return err
	}
	defer closer.Close()
	var q *workers.Queue
	if listen != "" {
		server, err := serve(c, listen, log)
		if err != nil {
			return err
		}
		defer server.Close()
		log.Info().Str("url", server.URL()).Msg("the queue waits for " + p.Work + " and workers")
		if q, err = connect(c.Context, server); err != nil {
			return err
		}
	} else if q, err = dial(c, url); err != nil {
		return err
	}
	defer q.Close()
	return p.work(c, q, log)
}

// serve starts the queue of --listen; "" listens nowhere.
func serve(c *ucli.Context, listen string, log zerolog.Logger) (*workers.Server, error) {
	tls, err := queueTLS(c)
	if err != nil {
		return nil, err
	}
	s, err := workers.Serve(workers.Serving{Dir: c.String("queue"), Listen: listen, TLS: tls, Log: log})
	if errors.Is(err, workers.ErrInUse) {
		return nil, exit.New(exit.Usage, err, "use that one with --workers or --connect and its URL, or choose another folder with --queue")
	}
	if err != nil {
		return nil, exit.New(exit.Usage, err, "docs/how-to/workers.md describes addresses and certificates")
	}
	return s, nil
}

// connect connects to the queue of this process, which reserves its space.
func connect(ctx context.Context, server *workers.Server) (*workers.Queue, error) {
	q, err := server.Connect(ctx)
	if err != nil {
		return nil, exit.New(exit.Usage, err, "make room in the folder of --queue (2 GiB), or name another")
	}
	return q, nil
}

// dial connects to the queue at a URL.
func dial(c *ucli.Context, url string) (*workers.Queue, error) {
	options, err := queueOptions(c, url)
	if err != nil {
		return nil, err
	}
	q, err := workers.Connect(c.Context, url, options...)
	if err != nil {
		return nil, unreachable(err)
	}
	return q, nil
}

// work computes units until the command ends.
func (p Program) work(c *ucli.Context, q *workers.Queue, log zerolog.Logger) error {
	if c.Bool("approximate") {
		if err := q.Approximate(c.Context); err != nil {
			return err
		}
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	name = fmt.Sprintf("%s-%d", name, os.Getpid())
	w := &workers.Worker{
		Queue: q, Name: name, Slots: c.Int("slots"), Command: []string{program, "work", "--child"},
		Limit: p.Limit, Grace: c.Duration("grace"), Idle: c.Duration("idle"), Log: log,
	}
	running, stop := context.WithCancel(c.Context)
	defer stop()
	all, ctx := errgroup.WithContext(running)
	if address := c.String("metrics-address"); address != "" {
		all.Go(func() error {
			return metric.Serve(ctx, address, func() error {
				if !q.Connected() {
					return errors.New("no connection to the queue")
				}
				return nil
			})
		})
	}
	all.Go(func() error {
		log.Info().Str("name", name).Int("slots", w.Slots).Str("build", q.Build()).Msg("waiting for " + p.Work)
		defer stop() // the metrics
		return w.Run(ctx)
	})
	err = all.Wait()
	if err == nil {
		err = context.Cause(c.Context)
	}
	return err
}

// Program is a program that gives work away to others of its kind.
type Program struct {
	Usage       string        // of the command work
	Description string        // the same, with examples
	Work        string        // what it gives away, in messages
	Limit       time.Duration // of a unit
	Handlers    func() map[string]workers.Handler
}
