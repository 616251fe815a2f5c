package trial

import (
	"fmt"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/choice"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/learn/cem"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/policy/stock"
)

// Tune returns the command tune. version is the program's.
func Tune(version string) *ucli.Command {
	return &ucli.Command{
		Name:  "tune",
		Usage: "fit a policy's weights, or kube-scheduler's own, to a scenario by the cross-entropy method",
		Description: "Each generation draws weights around those of the last one, tries them on the same episodes, and keeps the\n" +
			"best ones. `gnnsched tune linear --help` says more.\n\n" +
			"Examples:\n" +
			"   gnnsched tune linear --scenario my.yaml --out my.json   # a weighted sum of features\n" +
			"   gnnsched tune stock --trace prod.record                 # kube-scheduler's own plugins, for your own cluster\n" +
			"   gnnsched tune mig --out mig.json                        # for MIG partitions: gnnsched eval --scenario 'mig-*'",
		Subcommands: []*ucli.Command{tuneLinearCommand(version), tuneStockCommand(version), tuneMIGCommand()},
		Action: func(c *ucli.Context) error {
			if c.NArg() > 0 {
				return cli.UnknownCommand("gnnsched tune", c.Args().First(), c.Command.Subcommands)
			}
			return ucli.ShowSubcommandHelp(c)
		},
	}
}

// tuneLinearCommand returns the command tune linear.
func tuneLinearCommand(version string) *ucli.Command {
	return &ucli.Command{
		Name:  "linear",
		Usage: "fit the weights of the linear policy",
		Description: "The weights are compared with the default scoring. docs/reference/features.md lists the features.\n" +
			"By default all weights start at zero, so that the flags decide the result. The file holds the weights, the\n" +
			"command that repeats the run, and the results on other seeds. Ctrl-C stops early and writes the weights so\n" +
			"far, with the command that leads to them.\n\n" +
			"Examples:\n" +
			"   gnnsched tune linear                                       # minutes; writes linear.json\n" +
			"   gnnsched tune linear --scenario my.yaml --out my.json\n" +
			"   gnnsched tune linear --from linear --scenario my.yaml      # start from weights built into the program\n" +
			"   gnnsched eval --checkpoint my=my.json                      # judge the weights\n" +
			"   gnntrain --teacher my.json                                 # train a network to imitate them",
		Flags: tuningFlags("linear.json",
			&ucli.StringFlag{Name: "from", Value: cem.FromZero, Usage: "`WEIGHTS` to start from: " + cem.FromZero +
				", a name built into the program (" + strings.Join(linear.TunedNames(), ", ") + "), or a .json file"},
			&ucli.StringFlag{Name: "features", Usage: "`NAMES` of the features whose weights are tuned; " +
				"the other weights do not change; default: all"},
			&ucli.StringFlag{Name: "name", Value: "linear", Usage: "`NAME` of the policy in tables"}),
		Action: tuneOn(version, tuneLinear),
	}
}

// tuneStockCommand returns the command tune stock.
func tuneStockCommand(version string) *ucli.Command {
	return &ucli.Command{
		Name:  "stock",
		Usage: "fit the weights and strategies of kube-scheduler's own score plugins, and write a KubeSchedulerConfiguration",
		Description: "It is for clusters where no other scheduler may run: kube-scheduler --config reads the file. The head of the file\n" +
			"holds the command that repeats the run, and the results on other seeds.\n\n" +
			"Examples:\n" +
			"   gnnsched tune stock --scenario my.yaml            # writes stock.yaml\n" +
			"   gnnsched tune stock --trace prod.record           # for your own cluster\n" +
			"   gnnsched eval --policies kube-scheduler,stock:stock.yaml --scenario my.yaml",
		Flags: tuningFlags("stock.yaml",
			&ucli.StringFlag{Name: "strategies", Value: strings.Join(choice.Names(stock.Strategies, choice.Text), ","),
				Usage: "`NAMES` of the strategies of NodeResourcesFit to search, each for --generations"},
			&ucli.BoolFlag{Name: "free-preferences", Usage: "let PodTopologySpread and TaintToleration weigh less against requests " +
				"than by default, down to no default spreading of replicas"}),
		Action: tuneOn(version, tuneStock),
	}
}

// tuningFlags are the flags of tuning on a scenario, with those of one command.
func tuningFlags(out string, own ...ucli.Flag) []ucli.Flag {
	return cli.Grouped(slices.Concat([]ucli.Flag{
		&ucli.StringFlag{Name: "scenario", Value: "family", Usage: "`NAME` or YAML file of the workloads to tune on"},
		&ucli.StringFlag{Name: "trace", Usage: "tune on the nodes and pods of a `RECORD` (gnnsched record) instead, " +
			"and judge on the last fifth of its time"},
		resampleFlag(),
		&ucli.StringFlag{Name: "objective", Usage: "`OBJECTIVE` to tune for, instead of the scenario's, for example balance=1,pack=0.5"},
		&ucli.StringFlag{Name: "out", Value: out, Usage: "`FILE` to write"},
		&ucli.IntFlag{Name: "stop-after", Usage: "end after this `NUMBER` of the generations, as Ctrl-C does; 0 for none"},
		&ucli.Float64Flag{Name: "spread", Value: 0.5, Usage: "standard `DEVIATION` of each weight at the start; " +
			"if all weights start at zero, it changes the scale of the scores but not their order"},
		&ucli.Float64Flag{Name: "wait-weight", Value: 40,
			Usage: "`PENALTY` for each additional percentage point of waiting pods, in percent of the objective"},
		&ucli.IntFlag{Name: "held-out", Value: 20,
			Usage: "judge the result on this `NUMBER` of episodes, which have gnnsched eval's first seeds; 0 for none"},
	}, own, searchFlags()),
		cli.Group{Heading: "the search", Flags: "population episodes spread wait-weight stop-after held-out resample"})
}

// searchFlags are the flags of every search by the cross-entropy method.
func searchFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.IntFlag{Name: "generations", Value: 30, Usage: "`NUMBER` of generations"},
		&ucli.IntFlag{Name: "population", Value: 32, Usage: "`NUMBER` of weight vectors in a generation; the best quarter is kept"},
		&ucli.IntFlag{Name: "episodes", Value: 24, Usage: "`NUMBER` of episodes on which each vector is tried"},
		&ucli.Uint64Flag{Name: "seed", Value: 1, Usage: "`SEED` of all random numbers"},
	}
}

// tuneOn returns the action of a command that tunes on a scenario.
func tuneOn(version string, run func(c *ucli.Context, s tuning, version string) error) ucli.ActionFunc {
	return cli.FlagsOnly(func(c *ucli.Context) error {
		s, err := tuningScenarios(c)
		if err != nil {
			return err
		}
		return run(c, s, version)
	})
}

// tuning holds the scenario to tune on and the one to judge on.
type tuning struct{ learn, judge eval.Scenario }

// tuningScenarios reads the flags about scenarios.
func tuningScenarios(c *ucli.Context) (tuning, error) {
	o := objective.Mix(nil)
	if text := c.String("objective"); text != "" {
		var err error
		if o, err = objective.Parse(text); err != nil {
			return tuning{}, exit.New(exit.Usage, fmt.Errorf("--objective: %w", err), "docs/reference/objectives.md lists the terms")
		}
	}
	if dir := c.String("trace"); dir != "" {
		return tuningOnRecord(c, dir, o)
	}
	found, err := scenarios(c, c.String("scenario"))
	if err != nil {
		return tuning{}, err
	}
	if len(found) != 1 {
		return tuning{}, exit.Usagef("--scenario %s holds %d scenarios, want one", c.String("scenario"), len(found))
	}
	if found, err = resampled(c, found); err != nil {
		return tuning{}, err
	}
	if o != nil {
		found[0].Objective = o
	}
	return tuning{found[0], found[0]}, nil
}

// tuningOnRecord divides a record. Without an objective it is balance.
func tuningOnRecord(c *ucli.Context, dir string, o objective.Mix) (tuning, error) {
	if err := refuse(c, "--%s has no meaning with --trace; leave it out", "scenario", "resample"); err != nil {
		return tuning{}, err
	}
	if o == nil {
		o = objective.Mix{{Term: objective.Balance{}, Weight: 1}}
	}
	r, err := eval.OfRecord(dir, o, eval.TwoParts)
	if err != nil {
		return tuning{}, exit.New(exit.Usage, fmt.Errorf("--trace: %w", err), "docs/how-to/train.md says how a record is divided")
	}
	fmt.Fprintln(c.App.ErrWriter, r)
	return tuning{r.Learn, r.Judge}, nil
}

// stockFlags are the flags that decide the resulting profile.
var stockFlags = []string{
	"trace", "scenario", "resample", "objective", "strategies", "free-preferences", "generations", "stop-after", "population",
	"episodes", "spread", "wait-weight", "held-out", "seed",
}

// tuneStock tunes the score plugins of kube-scheduler.
func tuneStock(c *ucli.Context, s tuning, version string) error {
	t := cem.StockTuner{Search: searchOf(c, s.learn), FreePreferences: c.Bool("free-preferences")}
	for _, name := range strings.Split(c.String("strategies"), ",") {
		t.Strategies = append(t.Strategies, stock.Strategy(strings.TrimSpace(name)))
	}
	if err := t.Validate(); err != nil {
		return exit.New(exit.Usage, err, "see gnnsched tune stock --help")
	}
	out := c.String("out")
	if err := checkTuning(c, t.Generations*len(t.Strategies), out); err != nil {
		return err
	}
	return searchStock(c, t, s, out, version)
}
