package driver

import (
	"cmp"
	"slices"
	"time"

	"gnnsched/workload"
)

// Summary is the outcome of a run.
type Summary struct {
	RunID            string        `json:"run"`
	Scheduler        string        `json:"scheduler"`
	Bare             bool          `json:"bare"` // pods without Deployments
	Namespace        string        `json:"namespace"`
	NamespaceCreated bool          `json:"namespaceCreated"` // by this run
	Fills            []FillSummary `json:"fills"`
	Elapsed          time.Duration `json:"elapsedNanoseconds"`
}

// FillSummary is the outcome of one fill.
type FillSummary struct {
	Deployments int      `json:"deployments"`       // created Deployments
	Deleted     int      `json:"deleted"`           // created Deployments that the plan deleted
	Pods        int      `json:"pods"`              // replicas of the remaining Deployments
	Created     int      `json:"created"`           // pods at the fill's end; fewer than Pods if controllers lag behind
	Bound       int      `json:"bound"`             // pods with a node at the fill's end
	Pending     int      `json:"pending"`           // pods without a node at the fill's end
	Reasons     []Reason `json:"reasons,omitempty"` // why pods are pending, the most frequent first

	Arrived      int      `json:"arrived"`                // pods from the fill's beginning to its end, with pods that have left
	Placed       int      `json:"placed"`                 // pods that ever had a node
	Left         int      `json:"left"`                   // pods that the plan deleted
	Lost         int      `json:"lost,omitempty"`         // pods that others deleted for good
	Replaced     int      `json:"replaced,omitempty"`     // recreated pods of a record that others had deleted
	LeftUnplaced []Reason `json:"leftUnplaced,omitempty"` // why some left or were lost without ever having a node
	Refused      []Reason `json:"refused,omitempty"`      // why pods of a record never came: the API server's reasons

	Load    workload.Load `json:"load"`          // requested, including the pods of others
	GPU     *GPUSummary   `json:"gpu,omitempty"` // nil on a cluster without GPUs
	Elapsed time.Duration `json:"elapsedNanoseconds"`
	Binding time.Duration `json:"bindingNanoseconds"` // from the start of the fill to its last binding
}

// Reason is a number of pods that are pending for the same reason.
type Reason struct {
	Pods    int    `json:"pods"`
	Message string `json:"message"` // the scheduler's; empty if no scheduler has tried the pods
}

// Pending returns the number of pods, in all fills, that were pending or not created.
func (s Summary) Pending() int {
	n := 0
	for _, f := range s.Fills {
		n += f.Pods - f.Bound
	}
	return n
}

// reasonsOf returns why pods are pending.
func reasonsOf(pods []pod) []Reason {
	counts := map[string]int{}
	for _, p := range pods {
		counts[p.reason]++
	}
	return sortedReasons(counts)
}

func sortedReasons(counts map[string]int) []Reason {
	var out []Reason
	for m, n := range counts {
		out = append(out, Reason{Pods: n, Message: m})
	}
	slices.SortFunc(out, func(a, b Reason) int { return cmp.Or(b.Pods-a.Pods, cmp.Compare(a.Message, b.Message)) })
	return out
}
