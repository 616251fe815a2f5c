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
	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	"gnnsched/workload/record"
	"gnnsched/workload/record/play"
	"gnnsched/workload/record/sktrace"
	"gnnsched/workload/trace"
	"gnnsched/workload/trace/openb"
)

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
