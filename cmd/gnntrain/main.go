//go:build torch

// Command gnntrain trains a network and writes it as a checkpoint: in the simulator, for GPU clusters
// (gnntrain gpu), or with the placements of a running scheduler (--online). gnntrain pick takes the best of several
// runs. It is the one program that links libtorch. `make trainer` builds it.
package main

import (
	"os"
	"slices"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/man"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/tensorboard"
	"gnnsched/scheduler/learn/flags"
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
		Commands: append(commands(), man.Command("gnntrain", commit, commands)),
		Flags:    slices.Concat(runFlags(), onlineFlags(), flags.All()),
		Action:   dispatch,
	}
}

// commands lists the commands that the help shows.
func commands() []*ucli.Command {
	return []*ucli.Command{gpuCommand(), pickCommand()}
}

// runFlags returns the flags that are not hyperparameters.
func runFlags() []ucli.Flag {
	return append([]ucli.Flag{
		&ucli.StringFlag{Name: "variant", Value: "gnn", Usage: "`NAME`: gnn or dqn (deep Q-learning), acgnn or acdqn (actor-critic)"},
		&ucli.StringFlag{Name: "config", Usage: "YAML `FILE` with hyperparameters, clusters and workloads; flags take precedence"},
		&ucli.BoolFlag{Name: "print-config", Usage: "print the configuration and exit"},
		&ucli.StringFlag{Name: "scenario", Usage: "learn on the clusters and workloads of the scenario of this `NAME`"},
		&ucli.StringFlag{Name: "trace", Usage: "learn on the nodes and pods of a `RECORD` (gnnsched record); the last two fifths of its time are kept, one to choose the best network and one to judge it"},
	}, fileFlags("VARIANT.safetensors", "the name of --out with .state, or .online with --online")...)
}

// fileFlags returns the flags of every training in the simulator that say where its files are and how
// it shows progress. out and state are the defaults of --out and --state.
func fileFlags(out, state string) []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: "out", Usage: "`FILE` to write the best network to; default: " + out},
		&ucli.StringFlag{Name: "state", Usage: "state `FILE`, from which a stopped run continues; default: " + state},
		&ucli.BoolFlag{Name: "resume", Usage: "continue the run of the state file"},
		&ucli.StringFlag{Name: "events", Usage: "`DIR`ectory for TensorBoard's event files and " + tensorboard.ScalarsFile + "; default: logs/ with the name of --out"},
		&ucli.BoolFlag{Name: "progress", Usage: "show a progress bar", DefaultText: "on a terminal"},
		&ucli.BoolFlag{Name: "log-scrolling", Usage: "print a line at each report instead, every few hundred placements"},
	}
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
