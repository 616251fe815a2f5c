package main

import (
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	tuning "gnnsched/scheduler/learn/linear"
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
		Description: "Every generation plays weights drawn around the last ones on the same episodes, relative to the default\n" +
			"scoring, and keeps the best. The features are " + strings.Join(linear.Features, ", ") + ".\n" +
			"It starts from nothing unless told otherwise, so that the flags alone decide what comes out, and writes into\n" +
			"the file the command that repeats it and how the weights do on other seeds. Ctrl-C stops early and writes\n" +
			"the weights so far. With --method tabular-q, a tabular Q agent learns instead.\n\n" +
			"Examples:\n" +
			"   gnnsched tune                                       # minutes; writes linear.json\n" +
			"   gnnsched tune --scenario my.yaml --out my.json\n" +
			"   gnnsched tune --from linear --scenario my.yaml      # from weights that the program carries\n" +
			"   gnnsched eval --checkpoint my=my.json               # how good is it?\n" +
			"   gnntrain --teacher my.json                          # and imitate it\n" +
			"   gnnsched tune --method tabular-q --out q.json       # seconds",
		Flags: []ucli.Flag{
			&ucli.StringFlag{Name: "method", Value: linearMethod, Usage: "`METHOD`: " + linearMethod + " (the cross-entropy method), or " + tabularMethod + " (the tabular Q agent, the historical baseline)"},
			&ucli.StringFlag{Name: "scenario", Value: "family", Usage: "`NAME` or YAML file of the workloads to tune on"},
			&ucli.StringFlag{Name: "out", Value: "linear.json", Usage: "`FILE` to write"},
			&ucli.StringFlag{Name: "from", Value: tuning.FromZero, Usage: "the weights to start from: " + tuning.FromZero + ", a `NAME` that the program carries (" + strings.Join(linear.TunedNames(), ", ") + "), or a FILE in .json"},
			&ucli.StringFlag{Name: "features", Usage: "`NAMES` of the features whose weights are tuned, the others' staying as they were; default: all"},
			&ucli.StringFlag{Name: "name", Value: "linear", Usage: "`NAME` of the policy in tables"},
			&ucli.IntFlag{Name: "generations", Value: 30, Usage: "to go through"},
			&ucli.IntFlag{Name: "population", Value: 32, Usage: "weights tried a generation; a quarter of them is kept"},
			&ucli.IntFlag{Name: "episodes", Value: 24, Usage: "that each is tried on"},
			&ucli.Float64Flag{Name: "spread", Value: 0.5, Usage: "standard deviation of each weight at the start; from zero it is of no consequence, since a larger one only scales the weights"},
			&ucli.Float64Flag{Name: "wait-weight", Value: 40, Usage: "what one percentage point more of pods that must wait weighs against one percent of the objective"},
			&ucli.IntFlag{Name: "steps", Value: tabular.DefaultConfig().Steps, Usage: "placements that the tabular Q agent learns from"},
			&ucli.IntFlag{Name: "held-out", Value: 20, Usage: "`NUMBER` of episodes, of the seeds that gnnsched eval starts with, on which the weights are judged in the end; 0 for none"},
			&ucli.Uint64Flag{Name: "seed", Value: 1, Usage: "of what is drawn"},
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
	switch m := c.String("method"); m {
	case linearMethod:
		return tuneLinear(c, found[0])
	case tabularMethod:
		return tuneTabular(c, found[0])
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
