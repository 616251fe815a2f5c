package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/work"
	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/choice"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/eval/published"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/workload/trace/openb"
)

func openBCommand() *ucli.Command {
	return &ucli.Command{
		Name:  "openb",
		Usage: "compare GPU allocation on the openb trace with the published figures",
		Description: "It repeats the published experiments with openb, a production trace with shared GPUs (Weng et al., Beware of\n" +
			"Fragmentation, USENIX ATC 2023). The pods of the trace arrive in random order, then more drawn from them, until\n" +
			"they have requested 130% of the cluster's GPUs. Pods that do not fit are dropped. The table shows the published\n" +
			"figures of six policies, and the same figures of any other policy. The trace is the folder data/csv of\n" +
			"github.com/hkust-adsl/kubernetes-scheduler-simulator.\n\n" +
			"Examples:\n" +
			"   gnnsched eval openb --data DIR                              # all pod lists in DIR, all published policies\n" +
			"   gnnsched eval openb --data DIR --workload default --check   # exit code 99 unless reproduced\n" +
			"   gnnsched eval openb --data DIR --curve --workload default,default+models40 --policies fgd,gpu-best-fit,gpu-gnn\n" +
			"   gnnsched eval openb --data DIR --steady --workload default  # pods come and go, and wait in a queue\n" +
			"   gnnsched eval openb --data DIR --power --workload default   # GPUs allocated against watts\n" +
			"   gnnsched eval openb --data DIR --policies fgd --checkpoint mine=logs/gpu.safetensors -o markdown\n" +
			cli.More + "\nPolicies and mixes:\n" + heuristic.Help() + networkHelp() + "   The mixes are " +
			strings.Join(published.VariantNames(), ", "),
		Flags: cli.Grouped(slices.Concat(openBFlags(), work.Flags(), cli.LogFlags()),
			cli.Group{Heading: "how the pods come", Flags: "factor node-order ties"},
			cli.Group{Heading: "with --steady", Flags: "days warm-up all totals"},
			cli.Group{Heading: "output", Flags: "check"},
			cli.Group{Heading: "on several processes or machines", Flags: work.FlagNames}),
		Action: cli.FlagsOnly(runOpenB),
	}
}

func openBFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: "data", Usage: "`FOLDER` with " + openb.NodesFile + " and the pod lists"},
		&ucli.StringSliceFlag{Name: "workload", Usage: "`NAMES` of pod lists, such as default, alone or in a mix, such as default+models40; " +
			"--help-all lists the mixes; default: all lists"},
		&ucli.IntFlag{Name: "seeds", Value: published.Seeds, Usage: "`NUMBER` of episodes for each policy"},
		&ucli.Uint64Flag{Name: "seed", Value: published.FirstSeed, Usage: "`SEED` of the first episode; the others follow it"},
		&ucli.StringSliceFlag{Name: "policies", Aliases: []string{"policy"},
			Usage: "`NAMES` of policies, the baseline first; default: " + strings.Join(published.Policies, ",")},
		&ucli.StringSliceFlag{Name: "checkpoint", Usage: "add a policy from a `FILE`, as in gnnsched eval; repeatable"},
		&ucli.Float64Flag{Name: "factor", Value: published.Factor,
			Usage: "stop when the pods have requested this `MULTIPLE` of the GPUs; figures are published for 1.3"},
		&ucli.StringFlag{Name: "node-order", Value: drawnOrder,
			Usage: "`ORDER` of the nodes, which breaks ties: drawn (at random by the seed) or file (the order of the file)"},
		&ucli.StringFlag{Name: "ties", Value: ownTies, Usage: "`RULE` for nodes with equal scores: own (the policy's rule), first, or random"},
		&ucli.BoolFlag{Name: "curve", Usage: "show allocation and pods left out at " + percents(published.Loads) + " of the GPUs"},
		&ucli.BoolFlag{Name: "steady", Usage: "let pods come and go, and show allocation and waiting at loads of " +
			percents(published.SteadyLoads) + ", or at --factor"},
		&ucli.BoolFlag{Name: "all", Usage: "for --steady, show the waiting of every class of pods with every policy, " +
			"also where hardly any pod waits"},
		&ucli.BoolFlag{Name: "totals", Usage: "for --steady, leave out the table of waiting by class of pods"},
		&ucli.Float64Flag{Name: "days", Value: published.SteadyDays,
			Usage: "for --steady, `NUMBER` of days after the warm-up"},
		&ucli.Float64Flag{Name: "warm-up", Value: published.SteadyWarmUp,
			Usage: "for --steady, `NUMBER` of days before the figures begin"},
		&ucli.BoolFlag{Name: "power", Usage: "show power and allocated GPUs, with arrivals of " +
			fmt.Sprintf("%.0f%%", 100*published.PowerFactor) + " of the GPUs; policies by default: " + strings.Join(published.PowerPolicies, ",")},
		&ucli.BoolFlag{Name: "check", Usage: "exit with code 99 unless every published figure is reproduced"},
		&ucli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "`FORMAT`: " + strings.Join(evalFormats, ", ")},
	}
}

// networkHelp lists the networks that the program carries.
func networkHelp() string {
	return "   and the networks " + strings.Join(checkpoint.ShippedNames(), ", ") + "; those that begin with gpu see GPUs\n"
}

// The values of --node-order and of --ties.
const (
	drawnOrder = "drawn"
	fileOrder  = "file"

	ownTies    = "own"
	firstTies  = "first"
	randomTies = "random"
)

func runOpenB(c *ucli.Context) error {
	format, err := cli.Format(c, evalFormats)
	if err != nil {
		return err
	}
	if err := checkPower(c); err != nil {
		return err
	}
	cfg, err := openBConfig(c)
	if err != nil {
		return err
	}
	write := func(r report) error { return writeReport(c.App.Writer, r, format) }
	switch {
	case c.Bool("power"):
		return playOpenB(c, cfg, published.RunPower, func(p published.Power) error { return write(p) })
	case c.Bool("steady"):
		return playOpenB(c, cfg, published.RunSteady, func(s published.Steady) error {
			s.All, s.Totals = c.Bool("all"), c.Bool("totals")
			return write(s)
		})
	case c.Bool("curve"):
		return playOpenB(c, cfg, published.RunCurve, func(r published.Curve) error { return write(r) })
	}
	return playOpenB(c, cfg, published.Run, func(r published.Report) error { return errors.Join(write(r), checked(c, r)) })
}

// playOpenB runs a comparison, and prints it.
func playOpenB[R any](
	c *ucli.Context, cfg published.Config, run func(context.Context, published.Config, eval.Progress) (R, error), print func(R) error,
) error {
	return play(c, func(progress eval.Progress) (R, error) { return run(c.Context, cfg, progress) }, print)
}

// checked returns an error if --check finds figures that are not reproduced.
func checked(c *ucli.Context, report published.Report) error {
	if c.Bool("check") && report.Held() == 0 {
		return exit.New(exit.Usage, errors.New("--check: no figures are published for these policies, workloads and factor"),
			"leave out --policies, --workload and --factor, or --check")
	}
	if missed := report.Missed(); c.Bool("check") && len(missed) > 0 {
		return exit.New(exit.Gate, fmt.Errorf("%d published figures are not reproduced:\n  %s", len(missed), strings.Join(missed, "\n  ")), "")
	}
	return nil
}

// openBConfig reads the flags.
func openBConfig(c *ucli.Context) (cfg published.Config, err error) {
	order := c.String("node-order")
	cfg = published.Config{
		Dir: c.String("data"), Workloads: c.StringSlice("workload"), Factor: c.Float64("factor"), InOrder: order == fileOrder,
	}
	ties := c.String("ties")
	switch {
	case cfg.Dir == "":
		return cfg, exit.Usagef("--data is missing: name the folder with %s and the pod lists", openb.NodesFile)
	case order != drawnOrder && order != fileOrder:
		return cfg, exit.Usagef("--node-order: %w", choice.Unknown("order", order, []string{drawnOrder, fileOrder}))
	case ties != ownTies && ties != firstTies && ties != randomTies:
		return cfg, exit.Usagef("--ties: %w", choice.Unknown("rule", ties, []string{ownTies, firstTies, randomTies}))
	case c.Bool("curve") && (c.IsSet("factor") || c.Bool("check")):
		return cfg, exit.Usagef("--curve has loads of its own and no published figures; leave out --factor and --check")
	case c.Bool("steady") && (c.Bool("curve") || c.Bool("check")):
		return cfg, exit.Usagef("--steady has loads of its own and no published figures; leave out --curve and --check")
	case c.Bool("all") && !c.Bool("steady"):
		return cfg, exit.Usagef("--all works with --steady only; the other tables are complete")
	case c.Bool("totals") && (!c.Bool("steady") || c.Bool("all")):
		return cfg, exit.Usagef("--totals leaves out a table of --steady, which --all makes longer; use it with --steady and without --all")
	case (c.IsSet("days") || c.IsSet("warm-up")) && !c.Bool("steady"):
		return cfg, exit.Usagef("--days and --warm-up work with --steady only; otherwise no pod leaves")
	case !(c.Float64("warm-up") >= 0 && c.Float64("warm-up") <= 1000):
		return cfg, exit.Usagef("--warm-up %v: choose a number from 0 to 1000", c.Float64("warm-up"))
	case !(c.Float64("days") > 0 && c.Float64("days") <= 1000):
		return cfg, exit.Usagef("--days %v: choose a number over 0 and up to 1000", c.Float64("days"))
	case c.Bool("steady") && !(cfg.Factor > 0 && cfg.Factor <= 10):
		return cfg, exit.Usagef("--factor %v: choose an offered load over 0 and up to 10; 0.95 requests 95%% of the GPUs on average", cfg.Factor)
	case !(cfg.Factor > 0 && cfg.Factor <= 100):
		return cfg, exit.Usagef("--factor %v: choose a number over 0 and up to 100; 1.3 requests 130%% of the GPUs", cfg.Factor)
	}
	if cfg.Seeds, err = seedsOf(c, 1); err != nil {
		return cfg, err
	}
	setLoads(c, &cfg)
	known, err := published.Workloads(cfg.Dir)
	if err != nil {
		return cfg, exit.New(exit.Usage, fmt.Errorf("--data: %w", err),
			"name the folder data/csv of a clone of github.com/hkust-adsl/kubernetes-scheduler-simulator")
	}
	if len(cfg.Workloads) == 0 {
		cfg.Workloads = known
	}
	for _, w := range cfg.Workloads {
		if err := published.CheckWorkload(w, known); err != nil {
			return cfg, exit.Usagef("--workload: %v", err)
		}
	}
	cfg.Contenders, err = openBContenders(c, ties)
	return cfg, err
}

// openBContenders reads --policies and --checkpoint.
func openBContenders(c *ucli.Context, ties string) ([]eval.Contender, error) {
	names := c.StringSlice("policies")
	if len(names) == 0 {
		names = usualPolicies(c)
	}
	out, err := contender.List(names, c.StringSlice("checkpoint"))
	for i := range out {
		if ties != ownTies {
			out[i].RandomTies = ties == randomTies
		}
	}
	return out, err
}

// usualPolicies returns the policies to compare when --policies is not set.
func usualPolicies(c *ucli.Context) []string {
	if c.Bool("power") {
		return published.PowerPolicies
	}
	return published.Policies
}

// checkPower checks the flags beside --power.
func checkPower(c *ucli.Context) error {
	switch {
	case !c.Bool("power"):
	case c.Bool("curve") || c.Bool("steady"):
		return exit.Usagef("--power, --curve and --steady show different tables; choose one")
	case c.IsSet("factor") || c.Bool("check"):
		return exit.Usagef("--power has loads of its own and no published allocations; leave out --factor and --check")
	}
	return nil
}

// setLoads sets the loads of --power, --curve and --steady.
func setLoads(c *ucli.Context, cfg *published.Config) {
	switch {
	case c.Bool("power"):
		cfg.Loads, cfg.Factor = published.PowerLoads, published.PowerFactor
	case c.Bool("curve"):
		cfg.Loads, cfg.Factor = published.Loads, slices.Max(published.Loads)
	case c.Bool("steady"):
		cfg.WarmUp, cfg.Days, cfg.Loads = c.Float64("warm-up"), c.Float64("days"), published.SteadyLoads
		if c.IsSet("factor") {
			cfg.Loads = []float64{cfg.Factor}
		}
	}
}

// percents lists loads as percentages.
func percents(loads []float64) string {
	var names []string
	for _, l := range loads {
		names = append(names, fmt.Sprintf("%.4g", 100*l))
	}
	return strings.Join(names, ", ") + "%"
}
