package trial

import (
	"fmt"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/choice"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/learn/cem"
	"gnnsched/scheduler/learn/tabular"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/policy/stock"
	"gnnsched/scheduler/sim"
)

// The methods of tune.
const (
	linearMethod  = "linear"
	tabularMethod = "tabular-q"
)

// Tune returns the command tune. version is the program's.
func Tune(version string) *ucli.Command {
	return &ucli.Command{
		Name:  "tune",
		Usage: "fit the linear policy's weights, or kube-scheduler's own, to a scenario by the cross-entropy method",
		Description: "Each generation draws weights around those of the last one, tries them on the same episodes, and keeps the\n" +
			"best ones, compared with the default scoring. docs/reference/features.md lists the features.\n" +
			"By default all weights start at zero, so that the flags decide the result. The file holds the weights, the\n" +
			"command that repeats the run, and the results on other seeds. Ctrl-C stops early and writes the weights so\n" +
			"far, with the command that leads to them. With --method tabular-q, a tabular Q agent learns instead.\n\n" +
			"With --stock, the weights and strategies of kube-scheduler's own score plugins are tuned, for clusters where no other\n" +
			"scheduler may run. The file is a KubeSchedulerConfiguration: kube-scheduler --config reads it.\n\n" +
			"Examples:\n" +
			"   gnnsched tune                                       # minutes; writes linear.json\n" +
			"   gnnsched tune --scenario my.yaml --out my.json\n" +
			"   gnnsched tune --from linear --scenario my.yaml      # start from weights built into the program\n" +
			"   gnnsched eval --checkpoint my=my.json               # judge the weights\n" +
			"   gnnsched tune --stock --scenario my.yaml            # writes stock.yaml, a KubeSchedulerConfiguration\n" +
			"   gnnsched tune --stock --trace prod.record           # for your own cluster\n" +
			"   gnnsched eval --policies kube-scheduler,stock:stock.yaml --scenario my.yaml\n" +
			"   gnntrain --teacher my.json                          # train a network to imitate them\n" +
			"   gnnsched tune --method tabular-q --out q.json       # seconds\n" +
			"   gnnsched tune mig --out mig.json                    # for MIG partitions: gnnsched eval --scenario 'mig-*'",
		Flags: cli.Grouped(append([]ucli.Flag{
			&ucli.StringFlag{Name: "method", Value: linearMethod, Usage: "`METHOD`: " + linearMethod + " (the cross-entropy method) or " +
				tabularMethod + " (a tabular Q agent, the historical baseline)"},
			&ucli.StringFlag{Name: "scenario", Value: "family", Usage: "`NAME` or YAML file of the workloads to tune on"},
			&ucli.StringFlag{Name: "trace", Usage: "tune on the nodes and pods of a `RECORD` (gnnsched record) instead, " +
				"and judge on the last fifth of its time"},
			resampleFlag(),
			&ucli.StringFlag{Name: "objective", Usage: "`OBJECTIVE` to tune for, instead of the scenario's, for example balance=1,pack=0.5"},
			&ucli.BoolFlag{Name: "stock", Usage: "tune kube-scheduler's own score plugins and write a KubeSchedulerConfiguration"},
			&ucli.StringFlag{Name: "strategies", Value: strings.Join(choice.Names(stock.Strategies, choice.Text), ","),
				Usage: "with --stock: `NAMES` of the strategies of NodeResourcesFit to search, each for --generations"},
			&ucli.BoolFlag{Name: "free-preferences", Usage: "with --stock: let PodTopologySpread and TaintToleration weigh less against requests " +
				"than by default, down to no default spreading of replicas"},
			&ucli.StringFlag{Name: "out", Value: "linear.json", Usage: "`FILE` to write; with --stock stock.yaml by default"},
			&ucli.StringFlag{Name: "from", Value: cem.FromZero, Usage: "`WEIGHTS` to start from: " + cem.FromZero +
				", a name built into the program (" + strings.Join(linear.TunedNames(), ", ") + "), or a .json file"},
			&ucli.StringFlag{Name: "features", Usage: "`NAMES` of the features whose weights are tuned; " +
				"the other weights do not change; default: all"},
			&ucli.StringFlag{Name: "name", Value: "linear", Usage: "`NAME` of the policy in tables"},
			&ucli.IntFlag{Name: "stop-after", Usage: "end after this `NUMBER` of the generations, as Ctrl-C does; 0 for none"},
			&ucli.Float64Flag{Name: "spread", Value: 0.5, Usage: "standard `DEVIATION` of each weight at the start; " +
				"if all weights start at zero, it changes the scale of the scores but not their order"},
			&ucli.Float64Flag{Name: "wait-weight", Value: 40,
				Usage: "`PENALTY` for each additional percentage point of waiting pods, in percent of the objective"},
			&ucli.IntFlag{Name: "steps", Value: tabular.DefaultConfig().Steps,
				Usage: "`NUMBER` of placements from which the tabular Q agent learns"},
			&ucli.IntFlag{Name: "held-out", Value: 20,
				Usage: "judge the result on this `NUMBER` of episodes, which have gnnsched eval's first seeds; 0 for none"},
		}, searchFlags()...),
			cli.Group{Heading: "with --stock", Flags: "strategies free-preferences"},
			cli.Group{Heading: "the search", Flags: "population episodes spread wait-weight stop-after held-out features name steps resample"}),
		Subcommands: []*ucli.Command{tuneMIGCommand()},
		Action:      cli.FlagsOnly(func(c *ucli.Context) error { return runTune(c, version) }),
	}
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

func runTune(c *ucli.Context, version string) error {
	s, err := tuningScenarios(c)
	if err != nil {
		return err
	}
	if c.Bool("stock") {
		return tuneStock(c, s, version)
	}
	if err := refuse(c, "--%s has no meaning without --stock; leave it out", stockOnly...); err != nil {
		return err
	}
	switch m := c.String("method"); m {
	case linearMethod:
		return tuneLinear(c, s, version)
	case tabularMethod:
		return tuneTabular(c, s.learn)
	default:
		return exit.Usagef("--method %s is not known: choose %s or %s", m, linearMethod, tabularMethod)
	}
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

// tuneTabular trains a tabular Q agent. Its seeds differ from the seeds of the evaluation and of the network trainer.
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

// Flags that only one way of tuning has.
var (
	stockOnly    = []string{"strategies", "free-preferences"}
	notWithStock = []string{"method", "from", "features", "name", "steps"}
)

// stockFlags are the flags that decide the resulting profile.
var stockFlags = []string{
	"stock", "trace", "scenario", "resample", "objective", "strategies", "free-preferences", "generations", "stop-after", "population",
	"episodes", "spread", "wait-weight", "held-out", "seed",
}

// tuneStock tunes the score plugins of kube-scheduler.
func tuneStock(c *ucli.Context, s tuning, version string) error {
	if err := refuse(c, "--%s has no meaning with --stock; leave it out", notWithStock...); err != nil {
		return err
	}
	t := cem.StockTuner{Search: searchOf(c, s.learn), FreePreferences: c.Bool("free-preferences")}
	for _, name := range strings.Split(c.String("strategies"), ",") {
		t.Strategies = append(t.Strategies, stock.Strategy(strings.TrimSpace(name)))
	}
	if err := t.Validate(); err != nil {
		return exit.New(exit.Usage, err, "see gnnsched tune --help")
	}
	out := "stock.yaml"
	if c.IsSet("out") {
		out = c.String("out")
	}
	if err := checkTuning(c, t.Generations*len(t.Strategies), out); err != nil {
		return err
	}
	return searchStock(c, t, s, out, version)
}
