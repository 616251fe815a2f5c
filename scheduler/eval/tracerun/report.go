package tracerun

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"gonum.org/v1/gonum/stat"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/driver"
)

// Report is the result of Run.
type Report struct {
	PodsFile string `json:"podList"`
	// GPURequests is the form of the pods' requests for GPUs; empty stands for annotations.
	GPURequests driver.GPURequests `json:"gpuRequests,omitempty"`
	Factor      float64            `json:"factor"`
	Nodes       int                `json:"nodes"`
	GPUs        int64              `json:"gpus"`
	Policies    []string           `json:"policies"`
	Seeds       []uint64           `json:"seeds"`
	Trials      []Trial            `json:"trials"` // in the order in which they ran
}

// Trial is the result of one profile with the arrivals of one seed.
type Trial struct {
	Policy    string            `json:"policy"`
	Seed      uint64            `json:"seed"`
	Pods      int               `json:"pods"`  // that arrived
	Bound     int               `json:"bound"` // that got a node
	GPU       driver.GPUSummary `json:"gpu"`
	Binding   time.Duration     `json:"bindingNanoseconds"` // from the first pod to the last one with a node
	Fallbacks int               `json:"fallbacks"`          // decisions taken by upstream's scoring instead of the policy
	// Choices counts the device choices for the reserved pods with claims.
	Choices   server.ClaimChoices `json:"claimChoices"`
	Simulated *sim.GPUOutcome     `json:"simulated"` // of the same episode
	// Same is the number of pods that got the same node as in the simulator, or no node in both.
	Same int `json:"same"`
	// SameDevices counts those that also got the same devices.
	SameDevices int `json:"sameDevices"`

	Tally *tally `json:"tally,omitempty"` // with driver.Mixed, in place of the simulator's figures
}

// column is a column of the table: the mean over the seeds, some with the standard deviation.
type column struct {
	title  string
	of     func(Trial) float64
	form   string
	spread bool // also show the standard deviation
}

// allocations are the columns that compare the profiles.
var allocations = []column{
	{"GPU allocation %", func(t Trial) float64 { return 100 * t.GPU.Allocation() }, "%.2f", true},
	{"when 100% asked %", func(t Trial) float64 { return 100 * t.GPU.AllocationAtFull() }, "%.2f", true},
}

// columns follow the allocations.
var columns = []column{
	{"simulator %", func(t Trial) float64 { return 100 * t.Simulated.Allocation }, "%.2f", false},
	{"same node %", func(t Trial) float64 { return 100 * float64(t.Same) / float64(max(t.Pods, 1)) }, "%.1f", false},
	{"same devices %", func(t Trial) float64 { return 100 * float64(t.SameDevices) / float64(max(t.Pods, 1)) }, "%.1f", false},
	{"unscheduled", func(t Trial) float64 { return float64(t.Pods - t.Bound) }, "%.1f", true},
	{"no GPU", func(t Trial) float64 { return float64(t.GPU.UnscheduledCPU) }, "%.1f", false},
	{"share", func(t Trial) float64 { return float64(t.GPU.UnscheduledShare) }, "%.1f", false},
	{"whole", func(t Trial) float64 { return float64(t.GPU.UnscheduledWhole) }, "%.1f", false},
	{"pods/s", func(t Trial) float64 { return float64(t.Bound) / max(t.Binding.Seconds(), 1e-9) }, "%.0f", false},
}

// Write writes the report for a terminal, or as Markdown.
func (r *Report) Write(w io.Writer, markdown bool) error {
	page := &eval.Page{Markdown: markdown}
	page.Printf("%s%s on a simulated cluster of %d nodes with %d GPUs and the real kube-scheduler, until %.0f%% of the GPUs\n"+
		"were asked for; means over %s:\n\n",
		filepath.Base(r.PodsFile), forms[r.GPURequests].text, r.Nodes, r.GPUs, 100*r.Factor, r.seeds())
	page.Table(r.rows())
	r.writeDifferences(page)
	for _, p := range r.Policies {
		fallbacks, choices := 0, server.ClaimChoices{}
		for _, t := range r.Trials {
			if t.Policy == p {
				fallbacks, choices = fallbacks+t.Fallbacks, choices.Plus(t.Choices)
			}
		}
		if choices != (server.ClaimChoices{}) {
			page.Printf("\nDevices for claims, %s: %d pods got those that the policy chose, %d others, and for %d it chose none.\n",
				p, choices.Taken, choices.Other, choices.None)
		}
		if fallbacks > 0 {
			page.Printf("\nIn %d decisions upstream's scoring stood in for %s; the log says why.\n", fallbacks, p)
		}
	}
	return page.Write(w)
}

// writeDifferences writes the GPU allocation of the first profile minus each other profile's, on the same arrivals.
func (r *Report) writeDifferences(page *eval.Page) {
	if len(r.Seeds) < 2 {
		return
	}
	var titles []string
	var all []*eval.Difference
	for _, p := range r.Policies[1:] {
		for _, c := range allocations {
			d := eval.Paired(r.values(r.Policies[0], c.of), r.values(p, c.of))
			titles, all = append(titles, fmt.Sprintf("%s, %s minus %s", c.title, r.Policies[0], p)), append(all, &d)
		}
	}
	eval.Together(all...)
	for i, d := range all {
		page.Printf("\n%s: %+.2f points, 95%% interval %+.2f to %+.2f", titles[i], d.Mean, d.Low, d.High)
		if chance := d.Chance(); chance != "" {
			page.Printf(", p %s", chance)
		}
		page.Printf("\n")
	}
	if len(all) > 0 {
		page.Printf("\n%s\n", eval.Signs.Rule(len(r.Seeds), len(all)))
	}
}

// values returns a figure of a policy's trials, by seed.
func (r *Report) values(policy string, of func(Trial) float64) (out []float64) {
	for _, seed := range r.Seeds {
		for _, t := range r.Trials {
			if t.Policy == policy && t.Seed == seed {
				out = append(out, of(t))
			}
		}
	}
	return out
}

func (r *Report) seeds() string {
	if n := len(r.Seeds); n > 1 {
		return fmt.Sprintf("the seeds %d to %d", r.Seeds[0], r.Seeds[n-1])
	}
	return "seed " + strconv.FormatUint(r.Seeds[0], 10)
}

// rows returns the rows of the table.
func (r *Report) rows() [][]string {
	all := slices.Concat(allocations, columns)
	if r.GPURequests == driver.Mixed {
		all = slices.Concat(allocations, tallyColumns)
	}
	header := []string{"profile"}
	for _, c := range all {
		header = append(header, c.title)
	}
	rows := [][]string{header}
	for _, p := range r.Policies {
		row := []string{p}
		for _, c := range all {
			values := r.values(p, c.of)
			cell := fmt.Sprintf(c.form, stat.Mean(values, nil))
			if c.spread && len(r.Seeds) > 1 {
				cell += fmt.Sprintf(" ± "+c.form, stat.StdDev(values, nil))
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return rows
}
