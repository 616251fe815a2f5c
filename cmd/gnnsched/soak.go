//go:build !service

package main

import (
	"os"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/internal/logging"
	"gnnsched/scheduler/eval/soak"
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
			"   gnnsched soak --for 8h --every 30s     # over night, with fewer faults\n" +
			"   gnnsched soak --schedulers 1           # no leader election: the scheduler outlives the cluster's restarts",
		Flags: []ucli.Flag{
			&ucli.DurationFlag{Name: "for", Value: 10 * time.Minute, Usage: "let pods come and go for `TIME`; the count takes a minute or two more"},
			&ucli.Uint64Flag{Name: "seed", Value: 1, Usage: "`SEED` of the pods and the faults"},
			&ucli.IntFlag{Name: "nodes", Value: 20, Usage: "`NUMBER` of nodes; a third has eight GPUs each"},
			&ucli.IntFlag{Name: "pods", Value: 300, Usage: "`NUMBER` of pods that exist at the same time"},
			&ucli.Float64Flag{Name: "rate", Usage: "create at most `PODS` a second; 0: as many as get bound"},
			&ucli.DurationFlag{Name: "every", Value: 5 * time.Second, Usage: "mean `TIME` from the recovery from a fault to the next fault"},
			&ucli.IntFlag{Name: "schedulers", Value: 2, Usage: "`NUMBER` of schedulers besides the rival and the shadow; of several one leads"},
			&ucli.StringFlag{Name: "kwokcluster", Usage: "`PATH` of kwokcluster; default: in the directory of this program, else in PATH"},
		},
		Action: cli.FlagsOnly(runSoak),
	}
}

func runSoak(c *ucli.Context) error {
	program, err := testbed.FindProgram(c.String("kwokcluster"))
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
	return soak.Run(c.Context, soak.Config{
		For: c.Duration("for"), Seed: c.Uint64("seed"), Nodes: c.Int("nodes"), Pods: c.Int("pods"), Rate: c.Float64("rate"),
		Every: c.Duration("every"), Schedulers: c.Int("schedulers"), Kwokcluster: string(program), Scheduler: self, Trainer: trainer,
		Out: c.App.Writer,
	})
}
