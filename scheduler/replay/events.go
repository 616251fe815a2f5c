package replay

import (
	"cmp"
	"container/heap"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"gnnsched/scheduler/memcluster"
	"gnnsched/scheduler/objective"
	"gnnsched/workload/record"
)

// kind is the kind of an event. Events of one time happen in the order of their kinds.
type kind int

const (
	podEnds kind = iota
	nodeGoes
	nodeChanges // or comes
	machineReady
	machineMissing // it never comes
	machineTaken   // by the provider
	podBinds       // really
	podArrives
	looks // of the autoscaler
)

// event is something that happens to a pod or a node of the source.
type event struct {
	at   int64
	kind kind
	row  int // of Source.Pods, Source.Nodes or fleet.machines
}

// agenda holds events, the next one first.
type agenda []event

// Len implements heap.Interface.
func (a agenda) Len() int { return len(a) }

// Less implements heap.Interface.
func (a agenda) Less(i, j int) bool {
	x, y := a[i], a[j]
	return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.kind, y.kind), cmp.Compare(x.row, y.row)) < 0
}

// Swap implements heap.Interface.
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

// Push implements heap.Interface.
func (a *agenda) Push(x any) { *a = append(*a, x.(event)) }

// Pop implements heap.Interface.
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// settling is the time after a node's arrival in which pods of DaemonSets may get it and still count as part of it, in milliseconds.
const settling = 30_000

// agendaOf returns the events of the window and the events that lead to the state at its beginning. If a profile places the pods, the pods
// of DaemonSets take their part of a new node at once. Otherwise waiting pods would have filled it before they come.
func agendaOf(s *Source, real bool) agenda {
	var a agenda
	came := map[string][]int64{}
	if !real {
		came = comings(s.Nodes)
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.From < s.To && (n.To == 0 || n.To > max(s.From, n.From)) {
			a = append(a, event{max(n.From, s.From), nodeChanges, i})
		}
		if n.Gone && n.To > s.From && n.To < s.To {
			a = append(a, event{n.To, nodeGoes, i})
		}
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Arrived >= s.To || p.Ended != 0 && p.Ended <= s.From {
			continue
		}
		if p.Bound == 0 || p.Bound > s.From {
			a = append(a, event{max(p.Arrived, s.From), podArrives, i})
		}
		if p.Bound != 0 && p.Bound < s.To {
			at := p.Bound
			for _, t := range came[p.Node] {
				if p.Daemon && t < p.Bound && p.Bound-t <= settling {
					at = t
				}
			}
			a = append(a, event{max(at, s.From), podBinds, i})
		}
		if p.Ended != 0 && p.Ended < s.To {
			a = append(a, event{max(p.Ended, p.Bound+1, p.Arrived+1), podEnds, i}) // it runs for a millisecond at least
		}
	}
	heap.Init(&a)
	return a
}

// comings returns when each node came.
func comings(nodes []record.Node) map[string][]int64 {
	type state struct {
		name string
		to   int64
	}
	stayed := map[state]bool{}
	for i := range nodes {
		if n := &nodes[i]; !n.Gone {
			stayed[state{n.Name, n.To}] = true
		}
	}
	out := map[string][]int64{}
	for i := range nodes {
		if n := &nodes[i]; !stayed[state{n.Name, n.From}] {
			out[n.Name] = append(out[n.Name], n.From)
		}
	}
	return out
}

// End returns the cluster at the end of the window, with its pods on their real nodes and with the profile's filters. Notes describe
// unreadable parts of the record. ctx ends the plugins.
func End(ctx context.Context, s Source, profile config.KubeSchedulerProfile) (cluster *memcluster.Placements, notes []string, err error) {
	s.From = s.To - 1 // earlier events do not matter
	p, err := really(ctx, s, Config{Profile: profile})
	if err != nil {
		return nil, nil, err
	}
	p.Allot(s.Devices)
	return p.Placements, p.objects.Notes(), nil
}

// really returns the course of what really happened, at its end. ctx ends the plugins.
func really(ctx context.Context, s Source, c Config) (*course, error) {
	c.Objective, c.Blocks = objective.Balance{}, 1
	p, err := begin(ctx, s, c, true)
	if err != nil {
		return nil, err
	}
	return p, p.run(ctx)
}

// Pod returns the pod of a row as an object of Kubernetes' API, without its node. It leaves out unreadable values.
func Pod(r *record.Pod) *v1.Pod { return newObjects().pod(r) }

// Metric is a figure of the cluster at a time.
type Metric int

// The metrics. Nodes in use have at least one pod that does not belong to the node.
const (
	Waiting   Metric = iota // pods without a node
	Nodes                   // nodes in use
	Imbalance               // standard deviation of the requested fraction of CPU over the nodes
	Watts                   // the nodes' power by their requests (cluster.Watts)
	Price                   // of the nodes in use, an hour
	Machines                // all nodes, with those that boot
	Bill                    // their price, an hour
	Idle                    // cores that nobody requests
	Cost                    // of the objective
	metrics
)

// Block is a stretch of time of a course.
type Block struct {
	Seconds float64          // recorded seconds
	Sums    [metrics]float64 // metric times seconds
	Pods    float64          // the pods of Course.Pods that began to wait in it
	Waited  float64          // seconds that these waited, whenever
}

// Plus implements blocks.Block.
func (b Block) Plus(o Block) Block {
	b.Seconds, b.Pods, b.Waited = b.Seconds+o.Seconds, b.Pods+o.Pods, b.Waited+o.Waited
	for i := range b.Sums {
		b.Sums[i] += o.Sums[i]
	}
	return b
}

// Mean returns the mean of a metric over the stretch; 0 for one of no length.
func (b Block) Mean(m Metric) float64 {
	if b.Seconds == 0 {
		return 0
	}
	return b.Sums[m] / b.Seconds
}

// Wait returns the mean wait, in seconds, of the pods that began to wait in the stretch; 0 without any.
func (b Block) Wait() float64 {
	if b.Pods == 0 {
		return 0
	}
	return b.Waited / b.Pods
}

// Course holds the events of a cluster: the real ones, or a profile's.
type Course struct {
	// Blocks are stretches of equal length, at the same times in all courses of one source.
	Blocks []Block
	// Waits has the waiting time of each of Pods, in seconds. A pod that never got a node waited until it went or the window ended. Gaps of
	// the recording do not count.
	Waits []float64

	// Pods counts pods pending at any moment of the window, even for zero time: arrivals, pods that waited already, pods that lost their
	// node, and pods that were made in their place. Pods of DaemonSets, static pods, and pods that began to wait in a gap of the recording
	// are left out.
	Pods        int
	Unscheduled int // pods that wait at the end
	NeverRan    int // pods that went before they got a node
	Preempted   int // times that a pod made room for another one
	Fallbacks   int // decisions that upstream's scores made instead of the profile's
	Refused     int // pods that are left out because a plugin failed on them; Notes name some
	Notes       []string

	// What owners did; zero for records that know none.
	FailedJobs int     // for want of tries
	Unmade     int     // pods of the record that no owner made, because others of its pods waited or its Job had failed
	OwnedHours float64 // of pods with an owner, as recorded
	OffHours   float64 // by which the pods of each owner differ from these, over time

	Abandoned     int     // pods that lost their node and that no owner makes anew; without owners or an autoscaler they wait again
	LostCoreHours float64 // of pods that finish by themselves and lost their node: cores requested, times how long they had run

	// What an autoscaler did; zero without one.
	Started     int                // machines
	Failed      int                // of these, those that never came
	Interrupted int                // spot machines that the provider took back
	Evicted     int                // pods, one as often as it was
	Hours       map[string]float64 // of machines, by type
}

// Whole returns the whole time as one block.
func (c Course) Whole() (out Block) {
	for _, b := range c.Blocks {
		out = out.Plus(b)
	}
	return out
}

// WaitQuantile returns the wait that a share q of the pods does not exceed, in seconds; 0 without pods.
func (c Course) WaitQuantile(q float64) float64 {
	if len(c.Waits) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(c.Waits))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}
