package trace

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

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
var arrivalColumns = []string{"arrival", "cpu_request", "mem_request", "lifetime", "gpu_request", "name", "pod_count", "usage", "app"}

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
	App        string    `csv:"app,omitempty"`
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
	if r.App != "" {
		d.Shape.Labels = map[string]string{"app": r.App}
		if err := d.Shape.Validate(); err != nil {
			return a, "app", err
		}
	}
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

// instances is the list of instances of Alibaba's cluster-trace-gpu-v2025: services that serve recommendation models, with their GPU parts
// and CPU parts apart. An instance is a pod. One without a creation time ran before the trace and arrives at its beginning; one without a
// deletion time stays. File.Notes counts the properties for which a trace has no place.
var instances = &Format{
	Name: "gpu-v2025", header: instanceColumns[:7],
	matches: func(columns []string) bool { return slices.Contains(columns, instanceColumns[0]) },
	read:    readInstances,
}

// instanceColumns are the columns of the format; a file must have the first seven.
var instanceColumns = []string{
	"instance_sn", "app_name", "cpu_request", "gpu_request", "memory_request", "creation_time", "deletion_time", "rdma_request",
	"disk_request", "max_instance_per_node",
}

// instanceRow is one row.
type instanceRow struct {
	Name       string    `csv:"instance_sn"`
	App        string    `csv:"app_name"`
	CPURequest cpuCell   `csv:"cpu_request"` // cores
	GPURequest gpuCell   `csv:"gpu_request"`
	MemRequest gibCell   `csv:"memory_request"`
	Creation   *timeCell `csv:"creation_time"`
	Deletion   *timeCell `csv:"deletion_time"`
	RDMA       float64   `csv:"rdma_request,omitempty"` // percent of the node's card
	Disk       float64   `csv:"disk_request,omitempty"` // GiB
	Most       float64   `csv:"max_instance_per_node,omitempty"`
}

// gibCell is an amount of memory in GiB.
type gibCell int64

func (g *gibCell) UnmarshalText(b []byte) error {
	n, err := cluster.ParseMemory(string(b) + "Gi")
	if err != nil {
		return fmt.Errorf("%q is not an amount of memory in GiB", b)
	}
	*g = gibCell(n)
	return nil
}

func readInstances(r io.Reader, file string) (File, error) {
	rows := openb.NewRecords(r)
	_, columns, err := rows.First()
	if err == nil {
		rows.Names = columns
		err = rows.Check("a list of instances", instanceColumns[:7], instanceColumns)
	}
	if err != nil {
		return File{}, rows.Locate(file, "", err)
	}
	var out workload.Trace
	lost := make([]int, len(instanceNotes))
	seen := map[string]bool{}
	err = openb.Each(rows, file, func(row instanceRow) (column string, err error) {
		a, column, err := row.arrival()
		if err == nil && seen[a.Deployment.Name] {
			column, err = "instance_sn", fmt.Errorf("%q is also the name of an earlier row", row.Name)
		}
		seen[a.Deployment.Name] = true
		for i, n := range instanceNotes {
			if n.concerns(&row, &a) {
				lost[i]++
			}
		}
		if a.Lifetime > 0 {
			out = append(out, a)
		}
		return column, err
	})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%s: the file has no instance that ran", file)
	}
	if err != nil {
		return File{}, err
	}
	var notes []string
	for i, n := range instanceNotes {
		if lost[i] > 0 {
			notes = append(notes, fmt.Sprintf("%d instances %s", lost[i], n.text))
		}
	}
	return File{Arrivals: out.FromZero(), Notes: notes}, nil
}

// instanceNotes are what a trace cannot hold of an instance.
var instanceNotes = []struct {
	text     string
	concerns func(*instanceRow, *workload.Arrival) bool
}{
	{"may run beside so many others of their application alone, which is not played",
		func(r *instanceRow, _ *workload.Arrival) bool { return r.Most > 0 }},
	{"request a share of their node's RDMA card, which is not played", func(r *instanceRow, _ *workload.Arrival) bool { return r.RDMA > 0 }},
	{"request disks, which is not played", func(r *instanceRow, _ *workload.Arrival) bool { return r.Disk > 0 }},
	{"ran before the trace, and arrive at its beginning", func(r *instanceRow, _ *workload.Arrival) bool { return r.Creation == nil }},
	{"ended when they were created, and are left out", func(_ *instanceRow, a *workload.Arrival) bool { return a.Lifetime <= 0 }},
}

// arrival converts a row. Its lifetime is 0 if the instance ended at once. On an error, column is the wrong column.
func (r *instanceRow) arrival() (a workload.Arrival, column string, err error) {
	a.Deployment = workload.Deployment{Name: strings.ReplaceAll(strings.ToLower(r.Name), "_", "-"), Replicas: 1}
	a.Deployment.Shape.Requests = cluster.Resources{
		MilliCPU: int64(r.CPURequest), Memory: int64(r.MemRequest), GPU: int64(r.GPURequest), Pods: 1,
	}
	a.Deployment.Shape.Labels = map[string]string{"app": r.App}
	if err := workload.ValidateName(a.Deployment.Name); err != nil {
		return a, "instance_sn", err
	}
	if err := a.Deployment.Shape.Validate(); err != nil {
		return a, "app_name", err
	}
	if r.Creation != nil {
		a.At = float64(*r.Creation)
	}
	if a.At < 0 {
		return a, "creation_time", fmt.Errorf("%v is before the trace, in which the time must be empty", a.At)
	}
	if a.Lifetime = math.Inf(1); r.Deletion != nil {
		a.Lifetime = max(float64(*r.Deletion)-a.At, 0)
	}
	return a, "", nil
}
