package trial

import (
	"fmt"
	"os"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	migslices "gnnsched/internal/cluster/mig"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/learn/cem"
	"gnnsched/scheduler/sim"
)

// tuneMIGCommand returns the command tune mig.
func tuneMIGCommand() *ucli.Command {
	return &ucli.Command{
		Name:  "mig",
		Usage: "learn the cost of the states of a GPU with MIG, for the policy mig:FILE.json",
		Flags: append(searchFlags(),
			&ucli.StringFlag{Name: "out", Value: "mig.json", Usage: "`FILE` to write"}),
		Action: cli.FlagsOnly(tuneMIG),
	}
}

// tuneMIG learns values for mig:FILE.json and writes them to the file of --out.
func tuneMIG(c *ucli.Context) error {
	cfg := defaultConfig()
	cfg.Seed, cfg.Generations, cfg.Population, cfg.Episodes = c.Uint64("seed"), c.Int("generations"), c.Int("population"), c.Int("episodes")
	if err := sim.CheckTrainingSeed(cfg.Seed); err != nil {
		return exit.New(exit.Usage, fmt.Errorf("--seed: %w", err), "")
	}
	out := c.String("out")
	if err := cli.Writable(out); err != nil {
		return err
	}
	var left cli.TimeLeft
	left.After(0)
	v, weights, err := train(c.Context, cfg, func(g cem.Generation) {
		fmt.Fprintf(c.App.ErrWriter, "generation %d: the elite leaves %.3f%% idle%s\n",
			g.Number, 100*g.Elite, left.After(float64(g.Number)/float64(cfg.Generations)))
	})
	if err != nil {
		return err
	}
	b, err := v.Marshal(fmt.Sprintf("gnnsched tune mig --seed %d --generations %d --population %d --episodes %d",
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
	fmt.Fprintf(c.App.Writer, "wrote %s; gnnsched eval --scenario 'mig-*' --policies mig:fgd,mig:value,mig:%s judges it\n", out, out)
	return nil
}
