// Package convert is the command `gnnsched convert`.
package convert

import (
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
)

// Command returns the command.
func Command() *ucli.Command {
	return &ucli.Command{
		Name:      "convert",
		Usage:     "make a record of kubectl's output, Prometheus or a trace, or a trace of a record",
		ArgsUsage: "FILE|DIR...",
		Description: "If --out ends in .record, kubectl get -o json or -o yaml printed the files, and they become a record\n" +
			"(docs/how-to/record.md).\n" +
			"A DIR means its .json and .yaml files and those below it, as kubectl cluster-info dump, must-gather and support bundles\n" +
			"write them. Files that list different namespaces or kinds are of one moment. The time of a file is when it was last\n" +
			"changed, or the newest time in it if that is later; - is standard input. Files that end\n" +
			"in .csv are a trace, as runsim --trace reads it, and a node list of openb; they become a record too, and so does\n" +
			"a trace of SimKube, which ends in .sktrace. --prometheus makes a record of the series of kube-state-metrics that a\n" +
			"Prometheus server has kept. If --out ends in .sktrace, a record becomes a trace of SimKube.\n\n" +
			"Examples:\n" +
			"   kubectl get pods,nodes -A -o json | gnnsched convert --out now.record -\n" +
			"   kubectl cluster-info dump -A --output-directory dump && gnnsched convert --out now.record dump\n" +
			"   gnnsched convert --out openb.record openb_node_list_gpu_node.csv openb_pod_list_default.csv\n" +
			"   gnnsched convert --out aaml.record plan.csv\n" +
			"   gnnsched convert --out sim.record trace.sktrace openb_node_list_gpu_node.csv\n" +
			"   gnnsched convert --out prod.sktrace prod.record\n" +
			"   gnnsched convert --prometheus https://prometheus:9090 --token-file token --from 2026-03-01T00:00:00Z --to 2026-04-01T00:00:00Z " +
			"--out march.record",
		Flags: cli.Grouped(append([]ucli.Flag{
			&ucli.StringFlag{Name: "out", Usage: "write to `FILE`, which ends in .record or .sktrace"},
		}, append(prometheusFlags(), cli.LogFlags()...)...),
			cli.Group{Heading: "with --prometheus", Flags: cli.Names(prometheusFlags())}),
		Action: run,
	}
}

func run(c *ucli.Context) error {
	to := c.String("out")
	switch {
	case c.NArg() == 0 && !c.IsSet("prometheus"):
		return exit.Usagef("name the files of the record")
	case to == "":
		return exit.Usagef("name a folder with --out, such as now.record")
	case !strings.HasSuffix(to, ".record") && !isSimkube(to):
		return exit.Usagef("--out %s ends neither in .record nor in %s", to, simkube)
	}
	if err := cli.Writable(to); err != nil {
		return err
	}
	log, closer, err := cli.Log(c, "convert", false)
	if err != nil {
		return err
	}
	defer closer.Close()
	for _, f := range prometheusFlags() {
		if name := f.Names()[0]; c.IsSet(name) && !c.IsSet("prometheus") {
			return exit.Usagef("--%s goes with --prometheus only", name)
		}
	}
	switch {
	case !isSimkube(to):
		return toRecord(c, log)
	case c.IsSet("prometheus"):
		return exit.Usagef("--prometheus makes a record: name a folder with --out, such as march.record")
	}
	return recordToSimkube(c, log)
}
