package trial

import (
	"context"
	"errors"
	"fmt"
	"os"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/learn/cem"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/stock"
	"gnnsched/scheduler/server"
)

// tunedStock is the name of the result in tables.
const tunedStock = "stock"

// searchStock tunes, judges and writes the file out. When the context ends after a generation, the file has the profile so far, and
// searchStock returns the context's error.
func searchStock(c *ucli.Context, t cem.StockTuner, s tuning, out, version string) error {
	total, log := t.Generations*len(t.Strategies), c.App.ErrWriter
	fmt.Fprintf(log, "tuning on %s: %d generations for each of %d strategies, of %d profiles on %d episodes\n",
		s.learn.Name, t.Generations, len(t.Strategies), t.Population, t.Episodes)
	search, stop := context.WithCancel(c.Context)
	defer stop()
	done := 0
	var left cli.TimeLeft
	left.After(0)
	found, err := t.Tune(search, func(s stock.Strategy, g cem.Generation) {
		if done++; done == c.Int("stop-after") {
			stop()
		}
		fmt.Fprintf(log, "%s: generation %d of %d: best %.4f of the default profile's, elite %.4f%s\n",
			s, g.Number, t.Generations, g.Best, g.Elite, left.After(float64(done)/float64(total)))
	})
	if err != nil && (!errors.Is(err, context.Canceled) || len(found) == 0) {
		return err // before the first generation has ended, there is nothing to write
	}
	for _, x := range found {
		if err == nil {
			fmt.Fprintf(log, "%s: %.4f of the default profile's on %d further episodes\n", x.Profile.Strategy, x.Choice, 2*t.Episodes)
		}
	}
	if err == nil && found[0].Choice >= 1 {
		fmt.Fprintln(log, "warning: no strategy did better than the default profile on the further episodes; "+
			"more --episodes make the search less a matter of luck")
	}
	header := head{scenario: s.learn, version: version, profile: found[0].Profile, command: tuneCommandLine(c, stockFlags)}
	if err = c.Context.Err(); err != nil {
		header.command = tuneCommandLine(c, stockFlags, "stop-after", done, "held-out", 0)
	}
	if n := c.Int("held-out"); err == nil && n > 0 {
		header.judged, err = judgeStock(c, s.judge, found[0].Profile, n)
	}
	text, failed := server.WriteStockConfig(found[0].Profile, header.text())
	if failed == nil {
		failed = os.WriteFile(out, text, 0o644)
	}
	if failed != nil {
		return errors.Join(err, failed)
	}
	fmt.Fprintf(log, "wrote %s: the best profile after %d of %d generations\n", out, done, total)
	return err
}

// judgeStock compares the profile with the default on episodes that tuning did not use, and prints the table.
func judgeStock(c *ucli.Context, s eval.Scenario, p stock.Profile, episodes int) (*eval.Comparison, error) {
	fmt.Fprintf(c.App.ErrWriter, "judging on %d other episodes\n\n", episodes)
	base, err := contender.Named(contender.Kubernetes)
	if err != nil {
		return nil, err
	}
	player, err := stock.New(tunedStock, p)
	if err != nil {
		return nil, err
	}
	mine := eval.Contender{Name: tunedStock, New: func(policy.Setting) policy.Policy { return player }, RandomTies: true}
	r, err := cem.Judge(c.Context, s, []eval.Contender{base, mine}, episodes)
	if err != nil {
		return nil, err
	}
	if err := r.WriteSummary(c.App.ErrWriter); err != nil {
		return nil, err
	}
	for _, line := range warnings(r) {
		fmt.Fprintln(c.App.ErrWriter, "warning: "+line)
	}
	return r, nil
}
