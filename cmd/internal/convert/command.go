// Package convert is the command `gnnsched convert`.
package convert

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/recording"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	"gnnsched/workload/record"
	"gnnsched/workload/record/play"
	"gnnsched/workload/record/sktrace"
	"gnnsched/workload/trace"
	"gnnsched/workload/trace/openb"
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

// traceMissing names the parts of a cluster that the record of a CSV trace lacks.
const traceMissing = "nodes of pods and when pods got them, affinity, spreading, priorities, usage"

// simkube is the ending of the names of SimKube's traces.
const simkube = ".sktrace"

const simkubePage = "docs/how-to/record.md says what traces of SimKube are read and written"

func isSimkube(path string) bool { return strings.HasSuffix(path, simkube) }

// traceRows are the rows of a record that is made of a trace.
type traceRows struct {
	nodes   []record.Node
	objects []record.Object
	pods    []record.Pod
	run     record.Run
}

// add adds a file that is no trace of SimKube: a node list or a CSV trace.
func (t *traceRows) add(path string) error {
	list, err := isNodeList(path)
	switch {
	case err != nil:
		return err
	case list && len(t.nodes) > 0:
		return fmt.Errorf("%s is a second node list", path)
	case list:
		all, err := openb.LoadNodes(path)
		t.nodes = play.NodeRows(openb.ClusterNodes(all))
		return err
	case t.run.Source != "":
		return fmt.Errorf("%s is a second trace; a record has the pods of one", path)
	}
	file, err := trace.Load(path)
	if err == nil {
		t.pods, t.run.Source = play.PodRows(file.Arrivals), file.Format.Name
		t.run.Missing = strings.Join(append([]string{traceMissing}, file.Notes...), "; ")
	}
	return err
}

// addSimkube adds a trace of SimKube.
func (t *traceRows) addSimkube(path string, log zerolog.Logger) error {
	if t.run.Source != "" {
		return fmt.Errorf("%s is a second trace; a record has the pods of one", path)
	}
	rows, err := readSimkube(path)
	if err != nil {
		return err
	}
	for _, note := range rows.Notes {
		log.Warn().Msg(note)
	}
	t.objects, t.pods = rows.Objects, rows.Pods
	t.run = record.Run{Source: "simkube", From: rows.From, To: rows.To,
		Missing: strings.Join(append([]string{"nodes of pods and when pods got them, usage"}, rows.Notes...), "; ")}
	return nil
}

// traceToRecord makes a new record of a trace, and of an openb node list if there is one among the files.
func traceToRecord(c *ucli.Context, log zerolog.Logger) error {
	var t traceRows
	for _, path := range c.Args().Slice() {
		page, err := "docs/reference/scenario-file.md describes the traces", error(nil)
		if isSimkube(path) {
			page, err = simkubePage, t.addSimkube(path, log)
		} else {
			err = t.add(path)
		}
		if err != nil {
			return exit.New(exit.Usage, err, page)
		}
	}
	t.run.ID, t.run.Program = "1", c.App.Version
	if t.run.Source != "simkube" {
		t.run.Source, t.run.Missing = cmp.Or(t.run.Source, "openb"), cmp.Or(t.run.Missing, traceMissing)
		t.run.From, t.run.To, t.objects = play.Midnight, play.Midnight, play.Owned(t.pods)
	}
	return t.write(c.String("out"), log)
}

// write writes a new record.
func (t *traceRows) write(dir string, log zerolog.Logger) error {
	out, err := record.Create(dir, record.Options{})
	if err != nil {
		return exit.New(exit.Usage, err, "name another folder with --out")
	}
	for _, n := range t.nodes {
		n.From = t.run.From // lists have no times
		out.Node(n)
	}
	for _, o := range t.objects {
		out.Object(o)
	}
	for i, p := range t.pods {
		t.run.To = max(t.run.To, p.Arrived, p.Ended)
		out.Pod(p)
		if i%100_000 == 99_999 { // a Writer holds 200,000 rows
			if _, err := out.Flush(); err != nil {
				return errors.Join(err, recording.Closed(out, log))
			}
		}
	}
	out.Run(t.run)
	log.Info().Str("out", dir).Str("source", t.run.Source).Int("nodes", len(t.nodes)).Int("pods", len(t.pods)).
		Str("owners", record.CountOwners(t.objects)).Str("lacks", t.run.Missing).Msg("converted")
	return recording.Closed(out, log)
}

// isTraces reports whether the files are a trace, and node lists.
func isTraces(paths []string) bool {
	return slices.ContainsFunc(paths, isSimkube) ||
		!slices.ContainsFunc(paths, func(p string) bool { return !strings.HasSuffix(p, ".csv") })
}

// isNodeList reports whether a file begins as openb's node lists do.
func isNodeList(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close() // it is only read
	line, err := bufio.NewReader(io.LimitReader(f, 1<<16)).ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return openb.IsNodeList(strings.Split(strings.ToLower(strings.TrimSpace(line)), ",")), err
}

func readSimkube(path string) (rows sktrace.Rows, err error) {
	data, err := files.Read(path, sktrace.MaxFile)
	if err != nil {
		return rows, err
	}
	trace, err := sktrace.Parse(data)
	if err == nil {
		rows, err = trace.Record()
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return rows, err
}

// recordToSimkube writes a trace of SimKube of a record.
func recordToSimkube(c *ucli.Context, log zerolog.Logger) error {
	if c.NArg() != 1 || !record.Is(c.Args().First()) {
		return exit.New(exit.Usage, fmt.Errorf("%s is made of one record", simkube), "gnnsched convert --out prod.sktrace prod.record")
	}
	r, err := record.Open(c.Args().First())
	if err != nil {
		return exit.New(exit.Usage, err, "")
	}
	pods, podsErr := r.Pods()
	objects, objectsErr := r.Objects()
	runs, runsErr := r.Runs()
	if err := errors.Join(podsErr, objectsErr, runsErr); err != nil || len(runs) == 0 {
		return exit.New(exit.Usage, errors.Join(err, errors.New("the record does not say when it was recorded")), simkubePage)
	}
	from, to := runs[0].From, runs[0].To
	for _, x := range runs {
		to = max(to, x.To)
	}
	out, err := sktrace.Write(pods, objects, from, to)
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("%s: %w", c.Args().First(), err), simkubePage)
	}
	for _, note := range slices.Concat(r.Damaged(), out.Notes) {
		log.Warn().Msg(note)
	}
	if err := os.WriteFile(c.String("out"), out.Trace, 0o600); err != nil {
		return err
	}
	log.Info().Str("out", c.String("out")).Int("owners", out.Owners).Int("pods", out.Pods).Msg("converted")
	return nil
}
