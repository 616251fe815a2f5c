package plan

import (
	"context"
	"errors"
	"fmt"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/recording"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/plan"
)

// workFlags are the flags of plans that play all the work of a record.
func workFlags() []ucli.Flag {
	return append([]ucli.Flag{
		&ucli.BoolFlag{Name: "fewest", Usage: "find the fewest of the recorded nodes that hold the recorded work"},
		&ucli.StringFlag{Name: "types", Usage: "find the cheapest mix of the types of nodes in a `FILE|LIST` that holds the recorded work"},
		recording.PricesFlag(),
		&ucli.DurationFlag{Name: "wait", Value: 30 * time.Second, Usage: "pods may wait for this `TIME`"},
		&ucli.Float64Flag{Name: "percentile", Value: 95, Usage: "as many `PERCENT` of the pods must not wait longer"},
		&ucli.IntFlag{Name: "evaluations", Value: 100, Usage: "play the record at most `N` times for each profile"},
		&ucli.Uint64Flag{Name: "seed", Value: 1, Usage: "`SEED` of the draws among equal nodes"},
	}, recording.WindowFlags()...)
}

// targetOf reads the target of the flags.
func targetOf(c *ucli.Context) (plan.Target, error) {
	t := plan.Target{Wait: c.Duration("wait"), Share: c.Float64("percentile") / 100, Seed: c.Uint64("seed"), Evaluations: c.Int("evaluations")}
	switch {
	case t.Wait < 0:
		return t, exit.Usagef("--wait %v is negative", t.Wait)
	case !(t.Share > 0 && t.Share <= 1):
		return t, exit.Usagef("--percentile %v is not over 0 and up to 100", c.Float64("percentile"))
	case t.Evaluations < 2:
		return t, exit.Usagef("--evaluations %d is less than 2", t.Evaluations)
	}
	return t, nil
}

// runFewest looks for the fewest nodes.
func runFewest(c *ucli.Context, s *session) error {
	target, err := targetOf(c)
	if err != nil {
		return err
	}
	profiles, err := profilesOf(c)
	if err != nil {
		return err
	}
	w := recording.Window(c)
	w.Instant = true
	source, err := recording.Source(c, w)
	if err != nil {
		return err
	}
	out, err := plan.FindFewest(c.Context, source, profiles, target, s.replays(target))
	return s.finish(c, out, err)
}

// replays shows the number of replays of a search.
func (s *session) replays(t plan.Target) func(string, int) {
	return func(profile string, n int) {
		s.bar.Show(float64(n)/float64(t.Evaluations), profile, fmt.Sprintf("%s: replay %d of at most %d", profile, n, t.Evaluations))
	}
}

// finish prints the result of a search, even of an interrupted one.
func (s *session) finish(c *ucli.Context, r result, err error) error {
	s.bar.Close()
	if err != nil {
		return failed(c, err)
	}
	if err := cli.Print(c, r); err != nil {
		return err
	}
	if errors.Is(c.Context.Err(), context.Canceled) {
		return exit.New(exit.Interrupted, errors.New("interrupted; the result is the best so far"), "")
	}
	return nil
}
