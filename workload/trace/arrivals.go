package trace

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"gnnsched/internal/cluster"
	"gnnsched/workload"
	"gnnsched/workload/trace/openb"
)

// arrivals is a CSV with a header and a row for each arrival:
//
//	arrival       seconds from any origin; needed
//	cpu_request   of one pod, as in a plan; needed
//	mem_request   of one pod, as in a plan; needed
//	lifetime      seconds over 0; empty for a pod that stays
//	gpu_request   whole devices of one pod
//	name          of the Deployment; default: pod-0, pod-1, ...
//	pod_count     pods that arrive together; default: 1
//	usage         what one pod uses, as JSON; see package usage
//
// Other columns are ignored. Rows may come in any order.
var arrivals = &Format{
	Name: "arrivals", header: arrivalColumns[:3],
	matches: isArrivals, read: readArrivals,
}

func isArrivals(columns []string) bool { return slices.Contains(columns, "arrival") }

// arrivalColumns are the columns of the format; a file must have the first three.
var arrivalColumns = []string{"arrival", "cpu_request", "mem_request", "lifetime", "gpu_request", "name", "pod_count", "usage"}

// arrivalRow is one row.
type arrivalRow struct {
	Name       string    `csv:"name,omitempty"`
	Arrival    timeCell  `csv:"arrival"`
	Lifetime   *timeCell `csv:"lifetime,omitempty"`
	PodCount   podCount  `csv:"pod_count,omitempty"`
	CPURequest cpuCell   `csv:"cpu_request,omitempty"`
	MemRequest memCell   `csv:"mem_request,omitempty"`
	GPURequest gpuCell   `csv:"gpu_request,omitempty"`
	Usage      usageCell `csv:"usage,omitempty"`
}

// readArrivals reads a file without an arrival column as a plan.
func readArrivals(r io.Reader, file string) (File, error) {
	rows := openb.NewRecords(r)
	first, columns, err := rows.First()
	if err != nil {
		return File{}, rows.Locate(file, "", err)
	}
	if !isArrivals(columns) {
		rows.Unread(first)
		out, err := planArrivals(rows, file)
		out.Format = Plan
		return out, err
	}
	rows.Names = columns
	if err := rows.Check("a trace", arrivalColumns[:3], arrivalColumns); err != nil {
		return File{}, rows.Locate(file, "", err)
	}
	var out workload.Trace
	err = openb.Each(rows, file, func(row arrivalRow) (column string, err error) {
		a, column, err := row.arrival(len(out))
		out = append(out, a)
		return column, err
	})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%s: the file has a header but no pods", file)
	}
	if err != nil {
		return File{}, err
	}
	return File{Arrivals: out.FromZero()}, nil
}

// arrival converts the i-th row, counted from 0. On an error, column is the wrong column.
func (r arrivalRow) arrival(i int) (a workload.Arrival, column string, err error) {
	d := workload.Deployment{Name: r.Name, Replicas: max(int(r.PodCount), 1)}
	d.Shape.Requests = cluster.Resources{MilliCPU: int64(r.CPURequest), Memory: int64(r.MemRequest), GPU: int64(r.GPURequest), Pods: 1}
	d.Shape.Usage = r.Usage.Model
	if d.Name == "" {
		d.Name = "pod-" + strconv.Itoa(i)
	} else if err := workload.ValidateName(d.Name); err != nil {
		return a, "name", err
	}
	a = workload.Arrival{At: float64(r.Arrival), Deployment: d}
	if r.Lifetime != nil {
		a.Lifetime = float64(*r.Lifetime)
	}
	switch {
	case a.Lifetime < 0:
		return a, "lifetime", fmt.Errorf("%v is negative", a.Lifetime)
	case a.Lifetime == 0:
		a.Lifetime = math.Inf(1)
	}
	return a, "", nil
}
