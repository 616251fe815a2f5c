package history

import (
	"errors"
	"fmt"
	"time"

	"gnnsched/workload/record"
)

// source is the source of a history's runs.
const source = "prometheus"

// Earlier holds the parts of a record that an earlier history read.
type Earlier struct {
	Until time.Time // the end of the last chunk that was read
	pods  map[string]record.Pod
	nodes []record.Node
	runs  int
}

// Resume reads the record of a history in a folder, so that Read can go on with it. Records of other sources are refused.
func Resume(dir string) (*Earlier, error) {
	r, err := record.Open(dir)
	if err != nil {
		return nil, err
	}
	pods, podsErr := r.Pods()
	nodes, nodesErr := r.Nodes()
	runs, runsErr := r.Runs()
	if err := errors.Join(podsErr, nodesErr, runsErr); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if d := r.Damaged(); len(d) > 0 {
		return nil, fmt.Errorf("%s is damaged: %s", dir, d[0])
	}
	until := int64(0)
	for _, run := range runs {
		if run.Source != source {
			return nil, fmt.Errorf("%s is a record already, of the source %s", dir, run.Source)
		}
		until = max(until, run.To)
	}
	if until == 0 {
		return nil, fmt.Errorf("%s is a record already, and does not say until when it was read", dir)
	}
	e := &Earlier{Until: time.UnixMilli(until).UTC(), pods: make(map[string]record.Pod, len(pods)), runs: len(runs)}
	for _, p := range pods {
		e.pods[p.UID] = p
	}
	for _, n := range nodes {
		if n.From <= until && (n.To == 0 || n.To > until) { // later rows come from an incomplete chunk
			n.To, n.Gone = 0, false
			e.nodes = append(e.nodes, n)
		}
	}
	return e, nil
}

// goOn takes up the pods and nodes that had not gone when the record was cut off.
func (r *reader) goOn(e *Earlier) {
	r.runs = e.runs
	for i := range e.nodes {
		n := e.nodes[i]
		r.nodes[n.Name] = &n
	}
	for uid, row := range e.pods {
		if until := e.Until.UnixMilli(); row.Arrived <= until && (row.Ended == 0 || row.Ended > until) {
			r.pods[uid] = known(row)
			r.pods[uid].row.Ended, r.pods[uid].row.End = 0, ""
			r.pods[uid].seen = until
		}
	}
}

// known returns a pod with a row in the record.
func known(row record.Pod) *pod {
	p := &pod{row: row, written: row, dated: true, labels: record.Labels(row.Labels)}
	_ = record.ReadColumn(row.Tolerations, &p.tolerates) // what cannot be read counts as none
	return p
}
