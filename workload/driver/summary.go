package driver

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gnnsched/workload"
)

// Phase is what a run is doing.
type Phase string

// The phases of each fill.
const (
	Deploying Phase = "deploying"
	Settling  Phase = "settling"  // waiting for the pods to be bound
	Resetting Phase = "resetting" // deleting everything
)

// Progress is how far a run has come.
type Progress struct {
	Phase       Phase
	Fill, Fills int // the current one, from 1, and how many there are

	Deployments, DeploymentsDue int // created in this fill, and to be created
	Pods                        int // that the Deployments created in this fill ask for and have not lost to a delete
	Created, Bound              int // of these
	Deleting                    int // objects still there while resetting

	Load    workload.Load // asked for, others' pods included
	Done    float64       // of the whole plan, 0 to 1
	Elapsed time.Duration
	Left    time.Duration // an estimate; negative while there is none
}

// String writes the progress in one line: "fill 1/2: 120/210 bound, cpu 12% mem 8% pods 11%, 8s left".
func (p Progress) String() string {
	if p.Phase == Resetting {
		return fmt.Sprintf("fill %d/%d: deleting, %d objects left", p.Fill, p.Fills, p.Deleting)
	}
	text := fmt.Sprintf("fill %d/%d: %d/%d bound, %v", p.Fill, p.Fills, p.Bound, p.Pods, p.Load)
	if p.Left >= 0 {
		text += ", " + p.Left.Round(time.Second).String() + " left"
	}
	return text
}

// Summary is what came of a run.
type Summary struct {
	RunID            string        `json:"run"`
	Scheduler        string        `json:"scheduler"`
	Namespace        string        `json:"namespace"`
	NamespaceCreated bool          `json:"namespaceCreated"` // by this run
	Fills            []FillSummary `json:"fills"`
	Elapsed          time.Duration `json:"elapsedNanoseconds"`
}

// FillSummary is what came of one fill. Created, Bound and Pending are the pods that there
// were when the fill ended; fewer created than Pods means that the cluster's controllers did
// not get to it.
type FillSummary struct {
	Deployments int           `json:"deployments"` // created
	Deleted     int           `json:"deleted"`     // of these, by a delete of the plan
	Pods        int           `json:"pods"`        // asked for by those not deleted
	Created     int           `json:"created"`
	Bound       int           `json:"bound"`
	Pending     int           `json:"pending"`
	Reasons     []Reason      `json:"reasons,omitempty"` // of the pending ones, the most frequent first
	Load        workload.Load `json:"load"`              // asked for, others' pods included
	GPU         *GPUSummary   `json:"gpu,omitempty"`     // nil on a cluster without GPUs
	Elapsed     time.Duration `json:"elapsedNanoseconds"`
	// Binding is the time from the first Deployment of the fill to the last pod that was
	// bound.
	Binding time.Duration `json:"bindingNanoseconds"`
}

// Reason is why pods are pending.
type Reason struct {
	Pods    int    `json:"pods"`
	Message string `json:"message"` // the scheduler's; empty if none has looked at the pods
}

// Pending is the pods of all fills that were left pending or not created.
func (s Summary) Pending() int {
	n := 0
	for _, f := range s.Fills {
		n += f.Pods - f.Bound
	}
	return n
}

func sortedReasons(counts map[string]int) []Reason {
	var out []Reason
	for m, n := range counts {
		out = append(out, Reason{Pods: n, Message: m})
	}
	slices.SortFunc(out, func(a, b Reason) int { return cmp.Or(b.Pods-a.Pods, cmp.Compare(a.Message, b.Message)) })
	return out
}
