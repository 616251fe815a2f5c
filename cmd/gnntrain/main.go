//go:build torch

// Command gnntrain trains a network in the simulator and writes it as a checkpoint. It is
// the one program that links libtorch; `make trainer` builds it.
package main

import (
	"os"
	"slices"

	ucli "github.com/urfave/cli/v2"

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
		Name: "gnntrain", HideHelpCommand: true, Version: commit,
		Usage: "train a scheduler's network in the simulator",
		Description: "Reinforcement learning on random clusters and workloads: deep Q-learning (gnn, dqn) or\n" +
			"proximal policy optimisation (acgnn, acdqn), with a graph network (gnn, acgnn) or without\n" +
			"messages. It starts from imitation of a heuristic, evaluates on held-out workloads as it goes\n" +
			"and writes the best network. A run that was stopped or killed goes on with --resume, and ends\n" +
			"where it would have ended.\n\n" +
			"Examples:\n" +
			"   gnntrain                                  # a few minutes; writes gnn.safetensors\n" +
			"   gnntrain --variant acdqn --steps 200000   # actor-critic without messages\n" +
			"   gnntrain --variant acdqn --resume         # goes on with it after Ctrl-C, or worse\n" +
			"   gnntrain --print-config >my.yaml && gnntrain --config my.yaml --out my.safetensors\n" +
			"   rungnn --checkpoint my.safetensors        # schedules with what was learned",
		Commands: []*ucli.Command{gpuCommand()},
		Flags:    slices.Concat(runFlags(), onlineFlags(), flags.All()),
		Action:   dispatch,
	}
}

func runFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: "variant", Value: "gnn", Usage: "`NAME`: gnn or dqn (deep Q-learning), acgnn or acdqn (actor-critic)"},
		&ucli.StringFlag{Name: "config", Usage: "YAML `FILE` with the hyperparameters and what to learn on; flags take precedence"},
		&ucli.BoolFlag{Name: "print-config", Usage: "print the configuration and exit"},
		&ucli.StringFlag{Name: "scenario", Usage: "learn on the clusters and workloads of the scenario of this `NAME`"},
		&ucli.StringFlag{Name: "out", Usage: "`FILE` to write the best network to; default: VARIANT.safetensors"},
		&ucli.StringFlag{Name: "state", Usage: "`FILE` for what a stopped run goes on from; default: that of --out and .state, or .online with --online"},
		&ucli.BoolFlag{Name: "resume", Usage: "go on with the run whose state is stored"},
		&ucli.StringFlag{Name: "events", Usage: "`DIR`ectory for TensorBoard's event files and " + tensorboard.ScalarsFile + "; default: logs/ and the name of --out"},
		&ucli.BoolFlag{Name: "progress", Usage: "show a progress bar", DefaultText: "on a terminal"},
		&ucli.BoolFlag{Name: "log-scrolling", Usage: "print a line every few hundred steps instead"},
	}
}

func dispatch(c *ucli.Context) error {
	if c.NArg() > 0 {
		return exit.Usagef("unexpected argument %q", c.Args().First())
	}
	if c.Bool("online") {
		return learnOnline(c)
	}
	return train(c)
}
