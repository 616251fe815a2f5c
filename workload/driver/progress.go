package driver

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"

	"gnnsched/workload"
)

// Phase is a part of a fill.
type Phase string

// The phases, in their order.
const (
	Deploying Phase = "deploying"
	Settling  Phase = "settling"  // waiting for the pods to be bound
	Resetting Phase = "resetting" // deleting everything
)

// Progress is the state of a run under way.
type Progress struct {
	Phase       Phase
	Fill, Fills int // number of the current fill, from 1, and of all fills

	Pods     int // replicas of the present Deployments
	Created  int // pods of theirs that exist
	Bound    int // pods of theirs that have a node
	Arrivals int // pods of a plan with times; 0 if steps ignore their times
	Arrived  int // pods created so far by a plan with times, including pods that have left
	Placed   int // the ones that ever had a node
	gone     int // the ones that have left
	deleting int // objects that a reset has yet to delete

	Load    workload.Load // requested, including the pods of others
	Next    time.Duration // until the next step of a plan with times
	Done    float64       // of the whole plan, 0 to 1
	Elapsed time.Duration
	Left    time.Duration // estimated; negative if there is no estimate yet
}

// String formats the progress as "fill 1/2: 120/210 bound, cpu 12% mem 8% pods 11%, 8s to go". For a plan with times it begins with
// "300/500 pods arrived, 280 placed, 200 left, 5 wait for a node". It also names what the run waits for.
func (p Progress) String() string {
	if p.Phase == Resetting {
		return fmt.Sprintf("fill %d/%d: deleting, %d objects left", p.Fill, p.Fills, p.deleting)
	}
	text := fmt.Sprintf("fill %d/%d: %d/%d bound, %v", p.Fill, p.Fills, p.Bound, p.Pods, p.Load)
	if p.Pods == 0 {
		text = fmt.Sprintf("fill %d/%d: creating the first pods, %v", p.Fill, p.Fills, p.Load)
	}
	if p.Arrivals > 0 {
		text = fmt.Sprintf("%d/%d pods arrived, %d placed, %d left, %d wait for a node, %v",
			p.Arrived, p.Arrivals, p.Placed, p.gone, p.Pods-p.Bound, p.Load)
	}
	switch {
	case p.Phase == Settling && p.Bound < p.Pods:
		text += fmt.Sprintf(", waiting for %d %s to be bound", p.Pods-p.Bound, english.PluralWord(p.Pods-p.Bound, "pod", ""))
	case p.Next > time.Second:
		text += ", waiting " + p.Next.Round(time.Second).String() + " for the next pod to come or leave"
	}
	if p.Left >= 0 {
		text += ", " + p.Left.Round(time.Second).String() + " to go"
	}
	return text
}

// noteBinding records the time if more pods are bound than before.
func (r *runner) noteBinding() {
	if placed := r.pods.everPlaced() - r.bindings; placed > r.fill.Placed {
		r.fill.Placed, r.fill.Binding = placed, r.Clock.Since(r.fillStart)
	}
}

func (r *runner) load() workload.Load {
	return workload.LoadOf(r.Capacity.Used.Plus(r.requested), r.Capacity.Allocatable)
}

// report calls Progress, but at most every 100 ms unless now is set. deleting is the number of
// objects that a reset has yet to delete.
func (r *runner) report(phase Phase, deleting int, now bool) {
	const interval = 100 * time.Millisecond
	if !now && r.Clock.Since(r.reported) < interval {
		return
	}
	r.reported = r.Clock.Now()
	fill := len(r.sum.Fills)
	if phase == Resetting {
		fill-- // the fill is already in the summary
	}
	t, _ := r.pods.count(r.existing)
	p := Progress{
		Phase: phase, Fill: fill + 1, Fills: len(r.fills),
		Pods: r.fill.Pods, Created: t.created, Bound: t.bound, deleting: deleting,
		Load: r.load(), Elapsed: r.Clock.Since(r.start), Left: -1,
	}
	if r.Speed > 0 {
		r.timedProgress(&p)
	} else {
		r.countedProgress(&p)
	}
	r.Progress(p)
}

// countedProgress sets the progress of a plan without times, by the pods that are bound.
func (r *runner) countedProgress(p *Progress) {
	total, done := 0, r.podsBefore
	for _, f := range r.fills {
		total += f.Pods
	}
	if p.Phase != Resetting {
		done += p.Bound
	}
	if total > 0 {
		p.Done = min(1, float64(done)/float64(total))
	}
	if done > 0 {
		p.Left = time.Duration(float64(p.Elapsed) * (1 - p.Done) / p.Done)
	}
}

// timedProgress sets the progress of a plan with times, by the clock. After the last step, the time until pods are bound is unknown.
func (r *runner) timedProgress(p *Progress) {
	p.Arrived, p.Placed, p.gone = r.arrived, r.pods.everPlaced(), r.gone
	for _, f := range r.fills {
		p.Arrivals += f.Pods
	}
	if p.Phase != Deploying {
		p.Done = 1
		return
	}
	end := r.due(r.Plan.Steps[len(r.Plan.Steps)-1])
	p.Next = max(0, r.next-p.Elapsed)
	p.Left = max(0, end-p.Elapsed)
	if end > 0 {
		p.Done = min(1, float64(p.Elapsed)/float64(end))
	}
}

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
