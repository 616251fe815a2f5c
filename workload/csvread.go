package workload

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jszwec/csvutil"

	"gnnsched/internal/cluster"
	"gnnsched/workload/trace/records"
)

// Replay is a plan read from a CSV, and what a person should know about how it was read.
type Replay struct {
	Plan
	Notes []string
}

// ReadCSV reads a plan from a CSV that runsim or AAML wrote; file names it in errors, which
// have the form file:line:column.
//
// It is liberal: the header may be missing, its columns may come in any order and beside
// others (such as the row number that pandas puts in front); CPU may be 100m, 0.1 or 1, memory
// 128Mi, 2.0Gi or plain bytes; actions may be spelled in several ways. A second add of a name
// that still lives, which AAML's files have where a reset lay between that they do not
// record, gets a number.
func ReadCSV(r io.Reader, file string) (Replay, error) {
	return readPlan(records.New(r), file)
}

func readPlan(rows *records.Reader, file string) (Replay, error) {
	header, err := planHeader(rows)
	if err != nil {
		return Replay{}, rows.Locate(file, "", err)
	}
	dec, err := csvutil.NewDecoder(rows, header...)
	if err != nil {
		return Replay{}, rows.Locate(file, "", err)
	}
	in := reader{live: map[string]live{}, taken: map[string]bool{}}
	for {
		var line row
		if err := dec.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return Replay{}, rows.Locate(file, "", err)
		}
		if column, err := in.add(line); err != nil {
			return Replay{}, rows.Locate(file, column, err)
		}
	}
	if len(in.out.Steps) == 0 {
		return Replay{}, fmt.Errorf("%s: it holds no deployment", file)
	}
	return in.out, nil
}

// reader turns rows into steps.
type reader struct {
	out   Replay
	live  map[string]live // by the name in the file
	taken map[string]bool // names in use, as deployed
}

// live is what a name in the file stands for: the latest Deployment added under it, and
// those that it hides.
type live []Deployment

// add appends what the row says. On an error it names the column that is wrong.
func (in *reader) add(r row) (column string, err error) {
	switch r.Action {
	case nothing:
		return "", nil
	case actionTag(Reset):
		clear(in.live)
		clear(in.taken)
		in.step(Reset, Deployment{})
		return "", nil
	case actionTag(Delete):
		stack := in.live[r.Name]
		if len(stack) == 0 {
			return "name", fmt.Errorf("%q is not deployed at this point, so it cannot be deleted", r.Name)
		}
		d := stack[len(stack)-1]
		in.live[r.Name] = stack[:len(stack)-1]
		delete(in.taken, d.Name)
		in.step(Delete, d)
		return "", nil
	}
	d := r.deployment()
	if err := validName(d.Name); err != nil {
		return "name", err
	}
	if d.Replicas < 1 {
		return "pod_count", fmt.Errorf("a deployment needs 1 pod or more")
	}
	if l, q := d.Shape.Limits, d.Shape.Requests; l.MilliCPU != 0 && l.MilliCPU < q.MilliCPU {
		return "cpu_limit", fmt.Errorf("%s is less than the request of %s", cluster.FormatCPU(l.MilliCPU), cluster.FormatCPU(q.MilliCPU))
	} else if l.Memory != 0 && l.Memory < q.Memory {
		return "mem_limit", fmt.Errorf("%s is less than the request of %s", cluster.FormatMemory(l.Memory), cluster.FormatMemory(q.Memory))
	}
	if in.taken[d.Name] {
		d.Name = numbered(d.Name, in.taken)
		if err := validName(d.Name); err != nil {
			return "name", fmt.Errorf("%q is deployed already, and with a number it is too long", r.Name)
		}
		in.out.Notes = append(in.out.Notes, fmt.Sprintf("%s is added while it is deployed already; the second is called %s", r.Name, d.Name))
	}
	in.taken[d.Name] = true
	in.live[r.Name] = append(in.live[r.Name], d)
	in.step(Add, d)
	return "", nil
}

func (in *reader) step(a Action, d Deployment) {
	in.out.Steps = append(in.out.Steps, Step{Action: a, Deployment: d})
}

func (r row) deployment() Deployment {
	return Deployment{Name: r.Name, Replicas: int(r.PodCount), Shape: Shape{
		Requests: cluster.Resources{MilliCPU: int64(r.CPURequest), Memory: int64(r.MemRequest), Pods: 1},
		Limits:   cluster.Resources{MilliCPU: int64(r.CPULimit), Memory: int64(r.MemLimit)},
	}}
}

// planHeader reads the first record and returns the column names: the record itself, or the
// usual ones where it is data already.
func planHeader(r *records.Reader) ([]string, error) {
	first, names, err := r.First()
	if err != nil {
		return nil, err
	}
	r.Names = names
	if slices.Contains(names, "name") && slices.Contains(names, "pod_count") {
		return names, r.Check("a plan", required, columns)
	}
	switch len(first) {
	case len(columns):
		r.Names = columns
	case len(columns) + 1:
		r.Names = append([]string{"row"}, columns...)
	default:
		return nil, fmt.Errorf("this is neither a header nor a deployment; a plan has the columns %s", strings.Join(columns, ", "))
	}
	r.Unread(first)
	return r.Names, nil
}

// required are the columns that a header must have, all but the action: without requests, pods
// would be other pods than those that were recorded.
var required = columns[:len(columns)-1]
