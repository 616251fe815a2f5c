package demo

import (
	"os"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/scheduler/eval/testbed"
)

// Command returns the command.
func Command() *ucli.Command {
	return &ucli.Command{
		Name:  "demo",
		Usage: "see where the networks pay: mixed nodes under load and a pool of GPUs, beside the default scheduler",
		Description: "It starts simulated clusters, deploys the same pods through a learned and the default scheduler, and\n" +
			"prints both results side by side, what is typical, and one decision. Then it removes the clusters. It\n" +
			"touches no other one.\n\n" +
			"Examples:\n" +
			"   gnnsched demo                            # about a minute\n" +
			"   gnnsched demo --seeds 5 --seed 20        # more workloads, and others\n" +
			"   gnnsched demo --no-view > results.txt    # lines instead of the live view",
		Flags: append([]ucli.Flag{
			&ucli.IntFlag{Name: "seeds", Value: 2, Usage: "`NUMBER` of workloads in each part; each is deployed once through each scheduler"},
			&ucli.Uint64Flag{Name: "seed", Value: 1, Usage: "`SEED` of the first workload; the others follow it"},
			&ucli.StringFlag{Name: "variant", Value: "gnn", Usage: "learned `PROFILE` for the part without GPUs: gnn, dqn, acgnn or acdqn"},
			&ucli.BoolFlag{Name: "no-view", Usage: "print lines instead of drawing the cluster"},
			&ucli.StringFlag{Name: "kwokcluster", Usage: "`PATH` of kwokcluster; default: in the directory of this program, else in PATH"},
		}, cli.LogFlags()...),
		Action: cli.FlagsOnly(runDemo),
	}
}

func runDemo(c *ucli.Context) error {
	draw := !c.Bool("no-view") && cli.IsTerminal(os.Stdout) && cli.IsTerminal(os.Stderr) && os.Getenv("TERM") != "dumb"
	log, closer, err := cli.Log(c, "demo", draw)
	if err != nil {
		return err
	}
	defer closer.Close()
	program, err := testbed.FindProgram(c.String("kwokcluster"))
	if err != nil {
		return err
	}
	return run(c.Context, config{
		Seeds: c.Int("seeds"), Seed: c.Uint64("seed"), Variant: c.String("variant"),
		Draw: draw, Launcher: program, LogDir: c.String("log-dir"), Log: log, Out: c.App.Writer, Err: c.App.ErrWriter,
	})
}
