package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// row is a Record as a row of a Parquet file. Lists are columns of JSON.
type row struct {
	Time      int64  `parquet:"time,timestamp(nanosecond)"`
	Profile   string `parquet:"profile,dict"`
	Number    uint64 `parquet:"number"`
	Namespace string `parquet:"namespace,dict"`
	Pod       string `parquet:"pod"`
	UID       string `parquet:"uid"`
	Outcome   string `parquet:"outcome,dict"`

	Node    string `parquet:"node,optional,dict"`
	Devices string `parquet:"devices,optional,dict"` // list
	Claimed string `parquet:"claimed,optional"`      // list of ClaimedDevice

	Group       string  `parquet:"group,optional,dict"`
	Policy      string  `parquet:"policy,optional,dict"`
	Fingerprint string  `parquet:"fingerprint,optional,dict"`
	Fallback    string  `parquet:"fallback,optional,dict"`
	Latency     float64 `parquet:"latency_us"`

	Nodes     int64  `parquet:"nodes"`
	Refused   string `parquet:"refused,optional,dict"` // list of Refusal
	Feasible  int64  `parquet:"feasible"`
	Preferred int64  `parquet:"preferred"`

	Best     string   `parquet:"best,optional"` // list of Candidate
	RunnerUp string   `parquet:"runner_up,optional,dict"`
	Margin   *float64 `parquet:"margin,optional"`
	Default  string   `parquet:"default,optional"` // Default

	Failure   string `parquet:"failure,optional,dict"`
	Nominated string `parquet:"nominated,optional,dict"`
	Really    string `parquet:"really,optional,dict"`
}

// longColumns have no least and greatest value in the footer, which every later footer of the file would repeat.
var longColumns = []string{"devices", "claimed", "refused", "best", "default", "failure"}

// rowOf fails for a number that is not finite.
func rowOf(r *Record) (row, error) {
	out := row{
		Time: r.Time.UnixNano(), Profile: r.Profile, Number: r.Number, Namespace: r.Namespace, Pod: r.Pod, UID: r.UID, Outcome: r.Outcome,
		Node: r.Node, Group: r.Group, Policy: r.Policy, Fingerprint: r.Fingerprint, Fallback: r.Fallback, Latency: r.Latency,
		Nodes: int64(r.Nodes), Feasible: int64(r.Feasible), Preferred: int64(r.Preferred), RunnerUp: r.RunnerUp, Margin: r.Margin,
		Failure: r.Failure, Nominated: r.Nominated, Really: r.Really,
	}
	var failed error
	for _, l := range out.lists(r) {
		if !l.empty {
			text, err := json.Marshal(l.value)
			*l.text, failed = string(text), errors.Join(failed, err)
		}
	}
	return out, failed
}

// list is a column of JSON, and the part of a record that it holds.
type list struct {
	name  string
	text  *string
	value any // a pointer
	empty bool
}

func (w *row) lists(r *Record) []list {
	return []list{
		{"devices", &w.Devices, &r.Devices, len(r.Devices) == 0}, {"claimed", &w.Claimed, &r.Claimed, len(r.Claimed) == 0},
		{"refused", &w.Refused, &r.Refused, len(r.Refused) == 0}, {"best", &w.Best, &r.Best, len(r.Best) == 0},
		{"default", &w.Default, &r.Default, r.Default == nil},
	}
}

// record returns the record of a row from a file. Its texts are safe to print.
func (w *row) record() (Record, error) {
	r := Record{
		Schema: schemaVersion, Time: time.Unix(0, w.Time).UTC(), Profile: w.Profile, Number: w.Number, Namespace: w.Namespace, Pod: w.Pod,
		UID: w.UID, Outcome: w.Outcome,
		Node: w.Node, Group: w.Group, Policy: w.Policy, Fingerprint: w.Fingerprint, Fallback: w.Fallback, Latency: w.Latency,
		Nodes: int(w.Nodes), Feasible: int(w.Feasible), Preferred: int(w.Preferred), RunnerUp: w.RunnerUp, Margin: w.Margin, Failure: w.Failure,
		Nominated: w.Nominated, Really: w.Really,
	}
	for _, l := range w.lists(&r) {
		switch {
		case len(*l.text) > maxRecordBytes:
			return r, fmt.Errorf("column %s has more than %d bytes", l.name, maxRecordBytes)
		case *l.text == "":
			continue
		}
		if err := json.Unmarshal([]byte(*l.text), l.value); err != nil {
			return r, fmt.Errorf("column %s: %w", l.name, err)
		}
	}
	return r, r.check()
}
