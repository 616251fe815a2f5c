package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/learn/linear"
	"gnnsched/scheduler/policy"
)

const (
	fromZero     = "zero" // the value of --from that means no weights at all
	heldOutFirst = 1      // seed of the first episode that is held out: eval's, far from tuning's
)

// linearFlags are those that decide which weights come out.
var linearFlags = []string{"scenario", "from", "features", "name", "generations", "population", "episodes", "spread", "wait-weight", "held-out", "seed"}

func tuneLinear(c *ucli.Context, s eval.Scenario) error {
	l, err := tuner(c, s)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.ErrWriter, "tuning on %s: %d generations of %d weights on %d episodes\n", s.Name, l.CEM.Generations, l.CEM.Population, l.Episodes)
	told := policy.Tuning{Command: tuneCommandLine(c), Version: version, Scenario: s.Name, Seed: l.CEM.Seed}
	p, err := l.Tune(c.Context, c.String("name"), func(g linear.Generation) {
		told.Generations = g.Number
		fmt.Fprintf(c.App.ErrWriter, "generation %d of %d: best %.4f of the default scoring's, elite %.4f\n", g.Number, l.CEM.Generations, g.Best, g.Elite)
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	p.Tuning = &told
	if n := c.Int("held-out"); err == nil && n > 0 {
		told.HeldOut, err = heldOut(c, s, p, n)
	}
	return errors.Join(err, writeLinear(c.String("out"), p))
}

// tuneCommandLine is the command that repeats this one, whatever the defaults may become.
func tuneCommandLine(c *ucli.Context) string {
	line := "gnnsched tune"
	for _, name := range linearFlags {
		if v := fmt.Sprint(c.Value(name)); v != "" {
			line += " --" + name + " " + quoted(v)
		}
	}
	return line
}

// quoted is a word of a shell's command line.
func quoted(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.,/") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func tuner(c *ucli.Context, s eval.Scenario) (*linear.Linear, error) {
	from, err := startWeights(c.String("from"))
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--from: %w", err), "")
	}
	l := &linear.Linear{
		Env: s.Config, Baseline: policy.Kubernetes{}, Episodes: c.Int("episodes"), WaitWeight: c.Float64("wait-weight"), From: from,
		CEM: linear.CEM{
			Population: c.Int("population"), Elite: c.Int("population") / 4, Generations: c.Int("generations"),
			Spread: c.Float64("spread"), Noise: c.Float64("spread") / 5, Seed: c.Uint64("seed"),
		},
	}
	if names := c.String("features"); names != "" {
		l.Features = strings.Split(names, ",")
	}
	if err := l.Validate(); err != nil {
		return nil, exit.New(exit.Usage, err, "see gnnsched tune --help")
	}
	if n := c.Int("held-out"); n < 0 {
		return nil, exit.Usagef("--held-out %d is less than 0", n)
	}
	return l, cli.Writable(c.String("out"))
}

// startWeights are those that --from names; nil for zero.
func startWeights(from string) ([]float64, error) {
	switch {
	case from == fromZero:
		return nil, nil
	case slices.Contains(policy.TunedNames(), from):
		return policy.Tuned(from).Weights(), nil
	case filepath.Ext(from) != ".json":
		return nil, fmt.Errorf("%q is neither a .json file nor one of %s, %s", from, fromZero, strings.Join(policy.TunedNames(), ", "))
	}
	p, err := policy.LoadLinear(from)
	if err != nil {
		return nil, err
	}
	return p.Weights(), nil
}

// heldOut judges a policy beside the default scoring on workloads that tuning did not see.
func heldOut(c *ucli.Context, s eval.Scenario, p *policy.Linear, episodes int) (*policy.HeldOut, error) {
	fmt.Fprintf(c.App.ErrWriter, "judging on %d other episodes\n", episodes)
	s.Optimum = false // it is about the two policies
	base, err := namedPolicy(kubernetes)
	if err != nil {
		return nil, err
	}
	tuned := eval.Contender{Name: "tuned", New: func(policy.Setting) policy.Policy { return p }}
	r, err := eval.Compare(c.Context, s, []eval.Contender{base, tuned}, eval.Seeds(heldOutFirst, episodes), nil)
	if err != nil {
		return nil, err
	}
	out := &policy.HeldOut{FirstSeed: heldOutFirst, Episodes: episodes, Means: map[string]map[string]float64{}}
	for _, x := range r.Results {
		means := map[string]float64{}
		for _, m := range eval.Metrics {
			means[m.Name] = x.Mean(m)
		}
		out.Means[x.Name] = means
		fmt.Fprintf(c.App.ErrWriter, "%s: objective %.4f, %.1f unscheduled, %.1f waited\n", x.Name, means["cost"], means["unscheduled"], means["waited"])
	}
	return out, nil
}

func writeLinear(path string, p *policy.Linear) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
