package state

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/decision"
)

// ListedPod is a pod that holds resources or waits for a node, with its requests.
type ListedPod struct {
	Namespace string
	Name      string
	Status    string // in kubectl's words: Running, Pending, Terminating, CrashLoopBackOff
	Node      string // empty while it waits for one
	Workload  string // Kind/name; empty without a controller
	Scheduler string
	CPU       int64 // millicores
	Memory    int64 // bytes
	GPU       int64 // thousandths of devices
	Devices   cluster.DeviceSet
	Held      []Held // by claims; their thousandths are in GPU
	Created   time.Time
}

// PodDetails holds the details of one pod.
type PodDetails struct {
	ListedPod
	Found bool // the pod is in the cluster and has not finished
	// Waits is why a pod without a node waits.
	Waits  string
	Events []Event // about the pod, the newest first

	Decision    *decision.Record // that Explained explains; nil if none is known
	Explained   string           // in sentences and tables
	DecisionErr error            // why no decision is known, or why it is not explained
	EventsErr   error
}

func (p *podSum) createdAt() time.Time {
	if p.created == 0 {
		return time.Time{}
	}
	return time.Unix(p.created, 0)
}

// PodsOn returns the pods on a node, by namespace and name.
func (c *Cluster) PodsOn(node string) []ListedPod {
	return c.pick(func(_ podKey, p *podSum) bool { return p.node != nil && p.node.Name == node })
}

// Pods returns all pods, by namespace and name.
func (c *Cluster) Pods() []ListedPod {
	return c.pick(func(podKey, *podSum) bool { return true })
}

// Pod returns a pod, and why it waits if it has no node; found is false if there is no such pod, or if it has finished.
func (c *Cluster) Pod(namespace, name string) (pod ListedPod, waits string, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.devices.count()
	k := key(namespace, name)
	p, found := c.pods[k]
	if !found {
		return ListedPod{Namespace: namespace, Name: name}, "", false
	}
	if w, waiting := c.pending[k]; waiting {
		waits = (&PendingPod{Reason: w.reason.Value(), Message: w.message.Value()}).Why()
	}
	return c.listed(k, &p), waits, true
}

// pick returns the pods for which keep is true, by namespace and name.
func (c *Cluster) pick(keep func(podKey, *podSum) bool) []ListedPod {
	var out []ListedPod
	c.mu.Lock()
	c.devices.count()
	for k, p := range c.pods {
		if keep(k, &p) {
			out = append(out, c.listed(k, &p))
		}
	}
	c.mu.Unlock()
	slices.SortFunc(out, func(a, b ListedPod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), CompareNatural(a.Name, b.Name))
	})
	return out
}

// listed returns a pod as lists show it. The caller has counted the devices and holds the lock.
func (c *Cluster) listed(k podKey, p *podSum) ListedPod {
	pod := ListedPod{
		Namespace: k.namespace.Value(), Name: k.name, Status: p.status.Value(), Workload: p.workload.Value(), Scheduler: p.scheduler.name,
		CPU: p.cpu, Memory: p.memory, GPU: p.gpu, Devices: p.devices, Created: p.createdAt(),
		Held: c.devices.held(k.namespace, p.claims),
	}
	if p.node != nil {
		pod.Node = p.node.Name
	}
	for _, h := range pod.Held {
		pod.GPU += h.Milli
	}
	return pod
}
