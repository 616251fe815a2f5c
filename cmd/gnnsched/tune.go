package main

import (
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/learn/cem"
	"gnnsched/scheduler/learn/tabular"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/sim"
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
		Description: "Each generation draws weights around those of the last one, tries them on the same episodes, and keeps the\n" +
			"best ones, compared with the default scoring. The features are " + strings.Join(linear.Features, ", ") + ".\n" +
			"By default all weights start at zero, so that the flags decide the result. The file holds the weights, the\n" +
			"command that repeats the run, and the results on other seeds. Ctrl-C stops early and writes the weights so\n" +
			"far, with the command that leads to them. With --method tabular-q, a tabular Q agent learns instead.\n\n" +
			"Examples:\n" +
			"   gnnsched tune                                       # minutes; writes linear.json\n" +
			"   gnnsched tune --scenario my.yaml --out my.json\n" +
			"   gnnsched tune --from linear --scenario my.yaml      # start from weights built into the program\n" +
			"   gnnsched eval --checkpoint my=my.json               # judge the weights\n" +
			"   gnntrain --teacher my.json                          # train a network to imitate them\n" +
			"   gnnsched tune --method tabular-q --out q.json       # seconds",
		Flags: []ucli.Flag{
			&ucli.StringFlag{Name: "method", Value: linearMethod, Usage: "`METHOD`: " + linearMethod + " (the cross-entropy method), or " + tabularMethod + " (a tabular Q agent, the historical baseline)"},
			&ucli.StringFlag{Name: "scenario", Value: "family", Usage: "`NAME` or YAML file of the workloads to tune on"},
			resampleFlag(),
			&ucli.StringFlag{Name: "out", Value: "linear.json", Usage: "`FILE` to write"},
			&ucli.StringFlag{Name: "from", Value: cem.FromZero, Usage: "`WEIGHTS` to start from: " + cem.FromZero + ", a name built into the program (" + strings.Join(linear.TunedNames(), ", ") + "), or a .json file"},
			&ucli.StringFlag{Name: "features", Usage: "`NAMES` of the features whose weights are tuned; the other weights do not change; default: all"},
			&ucli.StringFlag{Name: "name", Value: "linear", Usage: "`NAME` of the policy in tables"},
			&ucli.IntFlag{Name: "generations", Value: 30, Usage: "`NUMBER` of generations"},
			&ucli.IntFlag{Name: "stop-after", Usage: "end after this `NUMBER` of the generations, as Ctrl-C does; 0 for none"},
			&ucli.IntFlag{Name: "population", Value: 32, Usage: "`NUMBER` of weight vectors in a generation; the best quarter is kept"},
			&ucli.IntFlag{Name: "episodes", Value: 24, Usage: "`NUMBER` of episodes on which each vector is tried"},
			&ucli.Float64Flag{Name: "spread", Value: 0.5, Usage: "standard `DEVIATION` of each weight at the start; if all weights start at zero, it changes the scale of the scores but not their order"},
			&ucli.Float64Flag{Name: "wait-weight", Value: 40, Usage: "`PENALTY` for each additional percentage point of waiting pods, in percent of the objective"},
			&ucli.IntFlag{Name: "steps", Value: tabular.DefaultConfig().Steps, Usage: "`NUMBER` of placements from which the tabular Q agent learns"},
			&ucli.IntFlag{Name: "held-out", Value: 20, Usage: "judge the result on this `NUMBER` of episodes, which have gnnsched eval's first seeds; 0 for none"},
			&ucli.Uint64Flag{Name: "seed", Value: 1, Usage: "`SEED` of all random numbers"},
		},
		Action: runTune,
	}
}

func runTune(c *ucli.Context) error {
	if c.NArg() > 0 {
		return exit.Usagef("unexpected argument %q", c.Args().First())
	}
	found, err := scenarios([]string{c.String("scenario")})
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return exit.Usagef("--scenario %s holds %d scenarios, want one", c.String("scenario"), len(found))
	}
	if found, err = resampled(c, found); err != nil {
		return err
	}
	switch m := c.String("method"); m {
	case linearMethod:
		return tuneLinear(c, found[0])
	case tabularMethod:
		return tuneTabular(c, found[0])
	default:
		return exit.Usagef("--method %s is not known: choose %s or %s", m, linearMethod, tabularMethod)
	}
}

// tuneTabular trains a tabular Q agent. It uses seeds that neither the evaluation nor the trainer
// of networks uses.
func tuneTabular(c *ucli.Context, s eval.Scenario) error {
	cfg := tabular.DefaultConfig()
	cfg.Seed, cfg.Steps = c.Uint64("seed"), c.Int("steps")
	if err := cfg.Validate(); err != nil {
		return exit.New(exit.Usage, err, "see `gnnsched tune --help`")
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
