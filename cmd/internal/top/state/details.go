package state

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/decision/record"
	"gnnsched/scheduler/plugin/course"
	"gnnsched/scheduler/shadow"
	"gnnsched/scheduler/usage"
)

// Ask says which details a screen shows. The zero value asks for none.
type Ask struct {
	Node      string // the pods on this node
	Workloads bool
	Decisions bool // of all schedulers that are asked
	Placed    bool
	Pending   bool
	Devices   bool // the GPUs of all nodes
	Events    bool
	Learning  bool // of one scheduler
	Shadow    bool // what one scheduler has found in the shadow of another one
	Usage     bool // what one scheduler has measured
	Server    int  // which of the schedulers is asked for Learning, Shadow and Usage
}

// Details is the part of the cluster that few screens show. It holds only what was asked for.
type Details struct {
	Node      string // whose Pods these are
	Pods      []BoundPod
	Cards     []Card
	Devices   []NodeCards
	Pending   []PendingPod // all of them, the oldest first
	Workloads []Workload

	Decisions []Decision // the newest first
	Silent    []Silent   // the schedulers that told none, or no newer ones
	Placed    []Placed

	Events    []Event // the newest first
	EventsErr error

	Learning    course.Samples // no times: no profile of the scheduler learns
	LearningErr error          // why there are none, or no newer ones

	Shadow    shadow.Live // no version: nothing is known
	ShadowErr error       // why nothing is known, or nothing newer

	Usage    []usage.Report // none: the scheduler measures nothing
	UsageErr error          // why nothing is known, or nothing newer
}

// Decision is a decision that a scheduler told, or a pod that the API says is bound.
type Decision struct {
	record.Record
	Server  string // the scheduler that told it; empty if only one is asked
	Counted bool   // nobody told it: the pod is bound, and its schedulerName is Profile
}

// Silent is a scheduler that does not answer.
type Silent struct {
	Server string // empty if only one is asked
	Err    error
}

// BoundPod is a pod on a node with its requests.
type BoundPod struct {
	Namespace string
	Name      string
	Workload  string // Kind/name; empty without a controller
	Scheduler string
	CPU       int64 // millicores
	Memory    int64 // bytes
	GPU       int64 // thousandths of devices
	Devices   cluster.DeviceSet
	Held      []Held // by claims; their thousandths are in GPU
	Created   time.Time
}

// Workload is the sum over the pods of one controller. The pods of a namespace without a controller are one workload too.
type Workload struct {
	Namespace string
	Name      string // Kind/name; empty for pods without a controller
	Bound     int
	Pending   int
	Nodes     int   // different nodes that the bound pods are on
	CPU       int64 // millicores of all its pods
	Memory    int64 // bytes
	GPU       int64 // thousandths of devices
}

// Event is an event of the cluster about an object.
type Event struct {
	Time    time.Time // of the last occurrence
	Type    string    // Normal, Warning
	Reason  string
	Object  string // kind and name
	From    string // the reporter
	Message string
	Count   int
}

func (p *podSum) createdAt() time.Time {
	if p.created == 0 {
		return time.Time{}
	}
	return time.Unix(p.created, 0)
}

// PodsOn returns the pods on a node, by namespace and name.
func (c *Cluster) PodsOn(node string) []BoundPod {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.devices.count()
	var out []BoundPod
	for k, p := range c.pods {
		if p.node != nil && p.node.Name == node {
			pod := BoundPod{
				Namespace: k.namespace.Value(), Name: k.name, Workload: p.workload.Value(), Scheduler: p.scheduler.name,
				CPU: p.cpu, Memory: p.memory, GPU: p.gpu, Devices: p.devices, Created: p.createdAt(),
				Held: c.devices.held(k.namespace, p.claims),
			}
			for _, h := range pod.Held {
				pod.GPU += h.Milli
			}
			out = append(out, pod)
		}
	}
	slices.SortFunc(out, func(a, b BoundPod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), CompareNatural(a.Name, b.Name))
	})
	return out
}

// Workloads returns the workloads, the one with the most pods first.
func (c *Cluster) Workloads() []Workload {
	c.mu.Lock()
	defer c.mu.Unlock()
	type sum struct {
		Workload
		nodes  map[*nodeSum]struct{}
		claims map[podKey]struct{}
	}
	c.devices.count()
	sums := map[[2]string]*sum{}
	for k, p := range c.pods {
		id := [2]string{k.namespace.Value(), p.workload.Value()}
		s := sums[id]
		if s == nil {
			s = &sum{Workload: Workload{Namespace: id[0], Name: id[1]}, nodes: map[*nodeSum]struct{}{}, claims: map[podKey]struct{}{}}
			sums[id] = s
		}
		if p.node == nil {
			s.Pending++
		} else {
			s.Bound++
			s.nodes[p.node] = struct{}{}
		}
		for _, name := range p.claims {
			s.claims[podKey{k.namespace, name}] = struct{}{}
		}
		s.CPU, s.Memory, s.GPU = s.CPU+p.cpu, s.Memory+p.memory, s.GPU+p.gpu
	}
	out := make([]Workload, 0, len(sums))
	for _, s := range sums {
		s.Nodes = len(s.nodes)
		s.GPU += c.devices.claimed(s.claims)
		out = append(out, s.Workload)
	}
	slices.SortFunc(out, func(a, b Workload) int {
		return cmp.Or(cmp.Compare(b.Bound+b.Pending, a.Bound+a.Pending), strings.Compare(a.Namespace, b.Namespace), CompareNatural(a.Name, b.Name))
	})
	return out
}
