package trace

import (
	"encoding/csv"
	"fmt"
	"io"

	"github.com/jszwec/csvutil"

	"gnnsched/workload"
)

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
