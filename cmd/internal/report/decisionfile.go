package report

import (
	"fmt"
	"os"
	"time"

	"gnnsched/internal/exit"
	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/decision/record"
)

// read returns the run of a folder, or of a file of recorded decisions.
func read(path string) (*runfolder.Run, error) {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		return readDecisions(path)
	}
	return runfolder.Read(path)
}

// readDecisions returns a run that has the decisions of a file, and nothing else.
func readDecisions(path string) (*runfolder.Run, error) {
	r := &runfolder.Run{Dir: path, Manifest: runfolder.Manifest{Kind: "decisions", Title: "Decisions in " + path}}
	var first, last time.Time
	refused := map[string]time.Time{} // by UID: when a pod that has no node yet was first refused
	err := record.ReadFile(path, func(d record.Record) {
		if first.IsZero() {
			first = d.Time
		}
		last = d.Time
		if d.Outcome == record.Unschedulable {
			if _, before := refused[d.UID]; !before {
				refused[d.UID] = d.Time
			}
		}
		row := rowOf(d)
		row.At = runfolder.Round(d.Time.Sub(first).Seconds())
		if since, was := refused[d.UID]; was {
			row.Waited = runfolder.Round(max(d.Time.Sub(since).Seconds(), 0))
		}
		r.Decisions = append(r.Decisions, row)
	})
	if err != nil {
		return nil, exit.New(exit.Usage, err, "name the folder of a run, or a file that a scheduler wrote with --decision-log")
	}
	if len(r.Decisions) > 0 {
		r.Manifest.Started, r.Manifest.Ended = first, &last
	}
	r.Notes = append(r.Notes,
		"Times are in seconds since the first decision of the file, and waits are since the first attempt that found no node.")
	return r, nil
}

// rowOf converts a record to a row, without its times.
func rowOf(d record.Record) runfolder.Decision {
	row := runfolder.Decision{Contender: d.Profile, Pod: d.Namespace + "/" + d.Pod, Feasible: d.Feasible, Node: d.Node, RunnerUp: d.RunnerUp}
	for _, c := range d.Best {
		switch c.Node {
		case d.Node:
			row.Score = float64(c.Score)
		case d.RunnerUp:
			row.RunnerUpScore = float64(c.Score)
		}
	}
	switch {
	case d.Failure != "":
		row.Note = d.Failure
	case d.Fallback != "":
		row.Note = "upstream's scores decided: " + d.Fallback
	case d.Outcome != record.Bound:
		row.Note = d.Outcome
	case d.Default != nil && d.Default.Node != d.Node:
		row.Note = fmt.Sprintf("the default profile would have chosen %s", d.Default.Node)
	}
	return row
}
