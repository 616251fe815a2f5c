// Command gnntrain trains a network and writes it as a checkpoint: in the simulator, for GPU clusters
// (gnntrain gpu), or with the placements of a running scheduler (--online). gnntrain pick takes the best of several
// runs. It is the one program that links libtorch. `make trainer` builds it, with the build tag torch. Without that tag it has its help and
// its manual pages, and every other command ends with an error.
package main

import (
	"os"
	"slices"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/work"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/learn"
)

// commit is set by the linker.
var commit = "unknown"

func main() { os.Exit(cli.Run(app(), os.Args)) }

func app() *ucli.App {
	return &ucli.App{
		Name: "gnntrain", HideHelpCommand: true, Version: commit, EnableBashCompletion: true,
		Usage: "train a scheduler's network in the simulator",
		Description: "Reinforcement learning on random clusters and workloads: deep Q-learning (gnn, dqn) or\n" +
			"proximal policy optimisation (acgnn, acdqn), with a graph network (gnn, acgnn) or one without\n" +
			"messages (dqn, acdqn). A run imitates a heuristic at first. It evaluates the network on held-out\n" +
			"workloads and writes the best one. A stopped or killed run continues with --resume, and gives\n" +
			"the same network as an unbroken one.\n\n" +
			"Examples:\n" +
			"   gnntrain                                  # a few minutes; writes gnn.safetensors\n" +
			"   gnntrain --variant acdqn --steps 200000   # actor-critic without messages\n" +
			"   gnntrain --variant acdqn --resume         # continues that run after Ctrl-C\n" +
			"   gnntrain --variant acgnn --trace prod.record --out my.safetensors    # for your own cluster\n" +
			"   gnntrain --print-config >my.yaml && gnntrain --config my.yaml --out my.safetensors\n" +
			"   rungnn --checkpoint my.safetensors        # schedules with the trained network",
		Commands: append(commands(), cli.Manual()),
		Flags: cli.Grouped(slices.Concat(runFlags(), work.Flags(), onlineFlags(), learn.Flags()),
			cli.Group{Flags: "steps seed teacher online"},
			cli.Group{Heading: "files and progress", Flags: "events progress log-scrolling"},
			cli.Group{Heading: "on several processes or machines", Flags: work.FlagNames},
			cli.Group{Heading: "learning", Flags: "method hidden-layers residual gamma learning-rate batch-size use-heuristic"},
			cli.Group{Heading: "deep Q-learning", Flags: "init-epsi epsi-decay replay-buffer-size target-update-frequency update-frequency"},
			cli.Group{Heading: "actor-critic", Flags: "actor-learning-rate critic-learning-rate"}),
		Action: dispatch,
	}
}

// commands lists the commands that the help shows.
func commands() []*ucli.Command {
	return []*ucli.Command{gpuCommand(), kindsCommand(), pickCommand(), work.Command(program())}
}

// dispatch starts the kind of training that the flags ask for.
func dispatch(c *ucli.Context) error {
	if c.NArg() > 0 {
		return exit.Usagef("unexpected argument %q", c.Args().First())
	}
	if c.Bool("online") {
		return learnOnline(c)
	}
	return train(c)
}
