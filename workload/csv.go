package workload

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/jszwec/csvutil"

	"gnnsched/internal/cluster"
)

// row is a line of the CSV: AAML's columns in AAML's order.
type row struct {
	Name       string    `csv:"name"`
	PodCount   podCount  `csv:"pod_count,omitempty"`
	CPURequest cpuCell   `csv:"cpu_request,omitempty"`
	CPULimit   cpuCell   `csv:"cpu_limit,omitempty"`
	MemRequest memCell   `csv:"mem_request,omitempty"`
	MemLimit   memCell   `csv:"mem_limit,omitempty"`
	Action     actionTag `csv:"action,omitempty"`
}

var columns = []string{"name", "pod_count", "cpu_request", "cpu_limit", "mem_request", "mem_limit", "action"}

type (
	podCount  int   // pods; 0 where the cell is empty
	cpuCell   int64 // thousandths of a core; 0 where the cell is empty
	memCell   int64 // bytes; 0 where the cell is empty
	actionTag Action
)

// The words for actions that are understood. "nothing" is a row that AAML-like tools may
// write for a round in which they did not act.
const nothing = actionTag(-1)

var actionWords = map[string]actionTag{
	"": actionTag(Add), "add": actionTag(Add), "create": actionTag(Add), "deploy": actionTag(Add), "apply": actionTag(Add),
	"delete": actionTag(Delete), "remove": actionTag(Delete), "undeploy": actionTag(Delete),
	"reset": actionTag(Reset), "clear": actionTag(Reset), "cluster_reset": actionTag(Reset), "cluster-reset": actionTag(Reset),
	"nothing": nothing, "none": nothing, "noop": nothing, "skip": nothing,
}

func (a actionTag) MarshalText() ([]byte, error) { return []byte(Action(a).String()), nil }

func (a *actionTag) UnmarshalText(b []byte) error {
	v, ok := actionWords[strings.ToLower(string(b))]
	if !ok {
		return fmt.Errorf("%q is not an action; known are add, delete, reset and nothing", b)
	}
	*a = v
	return nil
}

func (p podCount) MarshalText() ([]byte, error) {
	if p == 0 {
		return nil, nil
	}
	return []byte(strconv.Itoa(int(p))), nil
}

func (p *podCount) UnmarshalText(b []byte) error {
	s := string(b)
	if whole, zeros, ok := strings.Cut(s, "."); ok && zeros != "" && strings.Trim(zeros, "0") == "" {
		s = whole // pandas writes counts as 8.0 once a column has an empty cell
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > maxReplicas {
		return fmt.Errorf("%q is not a number of pods from 1 to %d", b, maxReplicas)
	}
	*p = podCount(n)
	return nil
}

func (c cpuCell) MarshalText() ([]byte, error) {
	if c == 0 {
		return nil, nil
	}
	return []byte(cluster.FormatCPU(int64(c))), nil
}

func (c *cpuCell) UnmarshalText(b []byte) error {
	n, err := cluster.ParseCPU(string(b))
	*c = cpuCell(n)
	return err
}

func (m memCell) MarshalText() ([]byte, error) {
	if m == 0 {
		return nil, nil
	}
	return []byte(cluster.FormatMemory(int64(m))), nil
}

func (m *memCell) UnmarshalText(b []byte) error {
	n, err := cluster.ParseMemory(string(b))
	*m = memCell(n)
	return err
}

// Recorder writes steps as CSV, AAML's columns, each line flushed as it is written, so that a
// run that breaks off leaves what it did.
//
// The columns hold no labels, node selectors, tolerations or GPUs: a plan whose shapes have them
// is repeated by its seed, not by its CSV.
type Recorder struct {
	w   *csv.Writer
	enc *csvutil.Encoder
}

// NewRecorder writes the header to w and returns the recorder.
func NewRecorder(w io.Writer) (*Recorder, error) {
	cw := csv.NewWriter(w)
	r := &Recorder{w: cw, enc: csvutil.NewEncoder(cw)}
	if err := r.enc.EncodeHeader(row{}); err != nil {
		return nil, fmt.Errorf("write the CSV header: %w", err)
	}
	return r, r.flush()
}

// Record writes one step.
func (r *Recorder) Record(s Step) error {
	d := s.Deployment
	err := r.enc.Encode(row{
		Name: d.Name, PodCount: podCount(d.Replicas), Action: actionTag(s.Action),
		CPURequest: cpuCell(d.Shape.Requests.MilliCPU), CPULimit: cpuCell(d.Shape.Limits.MilliCPU),
		MemRequest: memCell(d.Shape.Requests.Memory), MemLimit: memCell(d.Shape.Limits.Memory),
	})
	if err != nil {
		return fmt.Errorf("write the CSV: %w", err)
	}
	return r.flush()
}

func (r *Recorder) flush() error {
	r.w.Flush()
	if err := r.w.Error(); err != nil {
		return fmt.Errorf("write the CSV: %w", err)
	}
	return nil
}

// WriteCSV writes a whole plan, header included.
func WriteCSV(w io.Writer, p Plan) error {
	r, err := NewRecorder(w)
	if err != nil {
		return err
	}
	for _, s := range p.Steps {
		if err := r.Record(s); err != nil {
			return err
		}
	}
	return nil
}

// LostInCSV names the shapes of the plan that hold what the CSV cannot: labels, a node
// selector, tolerations or GPUs (whole, shared or of a model).
func LostInCSV(p Plan) []string {
	var out []string
	seen := map[string]bool{}
	for _, s := range p.Steps {
		sh := s.Deployment.Shape
		if len(sh.Labels)+len(sh.NodeSelector)+len(sh.Tolerations)+len(sh.GPUModels)+int(sh.Requests.TotalGPUMilli()) > 0 && !seen[sh.Name] {
			seen[sh.Name] = true
			out = append(out, sh.Name)
		}
	}
	return out
}
