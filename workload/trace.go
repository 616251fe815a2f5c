package workload

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/jszwec/csvutil"

	"gnnsched/internal/cluster"
	"gnnsched/workload/trace/records"
)

// Arrival is a Deployment in time.
type Arrival struct {
	At         float64 // when its pods come; seconds, or steps of the plan that it is from
	Lifetime   float64 // of each of its pods from when it starts to run; +Inf for one that stays
	Deployment Deployment
}

// Trace is what arrived, in order of time. At is ascending, from 0.
type Trace []Arrival

// Pods is how many pods arrive.
func (t Trace) Pods() (n int) {
	for _, a := range t {
		n += a.Deployment.Replicas
	}
	return n
}

// Trace is the plan in time, a unit a step: Deployments live until they are deleted or until
// the next reset.
func (p Plan) Trace() Trace {
	var out Trace
	live := map[string]int{}
	for i, s := range p.Steps {
		switch s.Action {
		case Add:
			live[s.Deployment.Name] = len(out)
			out = append(out, Arrival{At: float64(i), Lifetime: math.Inf(1), Deployment: s.Deployment})
		case Delete:
			if j, ok := live[s.Deployment.Name]; ok {
				out[j].Lifetime = float64(i) - out[j].At
				delete(live, s.Deployment.Name)
			}
		case Reset:
			for _, j := range live {
				out[j].Lifetime = float64(i) - out[j].At
			}
			clear(live)
		}
	}
	return out.FromZero()
}

// Plan is the trace as steps: what arrives is added at its time, and deleted when its lifetime
// is over, whether or not it ran. Of what happens at once, deletions come first.
func (t Trace) Plan() Plan {
	var p Plan
	for _, a := range t {
		p.Steps = append(p.Steps, Step{Action: Add, Deployment: a.Deployment, At: a.At})
		if !math.IsInf(a.Lifetime, 1) {
			p.Steps = append(p.Steps, Step{Action: Delete, Deployment: a.Deployment, At: a.At + a.Lifetime})
		}
	}
	slices.SortStableFunc(p.Steps, func(a, b Step) int { return cmp.Or(cmp.Compare(a.At, b.At), int(b.Action)-int(a.Action)) })
	return p
}

// FromZero orders by time, in place, what comes at once as it stood, and puts the first at 0.
func (t Trace) FromZero() Trace {
	slices.SortStableFunc(t, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	for i := len(t) - 1; i >= 0; i-- {
		t[i].At -= t[0].At
	}
	return t
}

// traceRow is a line of a trace.
type traceRow struct {
	Name       string   `csv:"name,omitempty"`
	Arrival    timeCell `csv:"arrival"`
	Lifetime   timeCell `csv:"lifetime,omitempty"`
	PodCount   podCount `csv:"pod_count,omitempty"`
	CPURequest cpuCell  `csv:"cpu_request,omitempty"`
	MemRequest memCell  `csv:"mem_request,omitempty"`
	GPURequest gpuCell  `csv:"gpu_request,omitempty"`
}

// traceColumns are those that a trace must have.
var traceColumns = []string{"arrival", "cpu_request", "mem_request"}

type (
	timeCell float64 // seconds; 0 where the cell is empty
	gpuCell  int64   // devices
)

func (c *timeCell) UnmarshalText(b []byte) error {
	x, err := strconv.ParseFloat(string(b), 64)
	if err != nil || !(math.Abs(x) < 1e12) {
		return fmt.Errorf("%q is no time in seconds", b)
	}
	*c = timeCell(x)
	return nil
}

func (c *gpuCell) UnmarshalText(b []byte) error {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || n < 0 || n > maxGPU {
		return fmt.Errorf("%q is not a number of GPUs from 0 to %d", b, maxGPU)
	}
	*c = gpuCell(n)
	return nil
}

// ReadTrace reads a CSV of pods with a header: arrival (seconds from any origin), cpu_request
// and mem_request as in ReadCSV, and where there are any lifetime (seconds over 0; empty for
// a pod that stays), gpu_request, name and pod_count. Other columns are ignored, the order of
// the rows does not matter. A CSV without an arrival column is read as ReadCSV does, a step a
// unit of time. Errors have the form file:line:column.
func ReadTrace(r io.Reader, file string) (Trace, error) {
	rows := records.New(r)
	isTrace, err := traceHeader(rows)
	if err != nil {
		return nil, rows.Locate(file, "", err)
	}
	if !isTrace {
		replay, err := readPlan(rows, file)
		return replay.Trace(), err
	}
	dec, err := csvutil.NewDecoder(rows, rows.Names...)
	if err != nil {
		return nil, rows.Locate(file, "", err)
	}
	var out Trace
	for {
		var line traceRow
		if err := dec.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, rows.Locate(file, "", err)
		}
		a, column, err := line.arrival(len(out))
		if err != nil {
			return nil, rows.Locate(file, column, err)
		}
		out = append(out, a)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: it holds no pod", file)
	}
	return out.FromZero(), nil
}

// traceHeader reads the first record. Where that has no arrival column, it is given back.
func traceHeader(r *records.Reader) (isTrace bool, err error) {
	first, names, err := r.First()
	if err != nil {
		return false, err
	}
	if !slices.Contains(names, "arrival") {
		r.Unread(first)
		return false, nil
	}
	r.Names = names
	return true, r.Check("a trace", traceColumns, []string{"arrival", "lifetime", "cpu_request", "mem_request", "gpu_request", "name", "pod_count"})
}

// arrival is the row as the i-th arrival, named after its place where it has no name. On an
// error it says which column is wrong.
func (r traceRow) arrival(i int) (a Arrival, column string, err error) {
	d := Deployment{Name: r.Name, Replicas: max(int(r.PodCount), 1), Shape: Shape{Requests: cluster.Resources{
		MilliCPU: int64(r.CPURequest), Memory: int64(r.MemRequest), GPU: int64(r.GPURequest), Pods: 1,
	}}}
	if d.Name == "" {
		d.Name = "pod-" + strconv.Itoa(i)
	} else if err := validName(d.Name); err != nil {
		return a, "name", err
	}
	a = Arrival{At: float64(r.Arrival), Lifetime: float64(r.Lifetime), Deployment: d}
	switch {
	case a.Lifetime < 0:
		return a, "lifetime", fmt.Errorf("%v %w", a.Lifetime, errNegativeTime)
	case a.Lifetime == 0:
		a.Lifetime = math.Inf(1)
	}
	return a, "", nil
}

var errNegativeTime = errors.New("is negative")
