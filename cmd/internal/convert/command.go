// Package convert is the command `gnnsched convert`.
package convert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/choice"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/workload"
	"gnnsched/workload/trace"
)

// Command returns the command.
func Command() *ucli.Command {
	return &ucli.Command{
		Name:      "convert",
		Usage:     "make pods of public records of what machines and jobs really used, and a record of kubectl's output or of a trace",
		ArgsUsage: "FILE|DIR...",
		Description: "Records of machines become a shapes file: each pod requests what a machine was given, and uses what it used, at the\n" +
			"same time of day. runsim --shapes deploys them, and shapesFile adds them to a scenario of eval and gnntrain.\n" +
			"Records of jobs become a trace: each pod leaves when it has done the work that the job did. A DIR means its CSV\n" +
			"files, and names that end in .gz are decompressed. The formats:\n" + formats() + "\n" +
			"If --out ends in .record, kubectl get -o json or -o yaml printed the files, and they become a record (docs/how-to/record.md).\n" +
			"A DIR means its .json and .yaml files and those below it, as kubectl cluster-info dump, must-gather and support bundles\n" +
			"write them. Files that list different namespaces or kinds are of one moment. The time of a file is when it was last\n" +
			"changed, or the newest time in it if that is later; - is standard input. Files that end\n" +
			"in .csv are a trace, as runsim --trace reads it, and a node list of openb; they become a record too. --prometheus\n" +
			"makes a record of the series of kube-state-metrics that a Prometheus server has kept.\n\n" +
			"Examples:\n" +
			"   gnnsched convert --days 1 --out vms.yaml fastStorage/2013-8    # GWA-T-12: each machine has a file\n" +
			"   gnnsched convert --part training --days 7 --out train.yaml vms.csv\n" +
			"   gnnsched convert --part judging --days 7 --out judge.yaml vms.csv   # the machines that train.yaml lacks\n" +
			"   gnnsched convert --format azure --limit 200 --out azure.yaml vmtable.csv.gz vm_cpu_readings-file-1-of-195.csv.gz\n" +
			"   gnnsched convert --no-requests --out jobs-trace.csv jobs.csv   # for runsim --trace and trace: in a scenario\n" +
			"   kubectl get pods,nodes -A -o json | gnnsched convert --out now.record -\n" +
			"   kubectl cluster-info dump -A --output-directory dump && gnnsched convert --out now.record dump\n" +
			"   gnnsched convert --out openb.record openb_node_list_gpu_node.csv openb_pod_list_default.csv\n" +
			"   gnnsched convert --out aaml.record plan.csv\n" +
			"   gnnsched convert --prometheus https://prometheus:9090 --token-file token --from 2026-03-01T00:00:00Z --to 2026-04-01T00:00:00Z " +
			"--out march.record",
		Flags: cli.Grouped(append([]ucli.Flag{
			&ucli.StringFlag{Name: "format", Usage: "`FORMAT` of the record; default: by the first line, which azure and alibaba do not have"},
			&ucli.StringFlag{Name: "out", Usage: "write to `FILE`; default: standard output"},
			&ucli.StringFlag{Name: "part", Value: string(All),
				Usage: "`PART` of the machines or jobs: " + parts() + "; a quarter is for judging, by name"},
			&ucli.Float64Flag{Name: "step", Value: 300, Usage: "`SECONDS` of one value; the mean of what was measured in them"},
			&ucli.Float64Flag{Name: "days", Usage: "keep `NUMBER` days of each machine; 0 for all"},
			&ucli.IntFlag{Name: "limit", Usage: "read `NUMBER` machines or jobs at most; 0 for all"},
			&ucli.Float64Flag{Name: "request-percentile",
				Usage: "machines' pods request this `PERCENTILE` of what was used, instead of what the machine was given"},
			&ucli.BoolFlag{Name: "no-requests", Usage: "jobs request nothing, instead of what they were given"},
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

func parts() string { return strings.Join(choice.Names(seriesParts(), choice.Text), ", ") }

func run(c *ucli.Context) error {
	o, err := options(c)
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
	w, err := read(c, o, log)
	if err != nil {
		return err
	}
	for _, n := range w.Notes {
		log.Info().Msg(n)
	}
	var out bytes.Buffer
	if err := write(&out, w, c.Float64("request-percentile"), !c.Bool("no-requests")); err != nil {
		hint := ""
		if len(w.Machines) > 0 {
			hint = "a longer --step, or fewer --days, makes a series shorter"
		}
		return exit.New(exit.Usage, err, hint)
	}
	if to := c.String("out"); to != "" {
		err = os.WriteFile(to, out.Bytes(), 0o600)
	} else {
		_, err = c.App.Writer.Write(out.Bytes())
	}
	if err != nil {
		return err
	}
	log.Info().Int("machines", len(w.Machines)).Int("jobs", len(w.Jobs)).Str("file", c.String("out")).Msg("converted")
	return nil
}

func options(c *ucli.Context) (formatOptions, error) {
	o := formatOptions{Step: c.Float64("step"), days: c.Float64("days"), Limit: c.Int("limit"), Part: Part(c.String("part"))}
	switch {
	case !slices.Contains(seriesParts(), o.Part):
		return o, exit.Usagef("--part %s: choose %s", o.Part, parts())
	case !(o.Step >= 1 && o.Step <= 86400):
		return o, exit.Usagef("--step %v is not 1 to 86400 seconds", o.Step)
	case !(o.days >= 0 && o.days < 1e5) || o.Limit < 0:
		return o, exit.Usagef("--days and --limit must be 0 or more")
	case !(c.Float64("request-percentile") >= 0 && c.Float64("request-percentile") <= 100):
		return o, exit.Usagef("--request-percentile %v is not 0 to 100", c.Float64("request-percentile"))
	case c.String("format") == "":
		return o, nil
	}
	f, err := formatNamed(c.String("format"))
	if err != nil {
		return o, exit.New(exit.Usage, fmt.Errorf("--format: %w", err), "")
	}
	o.Format = f
	return o, nil
}

// read reads the files of the record and shows its progress.
func read(c *ucli.Context, o formatOptions, log zerolog.Logger) (*measuredWorkload, error) {
	files, total, err := list(c.Args().Slice())
	if err != nil {
		return nil, exit.New(exit.Usage, err, "name CSV files, or folders that have some")
	}
	view := cli.NewBar(c.App.ErrWriter, cli.OnTerminal(), log)
	defer view.Close()
	o.Progress = func(bytes int64) error {
		if bytes > 256<<20 { // less takes seconds
			view.Show(min(float64(bytes)/float64(total), 1), "reading", fmt.Sprintf("read %d MB", bytes>>20))
		}
		return c.Context.Err()
	}
	w, err := readFormat(o, files...)
	if err != nil && c.Context.Err() == nil {
		err = exit.New(exit.Usage, err, "gnnsched convert --help lists the formats")
	}
	return w, err
}

// write writes shapes of machines, or a trace of jobs.
func write(to io.Writer, w *measuredWorkload, percentile float64, requests bool) error {
	if len(w.Jobs) == 0 {
		shapes, err := w.Shapes(percentile)
		if err != nil {
			return err
		}
		return workload.WriteShapes(to, shapes)
	}
	if len(w.Machines) > 0 {
		return errors.New("the files have machines and jobs; convert them one after the other")
	}
	arrivals, err := w.Arrivals(requests)
	if err != nil {
		return err
	}
	return trace.WriteArrivals(to, arrivals)
}
