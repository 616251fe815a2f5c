package driver

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
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
	// Ends are the flags that ended the fills of a random plan.
	Ends []string `json:"ends,omitempty"`
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
	if err := s.writeFills(w); err != nil {
		return err
	}
	if len(s.Ends) > 0 {
		fmt.Fprintf(w, "\nwhat ends a fill: %s\n", strings.Join(slices.Compact(slices.Clone(s.Ends)), ", "))
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
	s.writeReasons(w, fmt.Sprintf("pending in fill %d", fill), f.Reasons, f.Placed)
	s.writeReasons(w, fmt.Sprintf("left without ever having a node in fill %d", fill), f.LeftUnplaced, f.Placed)
	s.writeReasons(w, fmt.Sprintf("refused by the API server in fill %d", fill), f.Refused, f.Placed)
	if n := f.Lost + f.Replaced; n > 0 {
		fmt.Fprintf(w,
			"\ndeleted by others in fill %d, such as by preemption: %d pod(s), of which %d came again, as their owners would create them",
			fill, n, f.Replaced)
	}
	if g := f.GPU; g != nil && g.Asked > 0 {
		fmt.Fprintf(w, "\nGPUs in fill %d: %s\n", fill, gpuLine(*g))
	}
	if missing := f.Pods - f.Created; missing > 0 {
		why := "the cluster's controllers have not created"
		if s.Bare {
			why = "others are deleting"
		}
		fmt.Fprintf(w, "\nmissing in fill %d: %d pod(s) that %s", fill, missing, why)
	}
	if len(f.Reasons)+len(f.LeftUnplaced)+len(f.Refused)+f.Lost+f.Replaced > 0 || f.Pods > f.Created {
		fmt.Fprintln(w)
	}
}

// writeReasons writes a line for each of the most frequent reasons. placed is the number of pods that had
// a node.
func (s Report) writeReasons(w io.Writer, what string, reasons []Reason, placed int) {
	shown, more := frequent(reasons)
	for _, r := range shown {
		why := r.Message
		if why == "" {
			why = "scheduler " + s.Scheduler + " has not looked at them"
			if placed == 0 {
				why += "; is it running?"
			}
		}
		fmt.Fprintf(w, "\n%s: %d pod(s): %s", what, r.Pods, why)
	}
	if more.Pods > 0 {
		fmt.Fprintf(w, "\n%s: %d pod(s): %s", what, more.Pods, more.Message)
	}
}

// reasonsShown is the number of reasons with a line of their own. On a full cluster with nodes and pods of many kinds, almost every pod has
// a different one.
const reasonsShown = 10

// frequent returns the most frequent reasons, and the sum of the others, which has no pods if there are no others.
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

// gpuLine describes the allocation of the GPUs: "95.1% of 6212 allocated, 130.0% asked for; without a node: 3 pods without GPU, 90 with a
// share of one, 20 with whole ones".
func gpuLine(g GPUSummary) string {
	text := fmt.Sprintf("%.2f%% of %d allocated, %.1f%% asked for", 100*g.Allocation(),
		g.Capacity/cluster.DeviceMilli, 100*cluster.Fraction(g.Asked, g.Capacity))
	if g.AllocatedAtFull > 0 {
		text += fmt.Sprintf(" (%.2f%% of what came until 100%% were)", 100*g.AllocationAtFull())
	}
	return text + fmt.Sprintf("; without a node: %d pods without GPU, %d with a share of one, %d with whole ones",
		g.UnscheduledCPU, g.UnscheduledShare, g.UnscheduledWhole)
}

// writeFills writes a row for each fill, and their sum.
func (s Report) writeFills(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	counts := FillSummary.countDeployments
	head := "DEPLOYMENTS\tPODS\tCREATED\tBOUND\tPENDING"
	if s.Bare {
		counts, head = FillSummary.countPods, "PODS\tPLACED\tUNPLACED\tLEFT"
	}
	fmt.Fprintf(t, "FILL\t%s\tCPU-LOAD\tMEM-LOAD\tPOD-LOAD\tTIME\tPODS/S\n", head)
	var sum FillSummary
	for i, f := range s.Fills {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\n", i+1, counts(f), percent(f.Load), f.pace())
		sum.Deployments += f.Deployments
		sum.Pods += f.Pods
		sum.Created += f.Created
		sum.Bound += f.Bound
		sum.Pending += f.Pending
		sum.Arrived += f.Arrived
		sum.Placed += f.Placed
		sum.Left += f.Left
		sum.Elapsed += f.Elapsed
		sum.Binding += f.Binding
	}
	if len(s.Fills) > 1 {
		fmt.Fprintf(t, "all\t%s\t\t\t\t%s\n", counts(sum), sum.pace())
	}
	return t.Flush()
}

// countDeployments returns the cells of a fill with Deployments, whose pods are those at its end.
func (f FillSummary) countDeployments() string {
	return fmt.Sprintf("%d\t%d\t%d\t%d\t%d", f.Deployments, f.Pods, f.Created, f.Bound, f.Pending)
}

// countPods returns the cells of a fill without Deployments, with the pods from its beginning to its end.
func (f FillSummary) countPods() string {
	return fmt.Sprintf("%d\t%d\t%d\t%d", f.Arrived, f.Placed, f.Arrived-f.Placed, f.Left)
}

// pace returns the duration of a fill, and PODS/S: the number of pods that got a node, divided by the time from the fill's first Deployment
// to its last binding.
func (f FillSummary) pace() string {
	rate := "-"
	if f.Binding > 0 {
		rate = fmt.Sprintf("%.1f", float64(f.Placed)/f.Binding.Seconds())
	}
	return short(f.Elapsed) + "\t" + rate
}

func percent(l workload.Load) string {
	return fmt.Sprintf("%.1f%%\t%.1f%%\t%.1f%%", 100*l.CPU, 100*l.Memory, 100*l.Pods)
}

// short writes a duration to a tenth of a second.
func short(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }
