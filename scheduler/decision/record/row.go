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
	var errs [5]error
	if len(r.Devices) > 0 {
		out.Devices, errs[0] = column(r.Devices)
	}
	if len(r.Refused) > 0 {
		out.Refused, errs[1] = column(r.Refused)
	}
	if len(r.Best) > 0 {
		out.Best, errs[2] = column(r.Best)
	}
	if r.Default != nil {
		out.Default, errs[3] = column(r.Default)
	}
	if len(r.Claimed) > 0 {
		out.Claimed, errs[4] = column(r.Claimed)
	}
	return out, errors.Join(errs[:]...)
}

func column(v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
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
	for _, c := range []struct {
		name, text string
		into       any
	}{
		{"devices", w.Devices, &r.Devices}, {"claimed", w.Claimed, &r.Claimed}, {"refused", w.Refused, &r.Refused}, {"best", w.Best, &r.Best},
		{"default", w.Default, &r.Default},
	} {
		switch {
		case len(c.text) > maxRecordBytes:
			return r, fmt.Errorf("column %s has more than %d bytes", c.name, maxRecordBytes)
		case c.text == "":
			continue
		}
		if err := json.Unmarshal([]byte(c.text), c.into); err != nil {
			return r, fmt.Errorf("column %s: %w", c.name, err)
		}
	}
	return r, r.check()
}
