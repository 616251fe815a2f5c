package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jszwec/csvutil"

	"gnnsched/internal/cluster"
	"gnnsched/workload"
	"gnnsched/workload/trace/openb"
)

// Plan is the CSV that runsim and AAML write, one step a row. As a trace, a plan has one step
// a unit of time.
var Plan = &Format{
	Name: "plan", header: planColumns[:len(planColumns)-1],
	matches: isPlan,
	read: func(r io.Reader, file string) (File, error) {
		out, err := planArrivals(openb.NewRecords(r), file)
		return out, withColumns(err)
	},
}

func isPlan(columns []string) bool {
	return slices.Contains(columns, "name") && slices.Contains(columns, "pod_count")
}

// planArrivals reads a plan as a trace.
func planArrivals(rows *openb.Records, file string) (File, error) {
	p, err := readPlan(rows, file)
	return File{Arrivals: p.Trace()}, err
}

// PlanFile is the content of a plan's file.
type PlanFile struct {
	workload.Plan
	Notes []string // caveats of the reading, for people: renamed Deployments
}

// ReadPlan reads the CSV of a plan, as runsim or AAML wrote it. Errors begin with the given
// file name, line and column: "plan.csv:3:5: ...".
//
// The header may be missing. Columns may come in any order and beside others, such as the row
// numbers of pandas. CPU may be 100m, 0.1 or 1; memory may be 128Mi, 2.0Gi or plain bytes;
// actions have several spellings. AAML records no resets, so its files may add a name that is
// still deployed: the second Deployment then gets a number behind its name.
func ReadPlan(r io.Reader, file string) (PlanFile, error) {
	p, err := readPlan(openb.NewRecords(r), file)
	return p, withColumns(err)
}

// errNoPlan is the error of a file whose first line cannot be one of a plan.
var errNoPlan = errors.New("the first line is neither a header nor a deployment")

// withColumns adds the columns of a plan to errNoPlan.
func withColumns(err error) error {
	if errors.Is(err, errNoPlan) {
		return fmt.Errorf("%w; a plan has the columns %s", err, strings.Join(planColumns, ", "))
	}
	return err
}

// planRow is one row: AAML's columns in AAML's order.
type planRow struct {
	Name       string    `csv:"name"`
	PodCount   podCount  `csv:"pod_count,omitempty"`
	CPURequest cpuCell   `csv:"cpu_request,omitempty"`
	CPULimit   cpuCell   `csv:"cpu_limit,omitempty"`
	MemRequest memCell   `csv:"mem_request,omitempty"`
	MemLimit   memCell   `csv:"mem_limit,omitempty"`
	Action     actionTag `csv:"action,omitempty"`
}

// planColumns are the columns of planRow. A header must have all of them except the action.
var planColumns = []string{"name", "pod_count", "cpu_request", "cpu_limit", "mem_request", "mem_limit", "action"}

func readPlan(rows *openb.Records, file string) (PlanFile, error) {
	if err := planHeader(rows); err != nil {
		return PlanFile{}, rows.Locate(file, "", err)
	}
	b := planBuilder{deployed: map[string][]workload.Deployment{}, taken: map[string]bool{}}
	if err := openb.Each(rows, file, b.add); err != nil {
		return PlanFile{}, err
	}
	if len(b.out.Steps) == 0 {
		return PlanFile{}, fmt.Errorf("%s: the file has no deployments", file)
	}
	return b.out, nil
}

// planHeader reads the first record and sets the column names. If the record is data, it
// is put back and the usual columns are assumed.
func planHeader(r *openb.Records) error {
	first, names, err := r.First()
	if err != nil {
		return err
	}
	r.Names = names
	if isPlan(names) {
		return r.Check("a plan", planColumns[:len(planColumns)-1], planColumns)
	}
	switch len(first) {
	case len(planColumns):
		r.Names = planColumns
	case len(planColumns) + 1:
		r.Names = append([]string{"row"}, planColumns...)
	default:
		return errNoPlan
	}
	r.Unread(first)
	return nil
}

// planBuilder turns rows into steps.
type planBuilder struct {
	out PlanFile
	// deployed holds, for each name in the file, the Deployments that were added under it and
	// not deleted. The latest one is last.
	deployed map[string][]workload.Deployment
	taken    map[string]bool // names of deployed Deployments, after renaming
}

// add appends the row's step. On an error, column is the wrong column.
func (b *planBuilder) add(r planRow) (column string, err error) {
	switch r.Action {
	case noAction:
		return "", nil
	case actionTag(workload.Reset):
		clear(b.deployed)
		clear(b.taken)
		b.step(workload.Reset, workload.Deployment{})
		return "", nil
	case actionTag(workload.Delete):
		stack := b.deployed[r.Name]
		if len(stack) == 0 {
			return "name", fmt.Errorf("%q is not deployed at this point, so it cannot be deleted", r.Name)
		}
		d := stack[len(stack)-1]
		b.deployed[r.Name] = stack[:len(stack)-1]
		delete(b.taken, d.Name)
		b.step(workload.Delete, d)
		return "", nil
	}
	if column, err := r.validate(); err != nil {
		return column, err
	}
	d := r.deployment()
	if b.taken[d.Name] {
		d.Name = workload.FreeName(d.Name, b.taken)
		if workload.ValidateName(d.Name) != nil {
			return "name", fmt.Errorf("%q is already deployed, and with a number behind it the name is too long", r.Name)
		}
		b.out.Notes = append(b.out.Notes, fmt.Sprintf("%s is added again while it is deployed; the second one is named %s", r.Name, d.Name))
	}
	b.taken[d.Name] = true
	b.deployed[r.Name] = append(b.deployed[r.Name], d)
	b.step(workload.Add, d)
	return "", nil
}

func (b *planBuilder) step(a workload.Action, d workload.Deployment) {
	b.out.Steps = append(b.out.Steps, workload.Step{Action: a, Deployment: d})
}

// validate checks a row that adds a Deployment. On an error, column is the wrong column.
func (r planRow) validate() (column string, err error) {
	switch err := workload.ValidateName(r.Name); {
	case err != nil:
		return "name", err
	case r.PodCount < 1:
		return "pod_count", errors.New("a deployment needs at least 1 pod")
	case r.CPULimit != 0 && r.CPULimit < r.CPURequest:
		return "cpu_limit", fmt.Errorf("%s is less than the request of %s", cluster.FormatCPU(int64(r.CPULimit)),
			cluster.FormatCPU(int64(r.CPURequest)))
	case r.MemLimit != 0 && r.MemLimit < r.MemRequest:
		return "mem_limit", fmt.Errorf("%s is less than the request of %s", cluster.FormatMemory(int64(r.MemLimit)),
			cluster.FormatMemory(int64(r.MemRequest)))
	}
	return "", nil
}

func (r planRow) deployment() workload.Deployment {
	return workload.Deployment{Name: r.Name, Replicas: int(r.PodCount), Shape: workload.Shape{
		Requests: cluster.Resources{MilliCPU: int64(r.CPURequest), Memory: int64(r.MemRequest), Pods: 1},
		Limits:   cluster.Resources{MilliCPU: int64(r.CPULimit), Memory: int64(r.MemLimit)},
	}}
}

// PlanWriter writes the steps of a plan as CSV and flushes each row, so that an interrupted run leaves a complete record of its steps.
//
// The columns hold no labels, node selectors, tolerations, GPUs or usage. [Lost] with the format [Plan] names the shapes with such
// properties; repeat such a plan by its seed instead.
type PlanWriter struct {
	csv     *csv.Writer
	encoder *csvutil.Encoder
}

// NewPlanWriter writes the header to w and returns the writer.
func NewPlanWriter(w io.Writer) (*PlanWriter, error) {
	c := csv.NewWriter(w)
	p := &PlanWriter{csv: c, encoder: csvutil.NewEncoder(c)}
	if err := p.encoder.EncodeHeader(planRow{}); err != nil {
		return nil, fmt.Errorf("write the CSV header: %w", err)
	}
	return p, p.flush()
}

// WriteStep writes one row.
func (w *PlanWriter) WriteStep(s workload.Step) error {
	d := s.Deployment
	err := w.encoder.Encode(planRow{
		Name: d.Name, PodCount: podCount(d.Replicas), Action: actionTag(s.Action),
		CPURequest: cpuCell(d.Shape.Requests.MilliCPU), CPULimit: cpuCell(d.Shape.Limits.MilliCPU),
		MemRequest: memCell(d.Shape.Requests.Memory), MemLimit: memCell(d.Shape.Limits.Memory),
	})
	if err != nil {
		return fmt.Errorf("write the CSV: %w", err)
	}
	return w.flush()
}

func (w *PlanWriter) flush() error {
	w.csv.Flush()
	if err := w.csv.Error(); err != nil {
		return fmt.Errorf("write the CSV: %w", err)
	}
	return nil
}

// WritePlan writes a whole plan with its header.
func WritePlan(w io.Writer, p workload.Plan) error {
	out, err := NewPlanWriter(w)
	if err != nil {
		return err
	}
	for _, s := range p.Steps {
		if err := out.WriteStep(s); err != nil {
			return err
		}
	}
	return nil
}

// Lost returns the names of the plan's shapes that have a property for which the CSV has no column, each once, in the plan's order.
func Lost(p workload.Plan) (out []string) {
	for _, step := range p.Steps {
		s := step.Deployment.Shape
		loses := len(s.Labels)+len(s.NodeSelector)+len(s.NodeAffinity)+len(s.Tolerations)+len(s.GPUModels) > 0 || s.Requests.GPU > 0 ||
			s.Requests.GPUMilli > 0 || s.Usage != nil
		if loses && !slices.Contains(out, s.Name) {
			out = append(out, s.Name)
		}
	}
	return out
}
