// Command gnntrain trains a network and writes it as a checkpoint: in the simulator, for GPU clusters
// (gnntrain gpu), or with the placements of a running scheduler (--online). gnntrain pick takes the best of several
// runs. It is the one program that links libtorch. `make trainer` builds it, with the build tag torch. Without that tag it has its help and
// its manual pages, and every other command ends with an error.
package main

import (
	"os"
	"slices"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/work"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/learn"
	"gnnsched/scheduler/learn/value"
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
		Commands: []*ucli.Command{gpuCommand(), kindsCommand(), pickCommand(), work.Command(program()), cli.Manual()},
		Flags: cli.Grouped(slices.Concat(runFlags(), work.Flags(), onlineFlags(), learn.Flags()),
			cli.Group{Flags: "steps seed teacher online"},
			cli.Group{Heading: "files and progress", Flags: "events progress log-scrolling"},
			cli.Group{Heading: "on several processes or machines", Flags: work.FlagNames},
			cli.Group{Heading: "learning", Flags: "method hidden-layers gamma learning-rate batch-size use-heuristic"},
			cli.Group{Heading: "deep Q-learning", Flags: "init-epsi epsi-decay replay-buffer-size target-update-frequency update-frequency"},
			cli.Group{Heading: "actor-critic", Flags: "actor-learning-rate critic-learning-rate"}),
		Action: dispatch,
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

// runFlags returns the flags that are not hyperparameters.
func runFlags() []ucli.Flag {
	return append([]ucli.Flag{
		&ucli.StringFlag{Name: "variant", Value: "gnn",
			Usage: "`NAME`: gnn, dqn, or the actor-critics acgnn and acdqn; those that end in gnn send messages"},
		&ucli.StringFlag{Name: "config", Usage: "YAML `FILE` with hyperparameters, clusters and workloads; flags take precedence"},
		&ucli.BoolFlag{Name: "print-config", Usage: "print the configuration and exit"},
		&ucli.StringFlag{Name: "start", Usage: "checkpoint `FILE` of a network to begin with, of the same architecture, " +
			"instead of random weights"},
		&ucli.StringFlag{Name: "scenario", Usage: "learn on the clusters and workloads of the scenario of this `NAME`"},
		&ucli.StringFlag{Name: "trace", Usage: "learn on the nodes and pods of a `RECORD` (gnnsched record); " +
			"the last two fifths of its time are for validation and test"},
	}, fileFlags("VARIANT.safetensors")...)
}

// fileFlags returns the flags of every training in the simulator that say where its files are and how
// it shows progress. out is the default of --out.
func fileFlags(out string) []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: "out", Usage: "`FILE` to write the best network to; default: " + out},
		&ucli.BoolFlag{Name: "resume", Usage: "continue a run that was stopped, from the state that it left beside --out"},
		&ucli.StringFlag{Name: "events", Usage: "`DIR`ectory for TensorBoard's event files; default: logs/ with the name of --out"},
		&ucli.BoolFlag{Name: "progress", Usage: "show a progress bar", DefaultText: "on a terminal"},
		&ucli.BoolFlag{Name: "log-scrolling", Usage: "print a line at each report instead, every few hundred placements"},
	}
}

// onlineFlags returns the flags with which a scheduler that learns (rungnn --learn) starts its trainer.
func onlineFlags() []ucli.Flag {
	out := []ucli.Flag{
		&ucli.BoolFlag{Name: "online", Usage: "learn from the placements that a running scheduler writes to stdin, until stdin ends; " +
			"rungnn --learn starts this"},
		&ucli.StringFlag{Name: "init", Usage: "`FILE` with the weights to start from; learned weights go into the same file, " +
			"or that of --out, where a later start goes on. Default: --out, at first the shipped network of --variant"},
	}
	out = append(out, learn.OnlineFlags()...)
	for _, f := range out {
		learn.GroupFlag(f, "with --online")
	}
	return out
}

func gpuCommand() *ucli.Command {
	return &ucli.Command{
		Name: "gpu", Usage: "train a network for GPU clusters on workloads drawn from a trace",
		Description: "The network learns what each node contributes to the GPUs that are left idle though pods want them, at 60 to 130%\n" +
			"of requested GPUs. FGD plays the first episodes. Every episode has a new workload, drawn from the pods of the files. The\n" +
			"files are those of the openb trace; docs/gpu.md tells where to get them. The family's typical pods are\n" +
			"written beside the network; a scheduler begins with them.\n\n" +
			"Examples:\n" +
			"   gnntrain gpu --data openb/csv                      # learns from all pod lists there; writes gpu-gnn.safetensors\n" +
			"   gnntrain gpu --data openb/csv --resume             # continues that run after Ctrl-C\n" +
			"   gnntrain gpu --print-config >my.yaml && gnntrain gpu --config my.yaml --nodes nodes.csv --pods pods.csv --out my.safetensors",
		Flags: cli.Grouped(slices.Concat([]ucli.Flag{
			&ucli.StringFlag{Name: "data", Usage: "`DIR`ectory of the trace: openb_node_list_gpu_node.csv and all openb_pod_list_*.csv"},
			&ucli.StringFlag{Name: "nodes", Usage: "CSV `FILE` of the nodes, instead of the one in --data"},
			&ucli.StringSliceFlag{Name: "pods", Usage: "CSV `FILE` of pods, instead of those in --data; may be repeated"},
			&ucli.BoolFlag{Name: "typical-only", Usage: "write only the typical pods of the files beside --out, " +
				"for a network that was trained on them"},
		}, valueFlags(), fileFlags("gpu-gnn.safetensors for gnn, gpu-dqn for mlp, gpu-linear for linear, "+
			"and gpu-acgnn or gpu-acdqn for an actor-critic")),
			cli.Group{Heading: "files and progress", Flags: "events progress log-scrolling"}),
		Action: trainGPU,
	}
}

func kindsCommand() *ucli.Command {
	return &ucli.Command{
		Name: "kinds", Usage: "train a network that sets prices of room for kinds of pods",
		Description: "The network learns how long the pods of each kind will wait, from episodes on clusters where some nodes have\n" +
			"what few have. The rule linear plays the first episodes. What more the pods of a kind wait if a place is lost\n" +
			"is the price of a place.\n\n" +
			"Examples:\n" +
			"   gnntrain kinds                            # minutes; writes kinds-gnn.safetensors, as the shipped gnn is made\n" +
			"   gnntrain kinds --config scheduler/learn/value/runs/acgnn.yaml # the shipped acgnn; dqn and acdqn likewise\n" +
			"   gnntrain kinds --resume                   # continues that run after Ctrl-C\n" +
			"   gnntrain kinds --print-config >my.yaml && gnntrain kinds --config my.yaml --out my.safetensors",
		Flags: cli.Grouped(slices.Concat(valueFlags(), fileFlags("kinds-gnn.safetensors")),
			cli.Group{Heading: "files and progress", Flags: "events progress log-scrolling"}),
		Action: trainKinds,
	}
}

// valueFlags returns the flags of both trainings of values.
func valueFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: "start", Usage: "checkpoint `FILE` of a network to begin with, of the same architecture, " +
			"instead of random weights"},
		&ucli.StringFlag{Name: "config", Usage: "YAML `FILE` with the hyperparameters; flags take precedence"},
		&ucli.BoolFlag{Name: "print-config", Usage: "print the configuration and exit"},
		&ucli.Uint64Flag{Name: "seed", Value: value.Defaults().Seed, Usage: "`SEED` of everything random"},
	}
}

func pickCommand() *ucli.Command {
	return &ucli.Command{
		Name: "pick", Usage: "take the best of several runs of one job with different seeds", ArgsUsage: "FILE FILE...",
		Description: "The runs must differ in nothing but the seed. Each network was judged on the same held-out workloads when it\n" +
			"was written; the one with the lowest score is copied to --out, with the typical pods beside it. The scores of all are printed.\n" +
			"Those workloads also chose each run's network, so luck is in their scores. With --episodes, each network is judged again on\n" +
			"further ones.\n\n" +
			"Example:\n" +
			"   for s in 1 2 3; do gnntrain --config my.yaml --seed $s --out my-$s.safetensors; done\n" +
			"   gnntrain pick --out my.safetensors my-1.safetensors my-2.safetensors my-3.safetensors",
		Flags: []ucli.Flag{
			&ucli.StringFlag{Name: "out", Required: true, Usage: "`FILE` to write the best network to"},
			&ucli.IntFlag{Name: "episodes", Usage: "judge again on `NUMBER` further held-out episodes; not for networks of gpu and kinds"},
		},
		Action: pick,
	}
}

// program is this one for others of its kind.
func program() work.Program {
	return work.Program{
		Usage: "play rollouts for other machines",
		Description: "gnntrain --workers URL puts the rollouts of a run into a queue at that URL.\n" +
			"Workers of the same program, with the same libraries, on the same kind of processor take them; others get nothing, and say so.\n" +
			"So the weights are those of one process, to the last bit. " +
			"gnnsched work --help describes certificates.\n\nExamples:\n" +
			"   gnntrain work --listen 127.0.0.1:4222                                  # a queue and a worker\n" +
			"   gnntrain --config my.yaml --workers nats://127.0.0.1:4222              # … to which a run gives its rollouts",
		Work: "rollouts", Limit: 24 * time.Hour, Handlers: handlers,
	}
}
