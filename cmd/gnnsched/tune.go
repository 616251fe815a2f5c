package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
	"gnnsched/scheduler/tabular"
	"gnnsched/scheduler/tune"
)

// The methods of tune.
const (
	linearMethod  = "linear"
	tabularMethod = "tabular-q"
)

func tuneCommand() *ucli.Command {
	return &ucli.Command{
		Name:  "tune",
		Usage: "fit the linear policy's weights to a scenario by the cross-entropy method",
		Description: "Every generation plays weights drawn around the last ones on the same episodes, relative to the default\n" +
			"scoring, and keeps the best. The features are " + strings.Join(policy.LinearFeatures, ", ") + ".\n" +
			"Ctrl-C stops early and writes the weights so far. With --method tabular-q, a tabular Q agent learns instead.\n\n" +
			"Examples:\n" +
			"   gnnsched tune                                       # minutes; writes linear.json\n" +
			"   gnnsched tune --scenario my.yaml --out my.json\n" +
			"   gnnsched eval --checkpoint my=my.json               # how good is it?\n" +
			"   gnntrain --teacher my.json                          # and imitate it\n" +
			"   gnnsched tune --method tabular-q --out q.json       # seconds",
		Flags: []ucli.Flag{
			&ucli.StringFlag{Name: "method", Value: linearMethod, Usage: "`METHOD`: " + linearMethod + " (the cross-entropy method), or " + tabularMethod + " (the tabular Q agent, the historical baseline)"},
			&ucli.StringFlag{Name: "scenario", Value: "family", Usage: "`NAME` or YAML file of the workloads to tune on"},
			&ucli.StringFlag{Name: "out", Value: "linear.json", Usage: "`FILE` to write"},
			&ucli.StringFlag{Name: "init", Usage: "`FILE` with the weights to start from; default: those that the program carries"},
			&ucli.StringFlag{Name: "name", Value: "linear", Usage: "`NAME` of the policy in tables"},
			&ucli.IntFlag{Name: "generations", Value: 16, Usage: "to go through"},
			&ucli.IntFlag{Name: "population", Value: 24, Usage: "weights tried a generation; a quarter of them is kept"},
			&ucli.IntFlag{Name: "episodes", Value: 24, Usage: "that each is tried on"},
			&ucli.Float64Flag{Name: "spread", Value: 0.5, Usage: "standard deviation of each weight at the start"},
			&ucli.Float64Flag{Name: "wait-weight", Value: 40, Usage: "what one percentage point more of pods that must wait weighs against one percent of the objective"},
			&ucli.IntFlag{Name: "steps", Value: tabular.DefaultConfig().Steps, Usage: "placements that the tabular Q agent learns from"},
			&ucli.Uint64Flag{Name: "seed", Value: 1, Usage: "of what is drawn"},
		},
		Action: runTune,
	}
}

func runTune(c *ucli.Context) error {
	if c.NArg() > 0 {
		return exit.Usagef("unexpected argument %q", c.Args().First())
	}
	scenarios, err := chosenScenarios([]string{c.String("scenario")})
	if err != nil {
		return err
	}
	if len(scenarios) != 1 {
		return exit.Usagef("--scenario %s holds %d scenarios, want one", c.String("scenario"), len(scenarios))
	}
	switch m := c.String("method"); m {
	case linearMethod:
		return tuneLinear(c, scenarios[0])
	case tabularMethod:
		return tuneTabular(c, scenarios[0])
	default:
		return exit.Usagef("--method %s is not known: choose %s or %s", m, linearMethod, tabularMethod)
	}
}

// tuneTabular lets a tabular Q agent learn, from seeds that neither evaluation nor the trainer
// of networks uses.
func tuneTabular(c *ucli.Context, s eval.Scenario) error {
	cfg := tabular.DefaultConfig()
	cfg.Seed, cfg.Steps = c.Uint64("seed"), c.Int("steps")
	if err := cfg.Validate(); err != nil {
		return exit.New(exit.Usage, err, "see gnnsched tune --help")
	}
	if err := cli.Writable(c.String("out")); err != nil {
		return err
	}
	env, err := sim.New(s.Config)
	if err != nil {
		return err
	}
	agent, err := tabular.Train(c.Context, env, cfg)
	if err != nil {
		return err
	}
	return agent.Save(c.String("out"))
}

func tuneLinear(c *ucli.Context, s eval.Scenario) error {
	l, err := tuner(c, s)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.ErrWriter, "tuning on %s: %d generations of %d weights on %d episodes\n", s.Name, l.CEM.Generations, l.CEM.Population, l.Episodes)
	p, err := l.Tune(c.Context, c.String("name"), func(g tune.Generation) {
		fmt.Fprintf(c.App.ErrWriter, "generation %d of %d: best %.4f of the default scoring's, elite %.4f\n", g.Number, l.CEM.Generations, g.Best, g.Elite)
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return errors.Join(err, writeLinear(c.String("out"), p))
}

func tuner(c *ucli.Context, s eval.Scenario) (*tune.Linear, error) {
	start := policy.Tuned("linear")
	if path := c.String("init"); path != "" {
		var err error
		if start, err = policy.LoadLinear(path); err != nil {
			return nil, exit.New(exit.Usage, err, "")
		}
	}
	l := &tune.Linear{
		Env: s.Config, Baseline: policy.Kubernetes{}, Episodes: c.Int("episodes"), WaitWeight: c.Float64("wait-weight"),
		CEM: tune.CEM{
			Population: c.Int("population"), Elite: c.Int("population") / 4, Generations: c.Int("generations"),
			Start: start.Weights(), Spread: c.Float64("spread"), Noise: c.Float64("spread") / 5, Seed: c.Uint64("seed"),
		},
	}
	if err := l.Validate(); err != nil {
		return nil, exit.New(exit.Usage, err, "see gnnsched tune --help")
	}
	return l, cli.Writable(c.String("out"))
}

func writeLinear(path string, p *policy.Linear) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
