package replay

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"time"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/driver"
)

// Report is what came of it.
type Report struct {
	PodsFile string   `json:"podList"`
	Factor   float64  `json:"factor"`
	Nodes    int      `json:"nodes"`
	GPUs     int64    `json:"gpus"`
	Policies []string `json:"policies"`
	Seeds    []uint64 `json:"seeds"`
	Trials   []Trial  `json:"trials"` // in the order in which they were run
}

// Trial is what one profile made of the arrivals of one seed.
type Trial struct {
	Policy    string            `json:"policy"`
	Seed      uint64            `json:"seed"`
	Pods      int               `json:"pods"`  // that arrived
	Bound     int               `json:"bound"` // that got a node
	GPU       driver.GPUSummary `json:"gpu"`
	Binding   time.Duration     `json:"bindingNanoseconds"` // from the first pod to the last that got a node
	Fallbacks int               `json:"fallbacks"`          // decisions that upstream's scoring made in the policy's place
	Simulated *sim.GPUOutcome   `json:"simulated"`          // of the same episode
	// Same is how many pods got the same node in the simulator, or none in both.
	Same int `json:"same"`
}

// columns of the table, each a mean over the seeds.
var columns = []struct {
	title string
	of    func(Trial) float64
	form  string
}{
	{"GPU allocation %", func(t Trial) float64 { return 100 * t.GPU.Allocation() }, "%.2f"},
	{"at 100% %", func(t Trial) float64 { return 100 * t.GPU.AllocationAtFull() }, "%.2f"},
	{"simulator %", func(t Trial) float64 { return 100 * t.Simulated.Allocation }, "%.2f"},
	{"same node %", func(t Trial) float64 { return 100 * float64(t.Same) / float64(max(t.Pods, 1)) }, "%.1f"},
	{"unscheduled", func(t Trial) float64 { return float64(t.Pods - t.Bound) }, "%.1f"},
	{"no GPU", func(t Trial) float64 { return float64(t.GPU.UnscheduledCPU) }, "%.1f"},
	{"share", func(t Trial) float64 { return float64(t.GPU.UnscheduledShare) }, "%.1f"},
	{"whole", func(t Trial) float64 { return float64(t.GPU.UnscheduledWhole) }, "%.1f"},
	{"pods/s", func(t Trial) float64 { return float64(t.Bound) / max(t.Binding.Seconds(), 1e-9) }, "%.0f"},
}

// Write writes the report for a terminal, or as Markdown.
func (r *Report) Write(w io.Writer, markdown bool) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s on a simulated cluster of %d nodes with %d GPUs and the real kube-scheduler, until %.0f%% of the GPUs\nwere asked for; means over %s:\n\n",
		filepath.Base(r.PodsFile), r.Nodes, r.GPUs, 100*r.Factor, r.seeds())
	if err := eval.Render(&b, r.rows(), markdown); err != nil {
		return err
	}
	for _, p := range r.Policies {
		fallbacks := 0
		for _, t := range r.Trials {
			if t.Policy == p {
				fallbacks += t.Fallbacks
			}
		}
		if fallbacks > 0 {
			fmt.Fprintf(&b, "\nIn %d decisions upstream's scoring stood in for %s; the log says why.\n", fallbacks, p)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (r *Report) seeds() string {
	if n := len(r.Seeds); n > 1 {
		return fmt.Sprintf("the seeds %d to %d", r.Seeds[0], r.Seeds[n-1])
	}
	return "seed " + strconv.FormatUint(r.Seeds[0], 10)
}

func (r *Report) rows() [][]string {
	header := []string{"profile"}
	for _, c := range columns {
		header = append(header, c.title)
	}
	rows := [][]string{header}
	for _, p := range r.Policies {
		row := []string{p}
		for _, c := range columns {
			row = append(row, fmt.Sprintf(c.form, r.mean(p, c.of)))
		}
		rows = append(rows, row)
	}
	return rows
}

// mean is over the policy's trials.
func (r *Report) mean(policy string, of func(Trial) float64) float64 {
	var sum float64
	n := 0
	for _, t := range r.Trials {
		if t.Policy == policy {
			sum += of(t)
			n++
		}
	}
	return sum / float64(max(n, 1))
}
