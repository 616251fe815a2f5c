package convert

import (
	"errors"
	"fmt"
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
	"gnnsched/workload/trace/openb"
)

// simkube is the ending of the names of SimKube's traces.
const simkube = ".sktrace"

const simkubePage = "docs/how-to/record.md says what traces of SimKube are read and written"

func isSimkube(path string) bool { return strings.HasSuffix(path, simkube) }

// simkubeToRecord makes a new record of a trace of SimKube, and of an openb node list if there is one among the files.
func simkubeToRecord(c *ucli.Context, log zerolog.Logger) error {
	var rows sktrace.Rows
	var nodes []record.Node
	for _, path := range c.Args().Slice() {
		list, err := false, error(nil)
		if !isSimkube(path) {
			list, err = isNodeList(path)
		}
		switch {
		case err != nil:
		case list && nodes == nil:
			var all []openb.Node
			all, err = openb.LoadNodes(path)
			nodes = play.NodeRows(openb.ClusterNodes(all))
		case isSimkube(path) && rows.To == 0:
			rows, err = readSimkube(path)
		default:
			err = fmt.Errorf("%s: a record is made of one trace and one node list of openb", path)
		}
		if err != nil {
			return exit.New(exit.Usage, err, simkubePage)
		}
	}
	for _, note := range rows.Notes {
		log.Warn().Msg(note)
	}
	out, err := record.Create(c.String("out"), record.Options{})
	if err != nil {
		return exit.New(exit.Usage, err, "name another folder with --out")
	}
	for _, n := range nodes {
		n.From = rows.From // the list has no times
		out.Node(n)
	}
	for _, o := range rows.Objects {
		out.Object(o)
	}
	for i, p := range rows.Pods {
		out.Pod(p)
		if i%100_000 == 99_999 { // a Writer holds 200,000 rows
			if _, err := out.Flush(); err != nil {
				return errors.Join(err, recording.Closed(out, log))
			}
		}
	}
	run := record.Run{ID: "1", Source: "simkube", From: rows.From, To: rows.To, Program: c.App.Version,
		Missing: strings.Join(append([]string{"nodes of pods and when pods got them, usage"}, rows.Notes...), "; ")}
	out.Run(run)
	log.Info().Str("out", c.String("out")).Int("nodes", len(nodes)).Int("pods", len(rows.Pods)).
		Str("owners", record.CountOwners(rows.Objects)).Msg("converted")
	return recording.Closed(out, log)
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
