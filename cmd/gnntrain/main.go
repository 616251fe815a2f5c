// Command gnntrain trains a network and writes it as a checkpoint: one that sets prices of room for kinds of pods, one for GPU clusters
// (gnntrain gpu), or one that goes on with the placements of a running scheduler (--online). gnntrain pick takes the best of several
// runs. It is the one program that links libtorch. `make trainer` builds it, with the build tag torch. Without that tag it has its help and
// its manual pages, and every other command ends with an error.
package main

import (
	"os"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

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
		Description: "The network learns how long the pods of each kind will wait, from episodes on clusters where some nodes have\n" +
			"what few have. The rule linear plays the first episodes. What more the pods of a kind wait if a place is lost\n" +
			"is the price of a place. The network is evaluated on held-out episodes, and the best one is written. A stopped\n" +
			"or killed run continues with --resume, and gives the same network as an unbroken one. gnntrain gpu trains one\n" +
			"for GPU clusters.\n\n" +
			"Examples:\n" +
			"   gnntrain                                  # minutes; writes gnn.safetensors, as the shipped gnn is made\n" +
			"   gnntrain --resume                         # continues that run after Ctrl-C\n" +
			"   gnntrain --variant acgnn --scenario scarce-zones --scenario jobs --out my.safetensors\n" +
			"   gnntrain --trace prod.record --out my.safetensors    # on the record of your own cluster\n" +
			"   gnntrain --print-config >my.yaml && gnntrain --config my.yaml --out my.safetensors\n" +
			"   rungnn --checkpoint my.safetensors        # schedules with the trained network",
		Commands: []*ucli.Command{gpuCommand(), pickCommand(), cli.Manual()},
		Flags: cli.Grouped(slices.Concat(runFlags(), valueFlags(), fileFlags("VARIANT.safetensors"), onlineFlags()),
			cli.Group{Flags: "online"},
			cli.Group{Heading: "files and progress", Flags: "events progress log-scrolling"},
			cli.Group{Heading: "learning", Flags: "iterations hidden-layers learning-rate"}),
		Action: dispatch,
	}
}

// dispatch starts the kind of training that the flags ask for.
func dispatch(c *ucli.Context) error {
	if c.NArg() > 0 {
		return exit.Usagef("unexpected argument %q", c.Args().First())
	}
	if c.Bool("online") {
		for _, name := range strings.Fields("config seed iterations hidden-layers scenario trace start resume print-config") {
			if c.IsSet(name) {
				return exit.Usagef("--%s is for training in the simulator: leave it or --online out", name)
			}
		}
		return learnOnline(c)
	}
	return trainKinds(c)
}

// runFlags returns the flags of a network on the graph of kinds.
func runFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: "variant", Value: "gnn",
			Usage: "`NAME`: gnn, dqn, or the actor-critics acgnn and acdqn; those that end in gnn see how many free places nodes have for each kind"},
		&ucli.StringSliceFlag{Name: "scenario", DefaultText: strings.Join(value.KindDefaults().Scenarios, ", "),
			Usage: "learn on the clusters and workloads of the scenario of this `NAME` or file; may be repeated"},
		&ucli.StringFlag{Name: "trace", Usage: "learn on the nodes and pods of a `RECORD` (gnnsched record); " +
			"the last two fifths of its time are for validation and test"},
	}
}

// fileFlags returns the flags of every training in the simulator that say where its files are and how
// it shows progress. out is the default of --out.
func fileFlags(out string) []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: "out", Usage: "`FILE` to write the best network to; default: " + out},
		&ucli.BoolFlag{Name: "resume", Usage: "continue a run that was stopped, from the state that it left beside --out"},
		&ucli.StringFlag{Name: "events", Usage: "`DIR`ectory for TensorBoard's event files; default: logs/ with the name of --out"},
		&ucli.BoolFlag{Name: "progress", Usage: "show a progress bar", DefaultText: "on a terminal"},
		&ucli.BoolFlag{Name: "log-scrolling", Usage: "print a line after each iteration instead"},
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
			"files are those of the openb trace; docs/results/gpu.md tells where to get them. The family's typical pods are\n" +
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

// valueFlags returns the flags of both trainings of values.
func valueFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: "start", Usage: "checkpoint `FILE` of a network to begin with, of the same architecture, " +
			"instead of random weights"},
		&ucli.StringFlag{Name: "config", Usage: "YAML `FILE` with the hyperparameters; flags take precedence"},
		&ucli.BoolFlag{Name: "print-config", Usage: "print the configuration and exit"},
		&ucli.Uint64Flag{Name: "seed", Value: value.Defaults().Seed, Usage: "`SEED` of everything random"},
		&ucli.IntFlag{Name: "iterations", DefaultText: "60 for gpu, else 50", Usage: "`NUMBER` of iterations, each of which plays episodes and learns"},
		&ucli.IntFlag{Name: "hidden-layers", DefaultText: "64 for gpu, else 16", Usage: "`WIDTH` of the hidden layers"},
		&ucli.Float64Flag{Name: "learning-rate", DefaultText: "0.001", Usage: "`RATE` of Adam at the start; it falls linearly to a twentieth"},
	}
}

func pickCommand() *ucli.Command {
	return &ucli.Command{
		Name: "pick", Usage: "take the best of several runs of one configuration with different seeds", ArgsUsage: "FILE FILE...",
		Description: "The runs must differ in nothing but the seed. Each network was judged on the same held-out workloads when it\n" +
			"was written; the one with the lowest score is copied to --out, with the typical pods beside it. The scores of all are printed.\n" +
			"Those workloads also chose each run's network, so luck is in their scores.\n\n" +
			"Example:\n" +
			"   for s in 1 2 3; do gnntrain --config my.yaml --seed $s --out my-$s.safetensors; done\n" +
			"   gnntrain pick --out my.safetensors my-1.safetensors my-2.safetensors my-3.safetensors",
		Flags: []ucli.Flag{
			&ucli.StringFlag{Name: "out", Required: true, Usage: "`FILE` to write the best network to"},
		},
		Action: pick,
	}
}
