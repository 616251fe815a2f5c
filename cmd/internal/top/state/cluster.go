package state

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"
	"unique"

	"gonum.org/v1/gonum/stat"

	"gnnsched/internal/cluster"
)

// All asks [Cluster.Frame] for every pending pod.
const All = -1

// Cluster holds the running sums. Make one with [New]. Its methods may be called from several
// goroutines at once.
type Cluster struct {
	mu         sync.Mutex
	nodes      map[string]*nodeSum
	schedulers map[string]*schedulerSum
	pods       map[podKey]podSum
	pending    map[podKey]waiting
	used       map[string]Measured // by node
	devices    devices
	namespace  string // that lists of pods show; "" for all
	generation uint32 // raised by every ReplacePods, to find the pods that are not in it
}

type podKey struct {
	namespace unique.Handle[string]
	name      string
}

func key(namespace, name string) podKey { return podKey{unique.Make(namespace), name} }

// podSum holds the amounts that a pod adds to the sums of its node and scheduler. It is kept to be subtracted
// later.
type podSum struct {
	node             *nodeSum // nil while it is pending
	scheduler        *schedulerSum
	cpu, memory, gpu int64
	devices          cluster.DeviceSet
	generation       uint32
	created          int64 // Unix time; 0 if it is not known
	bound            int64 // Unix time in nanoseconds; 0 if it is pending or the time is not known
	workload, status unique.Handle[string]
	claims           []string // names; nil for none
}

// nodeSum is a node with its sums. It exists as long as pods name the node, also before the node
// is known and after it is deleted: changes of nodes and pods arrive in any order.
type nodeSum struct {
	Node
	known bool // the node exists

	// Requested thousandths of GPUs: of each device, and of pods without device numbers. named is nil until a pod has numbers.
	named   []int64
	unnamed int64
}

type schedulerSum struct {
	name           string
	bound, pending int
	rate           rate
	last           time.Time // of the newest binding
}

type waiting struct {
	created                time.Time
	reason, message, needs unique.Handle[string] // thousands of pods wait for the same reason
}

// New returns an empty cluster.
func New() *Cluster {
	return &Cluster{
		nodes: map[string]*nodeSum{}, schedulers: map[string]*schedulerSum{},
		pods: map[podKey]podSum{}, pending: map[podKey]waiting{}, devices: newDevices(),
	}
}

// SetNode adds or changes a node.
func (c *Cluster) SetNode(n Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setNode(n)
}

// DeleteNode removes a node. Pods that name it are kept, in case it returns.
func (c *Cluster) DeleteNode(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deleteNode(name)
}

// ReplaceNodes makes the given nodes the only ones.
func (c *Cluster) ReplaceNodes(nodes []Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stay := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		stay[n.Name] = true
		c.setNode(n)
	}
	for name := range c.nodes {
		if !stay[name] {
			c.deleteNode(name)
		}
	}
}

// SetPod adds or changes a pod. now is the time at which the change arrived: a pod that was
// pending and now has a node was bound then.
func (c *Cluster) SetPod(p Pod, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setPod(p, now, true)
}

// deletePodNamed removes a pod.
func (c *Cluster) deletePodNamed(namespace, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deletePod(key(namespace, name))
}

// ReplacePods makes the given pods the only ones, after a first or a new list. It takes the time
// of bindings from the pods' conditions.
func (c *Cluster) ReplacePods(pods []Pod, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation++
	for i := range pods {
		c.setPod(pods[i], now, false)
	}
	for k, p := range c.pods {
		if p.generation != c.generation {
			c.deletePod(k)
		}
	}
}

func (c *Cluster) setNode(n Node) {
	s := c.node(n.Name)
	n.CPU.Requested, n.Memory.Requested = s.CPU.Requested, s.Memory.Requested
	n.GPU.Requested, n.Pods.Requested = s.GPU.Requested, s.Pods.Requested
	s.Node, s.known = n, true
}

func (c *Cluster) deleteNode(name string) {
	if s := c.nodes[name]; s != nil {
		s.known = false
		c.dropUnused(s)
	}
}

func (c *Cluster) node(name string) *nodeSum {
	s := c.nodes[name]
	if s == nil {
		s = &nodeSum{Node: Node{Name: name}}
		c.nodes[name] = s
	}
	return s
}

// dropUnused removes the sums of a deleted node that no pod names.
func (c *Cluster) dropUnused(s *nodeSum) {
	if !s.known && s.Pods.Requested == 0 {
		delete(c.nodes, s.Name)
	}
}

func (c *Cluster) scheduler(name string) *schedulerSum {
	s := c.schedulers[name]
	if s == nil {
		s = &schedulerSum{name: name}
		c.schedulers[name] = s
	}
	return s
}

// setPod adds or changes a pod. watched means that the change arrived as it happened, at now.
func (c *Cluster) setPod(p Pod, now time.Time, watched bool) {
	k := key(p.Namespace, p.Name)
	if p.Done {
		c.deletePod(k)
		return
	}
	old, known := c.pods[k]
	if known {
		c.subtract(k, old)
	}
	sum := podSum{
		scheduler: c.scheduler(p.Scheduler), cpu: p.CPU, memory: p.Memory, gpu: p.GPU, devices: p.Devices, generation: c.generation,
		workload: unique.Make(p.Workload), status: unique.Make(p.Status), claims: p.Claims,
	}
	if !p.Created.IsZero() {
		sum.created = p.Created.Unix()
	}
	if p.Node == "" {
		sum.scheduler.pending++
		c.pending[k] = waiting{p.Created, unique.Make(p.Reason), unique.Make(p.Message), unique.Make(p.Needs)}
	} else {
		sum.node = c.node(p.Node)
		sum.node.add(sum, 1)
		sum.scheduler.bound++
		wasPending := known && old.node == nil
		switch {
		case wasPending && watched:
			sum.bind(now, now)
		case !known || wasPending:
			sum.bind(p.Scheduled, now)
		default:
			sum.bound = old.bound
		}
	}
	c.pods[k] = sum
	if known && old.node != nil {
		c.dropUnused(old.node)
	}
}

func (c *Cluster) deletePod(k podKey) {
	old, known := c.pods[k]
	if !known {
		return
	}
	c.subtract(k, old)
	delete(c.pods, k)
	if old.node != nil {
		c.dropUnused(old.node)
	}
}

func (c *Cluster) subtract(k podKey, p podSum) {
	if p.node == nil {
		p.scheduler.pending--
		delete(c.pending, k)
		return
	}
	p.node.add(p, -1)
	p.scheduler.bound--
}

func (s *nodeSum) add(p podSum, sign int64) {
	s.CPU.Requested += sign * p.cpu
	s.Memory.Requested += sign * p.memory
	s.GPU.Requested += sign * p.gpu
	s.Pods.Requested += sign
	s.addDevices(p, sign)
}

// addDevices adds sign times a pod's GPUs to the node's. The pod's request is divided equally over its devices.
func (s *nodeSum) addDevices(p podSum, sign int64) {
	n := int64(p.devices.Len())
	if n == 0 {
		s.unnamed += sign * p.gpu
		return
	}
	if s.named == nil {
		s.named = make([]int64, cluster.MaxDevices)
	}
	for i := range s.named {
		if p.devices.Has(i) {
			s.named[i] += sign * p.gpu / n
		}
	}
}

// bind counts the pod's binding at t; the zero time means that the time is unknown. A t after now comes
// from a server whose clock is ahead.
func (p *podSum) bind(t, now time.Time) {
	if t.IsZero() {
		return
	}
	if t.After(now) {
		t = now
	}
	p.bound = t.UnixNano()
	p.scheduler.rate.add(t)
	if t.After(p.scheduler.last) {
		p.scheduler.last = t
	}
}

// Frame returns the cluster at now, with the maxPending oldest pending pods, or all of them with
// [All].
func (c *Cluster) Frame(now time.Time, maxPending int) Frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.devices.count()
	f := Frame{Time: now, Nodes: make([]Node, 0, len(c.nodes))}
	for _, s := range c.nodes {
		if s.known {
			n := s.Node
			c.devices.show(&n, s.named, s.unnamed)
			if used, ok := c.used[n.Name]; ok {
				n.Used = &used
			}
			f.Nodes = append(f.Nodes, n)
		}
	}
	slices.SortFunc(f.Nodes, func(a, b Node) int { return CompareNatural(a.Name, b.Name) })
	f.Totals, f.CPUSpread = sum(f.Nodes), spread(f.Nodes)
	f.Schedulers = c.schedulersAt(now)
	f.Pending = c.oldestPending(maxPending)
	for k := range c.pending {
		if c.shows(k) {
			f.PendingCount++
		}
	}
	return f
}

func (c *Cluster) schedulersAt(now time.Time) []Scheduler {
	out := make([]Scheduler, 0, len(c.schedulers))
	for name, s := range c.schedulers {
		if s.bound == 0 && s.pending == 0 && now.Sub(s.last) > rateWindow {
			delete(c.schedulers, name) // no pod points to it any more
			continue
		}
		out = append(out, Scheduler{Name: name, Bound: s.bound, Pending: s.pending, Rate: s.rate.perSecond(now)})
	}
	slices.SortFunc(out, func(a, b Scheduler) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// shows reports whether lists of pods have a pod. Sums have all pods.
func (c *Cluster) shows(k podKey) bool {
	return c.namespace == "" || k.namespace.Value() == c.namespace
}

// Pending returns the pending pods, the oldest first.
func (c *Cluster) Pending() []PendingPod {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.oldestPending(All)
}

func (c *Cluster) oldestPending(limit int) []PendingPod {
	if limit == 0 {
		return nil
	}
	out := make([]PendingPod, 0, len(c.pending))
	for k, w := range c.pending {
		if !c.shows(k) {
			continue
		}
		out = append(out, PendingPod{
			Namespace: k.namespace.Value(), Name: k.name, Workload: c.pods[k].workload.Value(), Scheduler: c.pods[k].scheduler.name,
			Created: w.created, Reason: w.reason.Value(), Message: w.message.Value(),
			Needs: w.needs.Value(),
		})
	}
	slices.SortFunc(out, func(a, b PendingPod) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Namespace, b.Namespace), CompareNatural(a.Name, b.Name))
	})
	if limit > 0 && len(out) > limit {
		out = out[:limit]
	}
	return out
}

func sum(nodes []Node) Totals {
	t := Totals{Nodes: len(nodes)}
	for i := range nodes {
		n := &nodes[i]
		if n.Ready {
			t.Ready++
		}
		if n.Cordoned {
			t.Cordoned++
		}
		if n.Worker {
			t.Workers++
		}
	}
	all := t.Workers == 0
	for i := range nodes {
		n := &nodes[i]
		if n.Worker || all {
			t.CPU, t.Memory = t.CPU.plus(n.CPU), t.Memory.plus(n.Memory)
			t.GPU, t.Pods = t.GPU.plus(n.GPU), t.Pods.plus(n.Pods)
			t.measure(n.Used)
		}
	}
	if all {
		t.Workers = t.Nodes
	}
	return t
}

func spread(nodes []Node) Spread {
	var x []float64
	for i := range nodes {
		if nodes[i].Worker {
			x = append(x, nodes[i].CPU.Fraction())
		}
	}
	if len(x) == 0 {
		return Spread{}
	}
	mean, variance := stat.PopMeanVariance(x, nil)
	// Rounding can make the variance of equal numbers slightly negative.
	return Spread{Nodes: len(x), Mean: mean, Std: math.Sqrt(max(variance, 0)), Min: slices.Min(x), Max: slices.Max(x)}
}

// rateWindow is the time over which the pods bound per second are averaged.
const rateWindow = 10 * time.Second

const (
	rateStep  = 500 * time.Millisecond
	rateSteps = int64(rateWindow / rateStep)
)

// rate counts events in a ring of short time steps. The count over a sliding window then takes
// constant memory, however many events there are.
type rate struct {
	count [rateSteps]uint32
	step  [rateSteps]int64 // the time step that a slot holds, in units of rateStep
}

// add counts one event at t. It ignores an event whose slot already holds a newer step.
func (r *rate) add(t time.Time) {
	s := t.UnixNano() / int64(rateStep)
	i := s % rateSteps
	switch {
	case r.step[i] == s:
		r.count[i]++
	case r.step[i] < s:
		r.step[i], r.count[i] = s, 1
	}
}

// perSecond returns the mean rate over the window that ends at now.
func (r *rate) perSecond(now time.Time) float64 {
	n := now.UnixNano()
	cur := n / int64(rateStep)
	var sum uint64
	for i, s := range r.step {
		if s > cur-rateSteps && s <= cur {
			sum += uint64(r.count[i])
		}
	}
	// The newest step is not over yet: divide by the time that the slots really cover.
	covered := time.Duration((rateSteps-1)*int64(rateStep) + n - cur*int64(rateStep))
	return float64(sum) / covered.Seconds()
}
