//go:build !service

package main

import (
	"os"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/compare"
	"gnnsched/cmd/internal/convert"
	"gnnsched/cmd/internal/plan"
	"gnnsched/cmd/internal/trial"
	"gnnsched/cmd/internal/work"
	"gnnsched/internal/cli"
	"gnnsched/internal/logging"
	"gnnsched/internal/workers"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/eval/live"
	"gnnsched/scheduler/eval/remote"
	"gnnsched/scheduler/eval/testbed"
)

func soakCommand() *ucli.Command {
	return &ucli.Command{
		Name:  "soak",
		Usage: "run schedulers for long while pods come and go and everything fails, and count what became of each pod",
		Description: "It starts a simulated cluster, schedulers with seven profiles (one of them learning, if gnntrain is built, and one\n" +
			"with --share), a rival with a lease of its own and one that watches with --shadow, and kills them at random, loses\n" +
			"nodes and swaps checkpoints. Afterwards it counts, from etcd's history: no pod\n" +
			"may be lost or bound twice, no GPU device given twice, by annotations or by claims, and the schedulers' memory may not " +
			"grow. It touches no\nother cluster. Exit code 99: something happened that must not; the pods are listed. " +
			"Ctrl-C prints the count so far.\n\nExamples:\n" +
			"   gnnsched soak                          # ten minutes\n" +
			"   gnnsched soak --for 45s --seed 7       # a short one, with other pods and faults\n" +
			"   gnnsched soak --for 8h --every 30s     # over night, with fewer faults",
		Flags: []ucli.Flag{
			&ucli.DurationFlag{Name: "for", Value: 10 * time.Minute, Usage: "let pods come and go for `TIME`; the count takes a minute or two more"},
			&ucli.Uint64Flag{Name: "seed", Value: 1, Usage: "`SEED` of the pods and the faults"},
			&ucli.IntFlag{Name: "nodes", Value: 20, Usage: "`NUMBER` of nodes; a third has eight GPUs each"},
			&ucli.IntFlag{Name: "pods", Value: 300, Usage: "`NUMBER` of pods that exist at the same time"},
			&ucli.DurationFlag{Name: "every", Value: 5 * time.Second, Usage: "mean `TIME` from the recovery from a fault to the next fault"},
		},
		Action: cli.FlagsOnly(runSoak),
	}
}

func runSoak(c *ucli.Context) error {
	program, err := testbed.FindProgram()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	trainer, err := cli.FindProgram("gnntrain")
	if err != nil {
		trainer = "" // the soak reports it
	}
	logging.DropKlog() // etcd's client complains there whenever the cluster is killed
	return live.Soak{
		For: c.Duration("for"), Seed: c.Uint64("seed"), Nodes: c.Int("nodes"), Pods: c.Int("pods"),
		Every: c.Duration("every"), Kwokcluster: string(program), Scheduler: self, Trainer: trainer,
		Out: c.App.Writer,
	}.Run(c.Context)
}

func init() {
	laboratory = func() []*ucli.Command {
		return []*ucli.Command{
			trial.Eval(), work.Command(episodes), trial.Tune(version), compare.Command(), convert.Command(),
			plan.Command(compare.AutoscalerFlags(), compare.Nodes), trial.Try(), trial.Demo(), deployCommand(), cli.Manual(), doctorCommand(),
			soakCommand(),
		}
	}
}

// episodes plays those of other processes.
func episodes() map[string]workers.Handler {
	player := &remote.Player{Contender: contender.Of}
	courses := &compare.Player{}
	return map[string]workers.Handler{remote.Kind: player.Play, compare.Kind: courses.Play}
}
