package trial

import (
	"fmt"
	"os"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/progress"
	"gnnsched/cmd/internal/work"
	"gnnsched/internal/cli"
	migslices "gnnsched/internal/cluster/mig"
	"gnnsched/internal/exit"
	"gnnsched/internal/seeds"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/eval/migrun"
	"gnnsched/scheduler/learn/cem"
	learn "gnnsched/scheduler/learn/partition"
	"gnnsched/scheduler/policy/partition"
)

// migPolicies are compared by default: upstream's first fit, published rules, ours, and
// policies that treat a partition as a share of a GPU.
const migPolicies = "first-fit:kube-scheduler,mig:first-fit,mig:best-fit,mig:placements,mig:blocked," +
	"mig:fgd,mig:value,gpu-best-fit,fgd,gpu-gnn"

var migFormats = []string{"table", "markdown", "csv", "json"}

// migCommand returns the command.
func migCommand() *ucli.Command {
	var mixes strings.Builder
	for _, m := range migrun.Mixes {
		fmt.Fprintf(&mixes, "   %-11s %s\n", m.Name, m.About)
	}
	return &ucli.Command{
		Name:  "mig",
		Usage: "compare policies on MIG partitions in the simulator",
		Description: "Pods request partitions of GPUs with MIG, and a partition may start on certain memory slices only. " +
			"Pods arrive until they\nhave requested 130% of the compute slices; one that fits nowhere is lost. With --steady they come and go, " +
			"and wait. The last row is a\nbound that no policy can exceed, by linear programming; on up to 8 GPUs the row optimum is " +
			"the exact one.\n\nMixes:\n" + mixes.String() + "\n" +
			"Policies: mig:RULE with the rules " + strings.Join(partition.Rules(), ", ") + ", or values that\n" +
			"`gnnsched tune --method mig` wrote (mig:FILE.json). All other policies see a partition as a share of a GPU; it starts where most\n" +
			"placements stay free. first-fit:POLICY chooses nodes by POLICY, and the GPU and the start as upstream's allocator of claims does.\n\n" +
			"Examples:\n" +
			"   gnnsched eval mig                                     # all mixes, seconds\n" +
			"   gnnsched eval mig --mix uniform --steady\n" +
			"   gnnsched eval mig --machines 1 --gpus 4 --seeds 30    # with the optimum\n" +
			"   gnnsched eval mig --models A100,H100 -o markdown\n" +
			"   gnnsched eval mig --out run && gnnsched report run    # as a page",
		Flags: cli.Grouped(append([]ucli.Flag{
			&ucli.StringSliceFlag{Name: "mix", Usage: "`NAMES` of mixes; default: all"},
			&ucli.StringSliceFlag{Name: "policies", Aliases: []string{"policy"}, Value: ucli.NewStringSlice(strings.Split(migPolicies, ",")...),
				Usage: "`NAMES` of policies, the baseline first"},
			&ucli.StringSliceFlag{Name: "checkpoint", Usage: "add a policy from a `FILE`, as in gnnsched eval; repeatable"},
			&ucli.StringSliceFlag{Name: "models", Value: ucli.NewStringSlice("A100"),
				Usage: "`NAMES` of the GPU models, A100 and H100; a pod requests a partition of one of them"},
			&ucli.IntFlag{Name: "machines", Value: 16, Usage: "`NUMBER` of machines of each model"},
			&ucli.IntFlag{Name: "gpus", Value: 8, Usage: "`NUMBER` of GPUs of each machine"},
			&ucli.IntFlag{Name: "seeds", Value: 10, Usage: "`NUMBER` of episodes for each policy"},
			&ucli.Uint64Flag{Name: "seed", Value: 1, Usage: "`SEED` of the first episode; the others follow it"},
			&ucli.BoolFlag{Name: "steady", Usage: "let pods come and go, and show allocation and waiting"},
			&ucli.Float64SliceFlag{Name: "load", Usage: "`LOADS` over the compute slices, such as 0.95; default: 0.6 to 1.3, " +
				"with --steady 0.8 to 1.05"},
			&ucli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "`FORMAT`: " + strings.Join(migFormats, ", ")},
		}, work.Flags()...), cli.Group{Heading: "on several processes or machines", Flags: work.FlagNames}),
		Action: cli.FlagsOnly(runMIG),
	}
}

func runMIG(c *ucli.Context) error {
	format, err := cli.Format(c, migFormats)
	if err != nil {
		return err
	}
	cfg, err := migConfig(c)
	if err != nil {
		return err
	}
	return play(c, func(progress eval.Progress) (*migrun.Report, error) {
		cfg.Progress = progress
		return migrun.Run(c.Context, cfg)
	}, func(r *migrun.Report) error { return writeReport(c.App.Writer, r, format) })
}

// Limits of a cluster. A node has 64 devices at most.
const (
	maxMachines = 1000
	maxGPUs     = 16 // whose pods a node has room for
)

// migConfig reads the flags.
func migConfig(c *ucli.Context) (cfg migrun.Config, err error) {
	cfg = migrun.Config{
		Machines: migrun.Machines{Each: c.Int("machines"), GPUs: c.Int("gpus")}, Steady: c.Bool("steady"),
		Loads: slices.Sorted(slices.Values(c.Float64Slice("load"))),
	}
	switch {
	case cfg.Machines.Each < 1 || cfg.Machines.Each > maxMachines:
		return cfg, exit.Usagef("--machines %d is outside 1 to %d", cfg.Machines.Each, maxMachines)
	case cfg.Machines.GPUs < 1 || cfg.Machines.GPUs > maxGPUs:
		return cfg, exit.Usagef("--gpus %d is outside 1 to %d", cfg.Machines.GPUs, maxGPUs)
	}
	if cfg.Seeds, err = seedsOf(c, 1); err != nil {
		return cfg, err
	}
	for _, l := range cfg.Loads {
		if !(l > 0 && l <= 10) {
			return cfg, exit.Usagef("--load %v: choose loads over 0 and up to 10; 0.95 requests 95%% of the compute slices", l)
		}
	}
	if len(cfg.Loads) == 0 {
		cfg.Loads = migrun.Loads
		if cfg.Steady {
			cfg.Loads = migrun.SteadyLoads
		}
	}
	if err := migWorkload(c, &cfg); err != nil {
		return cfg, err
	}
	cfg.Contenders, err = contender.List(c.StringSlice("policies"), c.StringSlice("checkpoint"))
	for _, x := range cfg.Contenders {
		if x.Play != nil {
			return cfg, exit.Usagef("--policies: %s is no policy", x.Name)
		}
	}
	return cfg, err
}

// migWorkload reads --models and --mix.
func migWorkload(c *ucli.Context, cfg *migrun.Config) error {
	for _, name := range c.StringSlice("models") {
		m, err := migrun.FindModel(name)
		if err != nil {
			return exit.New(exit.Usage, fmt.Errorf("--models: %w", err), "")
		}
		if slices.Contains(cfg.Machines.Models, m) {
			return exit.Usagef("--models: %s is there twice", name)
		}
		cfg.Machines.Models = append(cfg.Machines.Models, m)
	}
	for _, name := range c.StringSlice("mix") {
		m, err := migrun.FindMix(name)
		if err != nil {
			return exit.New(exit.Usage, fmt.Errorf("--mix: %w", err), "")
		}
		cfg.Mixes = append(cfg.Mixes, m)
	}
	if len(cfg.Mixes) == 0 {
		cfg.Mixes = migrun.Mixes
	}
	return nil
}

// tuneMIG learns values for mig:FILE.json and writes them to the file of --out.
func tuneMIG(c *ucli.Context) error {
	cfg := learn.DefaultConfig()
	cfg.Seed, cfg.Generations, cfg.Population, cfg.Episodes = c.Uint64("seed"), c.Int("generations"), c.Int("population"), c.Int("episodes")
	if err := seeds.CheckTraining(cfg.Seed); err != nil {
		return exit.New(exit.Usage, fmt.Errorf("--seed: %w", err), "")
	}
	out := c.String("out")
	if !c.IsSet("out") {
		out = "mig.json"
	}
	if err := cli.Writable(out); err != nil {
		return err
	}
	var left progress.Left
	left.After(0)
	v, weights, err := learn.Train(c.Context, cfg, func(g cem.Generation) {
		fmt.Fprintf(c.App.ErrWriter, "generation %d: the elite leaves %.3f%% idle%s\n",
			g.Number, 100*g.Elite, left.After(float64(g.Number)/float64(cfg.Generations)))
	})
	if err != nil {
		return err
	}
	b, err := v.Marshal(fmt.Sprintf("gnnsched tune --method mig --seed %d --generations %d --population %d --episodes %d",
		cfg.Seed, cfg.Generations, cfg.Population, cfg.Episodes))
	if err != nil {
		return err
	}
	if err := os.WriteFile(out, b, 0o644); err != nil {
		return exit.New(exit.Usage, err, "choose a place that you can write to with --out")
	}
	for i, f := range migslices.Features {
		fmt.Fprintf(c.App.Writer, "%-10s %8.4f  %s\n", f.Name, weights[i], f.About)
	}
	fmt.Fprintf(c.App.Writer, "wrote %s; gnnsched eval mig --policies mig:fgd,mig:value,mig:%s judges it\n", out, out)
	return nil
}
