// Package convert is the command `gnnsched convert`.
package convert

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/choice"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/workload"
)

// Command returns the command.
func Command() *ucli.Command {
	return &ucli.Command{
		Name:      "convert",
		Usage:     "make a record of kubectl's output, Prometheus or a trace, or pods of published measurements of machines",
		ArgsUsage: "FILE|DIR...",
		Description: "Records of machines become a shapes file: each pod requests what a machine was given, and uses what it used, at the\n" +
			"same time of day. runsim --shapes deploys them, and shapesFile adds them to a scenario of eval and gnntrain. A DIR means\n" +
			"its CSV files, and names that end in .gz are decompressed. The formats:\n" + formats() + "\n" +
			"If --out ends in .record, kubectl get -o json or -o yaml printed the files, and they become a record (docs/how-to/record.md).\n" +
			"A DIR means its .json and .yaml files and those below it, as kubectl cluster-info dump, must-gather and support bundles\n" +
			"write them. Files that list different namespaces or kinds are of one moment. The time of a file is when it was last\n" +
			"changed, or the newest time in it if that is later; - is standard input. Files that end\n" +
			"in .csv are a trace, as runsim --trace reads it, and a node list of openb; they become a record too, and so does\n" +
			"a trace of SimKube, which ends in .sktrace. --prometheus makes a record of the series of kube-state-metrics that a\n" +
			"Prometheus server has kept. If --out ends in .sktrace, a record becomes a trace of SimKube.\n\n" +
			"Examples:\n" +
			"   gnnsched convert --days 1 --out vms.yaml fastStorage/2013-8    # GWA-T-12: each machine has a file\n" +
			"   gnnsched convert --format azure --limit 200 --out azure.yaml vmtable.csv.gz vm_cpu_readings-file-1-of-195.csv.gz\n" +
			"   kubectl get pods,nodes -A -o json | gnnsched convert --out now.record -\n" +
			"   kubectl cluster-info dump -A --output-directory dump && gnnsched convert --out now.record dump\n" +
			"   gnnsched convert --out openb.record openb_node_list_gpu_node.csv openb_pod_list_default.csv\n" +
			"   gnnsched convert --out aaml.record plan.csv\n" +
			"   gnnsched convert --out sim.record trace.sktrace openb_node_list_gpu_node.csv\n" +
			"   gnnsched convert --out prod.sktrace prod.record\n" +
			"   gnnsched convert --prometheus https://prometheus:9090 --token-file token --from 2026-03-01T00:00:00Z --to 2026-04-01T00:00:00Z " +
			"--out march.record",
		Flags: cli.Grouped(append([]ucli.Flag{
			&ucli.StringFlag{Name: "format", Value: gwa.Name, Usage: "`FORMAT` of the record"},
			&ucli.StringFlag{Name: "out", Usage: "write to `FILE`; default: standard output"},
			&ucli.Float64Flag{Name: "step", Value: 300, Usage: "`SECONDS` of one value; the mean of what was measured in them"},
			&ucli.Float64Flag{Name: "days", Usage: "keep `NUMBER` days of each machine; 0 for all"},
			&ucli.IntFlag{Name: "limit", Usage: "read `NUMBER` machines at most; 0 for all"},
		}, append(prometheusFlags(), cli.LogFlags()...)...),
			cli.Group{Heading: "with --prometheus", Flags: cli.Names(prometheusFlags())}),
		Action: run,
	}
}

// formats describes the formats, one a line.
func formats() string {
	var out strings.Builder
	for _, f := range measuredFormats() {
		fmt.Fprintf(&out, "   %-20s %s\n", f.Name, f.About)
	}
	return out.String()
}

func run(c *ucli.Context) error {
	r, err := options(c)
	if err != nil {
		return err
	}
	if c.NArg() == 0 && !c.IsSet("prometheus") {
		return exit.Usagef("name the files of the record")
	}
	if to := c.String("out"); to != "" {
		if err := cli.Writable(to); err != nil {
			return err
		}
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
	if c.IsSet("prometheus") && !strings.HasSuffix(c.String("out"), ".record") {
		return exit.Usagef("--prometheus makes a record: name a folder with --out, such as march.record")
	}
	if strings.HasSuffix(c.String("out"), ".record") {
		return toRecord(c, log)
	}
	if isSimkube(c.String("out")) {
		return recordToSimkube(c, log)
	}
	if err := r.readMeasured(c.Context, c.Args().Slice()); err != nil {
		if c.Context.Err() != nil {
			return err
		}
		return exit.New(exit.Usage, err, "gnnsched convert --help lists the formats; of kubectl's output, let --out end in .record")
	}
	shapes, err := r.shapes()
	for _, n := range r.notes {
		log.Info().Msg(n)
	}
	var out bytes.Buffer
	if err == nil {
		err = workload.WriteShapes(&out, shapes)
	}
	if err != nil {
		return exit.New(exit.Usage, err, "a longer --step, or fewer --days, makes a series shorter")
	}
	if to := c.String("out"); to != "" {
		err = os.WriteFile(to, out.Bytes(), 0o600)
	} else {
		_, err = c.App.Writer.Write(out.Bytes())
	}
	if err == nil {
		log.Info().Int("machines", len(shapes)).Str("file", c.String("out")).Msg("converted")
	}
	return err
}

func options(c *ucli.Context) (r reading, err error) {
	r.step, r.days, r.limit = c.Float64("step"), c.Float64("days"), c.Int("limit")
	switch {
	case !(r.step >= 1 && r.step <= 86400):
		return r, exit.Usagef("--step %v is not 1 to 86400 seconds", r.step)
	case !(r.days >= 0 && r.days < 1e5) || r.limit < 0:
		return r, exit.Usagef("--days and --limit must be 0 or more")
	}
	r.format, err = choice.Find("format", c.String("format"), measuredFormats(), func(x *measuredFormat) string { return x.Name })
	if err != nil {
		return r, exit.New(exit.Usage, fmt.Errorf("--format: %w", err), "")
	}
	return r, nil
}
