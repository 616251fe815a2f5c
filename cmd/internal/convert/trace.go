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
	"gnnsched/workload/record"
	"gnnsched/workload/record/play"
	"gnnsched/workload/trace"
	"gnnsched/workload/trace/openb"
)

// traceMissing names the parts of a cluster that the record of a trace lacks.
const traceMissing = "nodes of pods and when pods got them, affinity, spreading, priorities, usage"

// traceToRecord makes a new record of a trace, and of an openb node list if there is one among the files.
func traceToRecord(c *ucli.Context, log zerolog.Logger) error {
	var nodes []record.Node
	var pods []record.Pod
	source := ""
	for _, path := range c.Args().Slice() {
		list, err := isNodeList(path)
		switch {
		case err != nil:
		case list && len(nodes) > 0:
			err = fmt.Errorf("%s is a second node list", path)
		case !list && len(pods) > 0:
			err = fmt.Errorf("%s is a second trace; a record has the pods of one", path)
		case list:
			var all []openb.Node
			all, err = openb.LoadNodes(path)
			nodes = play.NodeRows(openb.ClusterNodes(all))
		default:
			var file trace.File
			if file, err = trace.Load(path); err == nil {
				source, pods = file.Format.Name, play.PodRows(file.Arrivals)
			}
		}
		if err != nil {
			return exit.New(exit.Usage, err, "docs/reference/scenario-file.md describes the traces")
		}
	}
	out, err := record.Create(c.String("out"), record.Options{})
	if err != nil {
		return exit.New(exit.Usage, err, "name another folder with --out")
	}
	run := record.Run{
		ID: "1", Source: cmp.Or(source, "openb"), From: play.Midnight, To: play.Midnight, Missing: traceMissing, Program: c.App.Version,
	}
	for _, n := range nodes {
		out.Node(n)
	}
	for i, p := range pods {
		run.To = max(run.To, p.Arrived, p.Ended)
		out.Pod(p)
		if i%100_000 == 99_999 { // a Writer holds 200,000 rows
			if _, err := out.Flush(); err != nil {
				return errors.Join(err, recording.Closed(out, log))
			}
		}
	}
	out.Run(run)
	log.Info().Str("out", c.String("out")).Str("source", run.Source).Int("nodes", len(nodes)).Int("pods", len(pods)).
		Str("lacks", traceMissing).Msg("converted")
	return recording.Closed(out, log)
}

// isTraces reports whether all files are CSV files.
func isTraces(paths []string) bool {
	return !slices.ContainsFunc(paths, func(p string) bool { return !strings.HasSuffix(p, ".csv") })
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
