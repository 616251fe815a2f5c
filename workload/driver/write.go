package driver

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"gnnsched/internal/cluster"
	"gnnsched/workload"
)

// Report is a summary with the seed and the file that repeat the run.
type Report struct {
	Summary
	Seed *uint64 `json:"seed,omitempty"` // nil if no random numbers decided the plan
	CSV  string  `json:"csv,omitempty"`  // file with the deployed workload; empty for none
}

// ReportFormats are the output formats of [Report.Write].
var ReportFormats = []string{"table", "json"}

// Write writes the report in one of ReportFormats.
func (s Report) Write(w io.Writer, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(s)
	}
	head := fmt.Sprintf("Run %s: %d fill(s) for scheduler %s in namespace %s, ", s.RunID, len(s.Fills), s.Scheduler, s.Namespace)
	if s.Seed != nil {
		head += fmt.Sprintf("seed %d, ", *s.Seed)
	}
	fmt.Fprintf(w, "%s%s\n\n", head, short(s.Elapsed))
	if err := writeFills(w, s.Fills); err != nil {
		return err
	}
	for i, f := range s.Fills {
		s.writeProblems(w, i+1, f)
	}
	if s.CSV != "" {
		fmt.Fprintf(w, "\ndeployed workload: %s\n", s.CSV)
	}
	return nil
}

// writeProblems writes which pods of a fill are pending or missing, and how full the GPUs are.
func (s Report) writeProblems(w io.Writer, fill int, f FillSummary) {
	shown, more := frequent(f.Reasons)
	for _, r := range shown {
		why := r.Message
		if why == "" {
			why = "scheduler " + s.Scheduler + " has not looked at them"
			if f.Bound == 0 {
				why += "; is it running?"
			}
		}
		fmt.Fprintf(w, "\npending in fill %d: %d pod(s): %s", fill, r.Pods, why)
	}
	if more.Pods > 0 {
		fmt.Fprintf(w, "\npending in fill %d: %d pod(s): %s", fill, more.Pods, more.Message)
	}
	if g := f.GPU; g != nil && g.Asked > 0 {
		fmt.Fprintf(w, "\nGPUs in fill %d: %s\n", fill, gpuLine(*g))
	}
	if missing := f.Pods - f.Created; missing > 0 {
		fmt.Fprintf(w, "\nmissing in fill %d: %d pod(s) that the cluster's controllers have not created", fill, missing)
	}
	if len(f.Reasons) > 0 || f.Pods > f.Created {
		fmt.Fprintln(w)
	}
}

// reasonsShown is how many reasons get a line. On a full cluster with nodes and pods of many
// kinds, almost every pod has a different one.
const reasonsShown = 10

// frequent returns the most frequent reasons, and the others added up to one. That one has no
// pods if there are no others.
func frequent(all []Reason) (shown []Reason, more Reason) {
	if len(all) <= reasonsShown {
		return all, more
	}
	for _, r := range all[reasonsShown:] {
		more.Pods += r.Pods
	}
	more.Message = fmt.Sprintf("%d other reasons; -o json has them", len(all)-reasonsShown)
	return all[:reasonsShown], more
}

// gpuLine says how full the GPUs are: "95.1% of 6212 allocated, 130.0% asked for; without a node: 3 pods
// without GPU, 90 with a share of one, 20 with whole ones".
func gpuLine(g GPUSummary) string {
	text := fmt.Sprintf("%.2f%% of %d allocated, %.1f%% asked for", 100*g.Allocation(), g.Capacity/cluster.DeviceMilli, 100*cluster.Fraction(g.Asked, g.Capacity))
	if g.AllocatedAtFull > 0 {
		text += fmt.Sprintf(" (%.2f%% of what came until 100%% were)", 100*g.AllocationAtFull())
	}
	return text + fmt.Sprintf("; without a node: %d pods without GPU, %d with a share of one, %d with whole ones", g.UnscheduledCPU, g.UnscheduledShare, g.UnscheduledWhole)
}

// writeFills writes a row for each fill. PODS/S is the number of pods bound, divided by the time
// from the fill's first Deployment to its last binding.
func writeFills(w io.Writer, fills []FillSummary) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "FILL\tDEPLOYMENTS\tPODS\tCREATED\tBOUND\tPENDING\tCPU-LOAD\tMEM-LOAD\tPOD-LOAD\tTIME\tPODS/S")
	var sum FillSummary
	for i, f := range fills {
		writeFill(t, fmt.Sprint(i+1), f, percent(f.Load))
		sum.Deployments += f.Deployments
		sum.Pods += f.Pods
		sum.Created += f.Created
		sum.Bound += f.Bound
		sum.Pending += f.Pending
		sum.Elapsed += f.Elapsed
		sum.Binding += f.Binding
	}
	if len(fills) > 1 {
		writeFill(t, "all", sum, "\t\t")
	}
	return t.Flush()
}

func writeFill(w io.Writer, name string, f FillSummary, load string) {
	rate := "-"
	if f.Binding > 0 {
		rate = fmt.Sprintf("%.1f", float64(f.Bound)/f.Binding.Seconds())
	}
	fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", name, f.Deployments, f.Pods, f.Created, f.Bound, f.Pending, load, short(f.Elapsed), rate)
}

func percent(l workload.Load) string {
	return fmt.Sprintf("%.1f%%\t%.1f%%\t%.1f%%", 100*l.CPU, 100*l.Memory, 100*l.Pods)
}

// short writes a duration to a tenth of a second.
func short(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }
