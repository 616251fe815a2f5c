package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/learn/cem"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/linear"
)

// linearFlags are the flags that decide the resulting weights.
var linearFlags = []string{
	"trace", "scenario", "resample", "objective", "from", "features", "name", "generations", "stop-after", "population", "episodes", "spread",
	"wait-weight", "held-out", "seed",
}

func tuneLinear(c *ucli.Context, s tuning, version string) error {
	l, err := tuner(c, s.learn)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.ErrWriter, "tuning on %s: %d generations of %d weights on %d episodes\n",
		s.learn.Name, l.Generations, l.Population, l.Episodes)
	record := linear.Tuning{Command: tuneCommandLine(c, linearFlags), Version: version, Scenario: s.learn.Name, Seed: l.Seed}
	ctx, stop := context.WithCancel(c.Context)
	defer stop()
	var left cli.TimeLeft
	left.After(0)
	p, err := l.Tune(ctx, c.String("name"), func(g cem.Generation) {
		if record.Generations = g.Number; g.Number == c.Int("stop-after") {
			stop()
		}
		fmt.Fprintf(c.App.ErrWriter, "generation %d of %d: best %.4f of the default scoring's, elite %.4f%s\n",
			g.Number, l.Generations, g.Best, g.Elite, left.After(float64(g.Number)/float64(l.Generations)))
	})
	if err != nil && (!errors.Is(err, context.Canceled) || record.Generations == 0) {
		return err // before the first generation has ended, there is nothing to save
	}
	if err = c.Context.Err(); err != nil {
		record.Command = tuneCommandLine(c, linearFlags, "stop-after", record.Generations, "held-out", 0)
	}
	p.Tuning = &record
	if n := c.Int("held-out"); err == nil && n > 0 {
		record.HeldOut, err = heldOut(c, s.judge, p, n)
	}
	if failed := cem.Save(c.String("out"), p); failed != nil {
		return errors.Join(err, failed)
	}
	fmt.Fprintf(c.App.ErrWriter, "wrote %s: the weights after generation %d of %d\n", c.String("out"), record.Generations, l.Generations)
	return err
}

// tuneCommandLine returns the command with the given flags that repeats this run, even after defaults have
// changed. instead holds the names of flags, each followed by the value to give it. A run that was stopped early needs
// the number of its generations beside --generations, over which the noise fades.
func tuneCommandLine(c *ucli.Context, flags []string, instead ...any) string {
	line := "gnnsched tune " + c.Command.Name
	for _, name := range flags {
		if name == "scenario" && c.IsSet("trace") {
			continue
		}
		if on, is := c.Value(name).(bool); is {
			switch {
			case !c.IsSet(name): // without --resample the scenario decides
			case on:
				line += " --" + name
			default:
				line += " --" + name + "=false"
			}
			continue
		}
		v := fmt.Sprint(c.Value(name))
		if i := slices.Index(instead, any(name)); i >= 0 {
			v = fmt.Sprint(instead[i+1])
		}
		if v != "" {
			line += " --" + name + " " + quoted(v)
		}
	}
	return line
}

// quoted quotes a word for a shell, if necessary.
func quoted(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.,/") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// tuner reads the flags.
func tuner(c *ucli.Context, s eval.Scenario) (*cem.Tuner, error) {
	from, err := cem.StartWeights(c.String("from"))
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--from: %w", err), "")
	}
	l := &cem.Tuner{
		Search: searchOf(c, s),
		From:   from,
	}
	if names := c.String("features"); names != "" {
		l.Features = strings.Split(names, ",")
	}
	if err := l.Validate(); err != nil {
		return nil, exit.New(exit.Usage, err, "see gnnsched tune linear --help")
	}
	return l, checkTuning(c, l.Generations, c.String("out"))
}

// searchOf reads the flags about the search.
func searchOf(c *ucli.Context, s eval.Scenario) cem.Search {
	return cem.Search{
		Env: s.Config, Baseline: heuristic.Kubernetes{}, Episodes: c.Int("episodes"), WaitWeight: c.Float64("wait-weight"),
		Population: c.Int("population"), Generations: c.Int("generations"), Spread: c.Float64("spread"), Seed: c.Uint64("seed"),
	}
}

// checkTuning checks the flags about the end of a run of that many generations, and its file.
func checkTuning(c *ucli.Context, generations int, out string) error {
	if n := c.Int("held-out"); n < 0 {
		return exit.Usagef("--held-out %d is less than 0", n)
	}
	if n := c.Int("stop-after"); n < 0 || n > generations {
		return exit.Usagef("--stop-after %d: choose 1 to the %d of --generations, or 0 for all", n, generations)
	}
	return cli.Writable(out)
}

// heldOut compares a policy with the default scoring on workloads that tuning did not use.
func heldOut(c *ucli.Context, s eval.Scenario, p *linear.Policy, episodes int) (*linear.HeldOut, error) {
	fmt.Fprintf(c.App.ErrWriter, "judging on %d other episodes\n", episodes)
	base, err := contender.Named(contender.Kubernetes)
	if err != nil {
		return nil, err
	}
	out, err := cem.HeldOut(c.Context, s, base, p, episodes)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{base.Name, "tuned"} {
		means := out.Means[name]
		fmt.Fprintf(c.App.ErrWriter, "%s: objective %.4f, %.1f unscheduled, %.1f waited\n",
			name, means["cost"], means["unscheduled"], means["waited"])
	}
	warnOfWeights(c.App.ErrWriter, base.Name, out)
	return out, nil
}

// warnOfWeights warns about metrics in which the tuned weights did worse than the baseline, and about held-out episodes that are only one
// sample.
func warnOfWeights(w io.Writer, baseline string, h *linear.HeldOut) {
	if h.Samples < 2 && h.Episodes > 1 {
		fmt.Fprintln(w, "warning: these episodes have the same pods, so they are one sample. With --resample=false, "+
			"the weights were tuned on them too; else record for a longer time")
	}
	for _, m := range cem.Judged {
		p, worse := h.Worse[m.Name]
		if !worse {
			continue
		}
		mine, theirs := h.Means["tuned"][m.Name], h.Means[baseline][m.Name]
		how := fmt.Sprintf("p = %.2g over %d episodes", p, h.Episodes)
		if h.Samples < 2 {
			how = "one sample"
		}
		fmt.Fprintf(w, "warning: the tuned weights are worse than %s in %s: %.4g against %.4g (%s)\n", baseline, m.Name, mine, theirs, how)
	}
}
