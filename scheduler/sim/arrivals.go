package sim

import (
	"fmt"
	"math"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/scheduler/objective"
	"gnnsched/workload"
	"gnnsched/workload/usage"
)

// deployment is a deployment that arrives, with what the environment needs to know about it.
type deployment struct {
	pod      cluster.Pod // its replicas are all alike, and have the deployment's name
	shape    int32
	replicas int

	usage *usage.Model // nil: not known
	kind  string       // name of the pod's shape
}

// works reports whether its pods leave when they have done their work.
func (d *deployment) works() bool { return d.usage != nil && d.usage.Work > 0 }

// arrivalList is the workload of an episode: the pods of all deployments in order of arrival.
type arrivalList struct {
	deployments []deployment
	shapes      []int32   // one deployment of each shape; pods of the same shape fit on the same nodes
	pods        []int32   // by arrival: the pod's deployment
	fill        int       // pods that arrive before any pod leaves
	at          []float64 // by arrival: the time; the fill ends at time fill
	lifetime    []float64 // by arrival, +Inf for pods that stay; nil if all stay
	exact       bool      // pods leave at their time; otherwise at the next arrival
	end         float64   // when the episode ends; with the last arrival if that is later
}

// add adds the pods of a Deployment. owned tells whether they belong to it, as pods of a ReplicaSet do.
func (a *arrivalList) add(d workload.Deployment, shape int32, owned bool) {
	for range d.Replicas {
		a.pods = append(a.pods, int32(len(a.deployments)))
	}
	if int(shape) == len(a.shapes) {
		a.shapes = append(a.shapes, int32(len(a.deployments)))
	}
	owner := ""
	if owned {
		owner = d.Name
	}
	pod := podOf(&d.Shape)
	pod.Name, pod.Namespace, pod.Owner = d.Name, "default", owner
	a.deployments = append(a.deployments, deployment{
		pod: pod, shape: shape, replicas: d.Replicas, usage: d.Shape.Usage, kind: d.Shape.Name,
	})
	if d.Shape.Usage != nil {
		a.deployments[len(a.deployments)-1].pod.Limits = d.Shape.Limits
	}
}

// numbering numbers keys from 0 in the order in which they first appear.
type numbering[K comparable] map[K]int32

func (n numbering[K]) of(key K) int32 {
	i, ok := n[key]
	if !ok {
		i = int32(len(n))
		n[key] = i
	}
	return i
}

// drawArrivals draws the workload that fills the nodes to a load.
func (c *Config) drawArrivals(seed uint64, nodes []*cluster.Node, shapes []workload.Shape, load float64) (arrivalList, error) {
	g := c.generator(seed, shapes, load)
	for _, n := range nodes {
		if n.Available() {
			g.Capacity, g.Used = g.Capacity.Plus(n.Allocatable), g.Used.Plus(n.Requested)
		}
	}
	plan, err := g.Plan()
	if err != nil {
		return arrivalList{}, fmt.Errorf("draw the workload: %w", err)
	}
	a := arrivalList{fill: -1}
	type shape struct {
		name     string
		requests cluster.Resources
	}
	numbers := numbering[shape]{}
	var fills []int // the deployments with which further fills begin
	for _, s := range plan.Steps {
		if s.Action == workload.Reset { // a fill of the plan ends here
			if a.fill < 0 {
				a.fill = len(a.pods)
			}
			fills = append(fills, len(a.deployments))
			continue
		}
		a.add(s.Deployment, numbers.of(shape{s.Deployment.Shape.Name, s.Deployment.Shape.Requests}), true)
	}
	if c.Turnover == 0 {
		a.fill = len(a.pods)
	}
	c.drawTimes(seed, &a, fills)
	c.drawLifetimes(seed, &a)
	return a, nil
}

// drawTimes draws when pods arrive. Fills are the deployments with which further fills begin. In
// the first fill one pod arrives per unit of time, whatever the process: no pod leaves then, so the
// pace makes no difference.
func (c *Config) drawTimes(seed uint64, a *arrivalList, fills []int) {
	a.at = make([]float64, len(a.pods))
	for i := range a.at {
		a.at[i] = float64(i + 1)
	}
	if c.Arrivals.steady() || len(fills) == 0 {
		return
	}
	a.exact = true
	first := fills[0]
	further := furtherDeployments{fill: a.fill}
	for _, d := range a.deployments[first:] {
		further.replicas = append(further.replicas, d.replicas)
	}
	further.begins = append(further.begins, each.Map(fills, func(f int) int { return f - first })...)
	times := c.Arrivals.process().times(stream(seed, streamArrivals), c.Arrivals, further)
	for i := a.fill; i < len(a.pods); i++ {
		a.at[i] = float64(a.fill) + times[int(a.pods[i])-first]
	}
}

func (c *Config) drawLifetimes(seed uint64, a *arrivalList) {
	if c.Turnover == 0 || c.Lifetimes.Distribution == noEnd {
		return
	}
	rng := stream(seed, streamLifetimes)
	a.lifetime = make([]float64, len(a.pods))
	for i := range a.lifetime {
		a.lifetime[i] = c.Lifetimes.draw(rng, float64(a.fill), i < a.fill)
	}
}

// fromTrace returns the workload of a trace. It has no fill. Its pods belong to nothing: runsim too
// creates the pods of a trace without a Deployment.
func fromTrace(t workload.Trace) arrivalList {
	a := arrivalList{exact: true}
	numbers := numbering[string]{}
	for _, x := range t {
		pod := podOf(&x.Deployment.Shape)
		a.add(x.Deployment, numbers.of(cluster.KindKey(&pod)), false)
		for range x.Deployment.Replicas {
			a.at = append(a.at, x.At-t[0].At)
			a.lifetime = append(a.lifetime, x.Lifetime)
		}
	}
	return a
}

// stays reports whether a pod never leaves.
func (a *arrivalList) stays(pod int32) bool {
	return a.lifetime == nil || math.IsInf(a.lifetime[pod], 1)
}

// Arrival is one pod of an episode's workload.
type Arrival struct {
	Pod *cluster.Pod // shared by the replicas of a deployment
	At  float64      // arrival time, in the unit of Config.Arrivals or of the trace
	// Lifetime is how long the pod runs, counted from its placement or from the end of the fill,
	// whichever is later; +Inf if it stays.
	Lifetime float64
	// Usage is the pod's use; nil if it uses its requests.
	Usage *usage.Model
}

// Plan returns the workload of the episode in order of arrival. It does not depend on the choices.
func (e *Env) Plan() []Arrival {
	plan := make([]Arrival, len(e.arrivals.pods))
	for i := range plan {
		d := e.deployment(int32(i))
		plan[i] = Arrival{Pod: &d.pod, At: e.arrivals.at[i], Lifetime: math.Inf(1), Usage: d.usage}
		if e.arrivals.lifetime != nil {
			plan[i].Lifetime = e.arrivals.lifetime[i]
		}
	}
	return plan
}

// Next returns the index in Plan of the pending pod; -1 when the episode is over.
func (e *Env) Next() int { return int(e.pending) }

// Now returns the time, in the unit of Arrival.At.
func (e *Env) Now() float64 { return e.now }

// Waiting returns the indices in Plan of the pods that wait for a node, without the pending pod.
func (e *Env) Waiting() []int {
	return each.Map(e.waiting, func(pod int32) int { return int(pod) })
}

// Runs reports whether the pod with an index in Plan is on a node.
func (e *Env) Runs(arrival int) bool { return e.on[arrival] >= 0 }

// Order is the order in which kube-scheduler, with its default settings, tries waiting pods of the same
// priority again. Pods are known by small numbers. Times are in seconds.
//
// When a pod is deleted, all waiting pods are tried again, because room on any node may help them
// (the queueing hint of NodeResourcesFit). A pod that has failed n times has a backoff of 2ⁿ⁻¹ seconds
// since the last time, at most 10. The pods without a backoff go first (activeQ), those that failed
// longest ago before the others. The pods with a backoff follow at once, because the queue is empty then
// (SchedulerPopFromBackoffQ, on by default since 1.33), in the order in which their backoffs end. Backoffs end with whole seconds,
// and pods that end in the same one are in the order of activeQ.
//
// Decisions take no time here. Pods that wait for five minutes without any deletion would be tried again
// as well; on a cluster where pods leave all the time there are none.
type Order struct {
	fails  []uint8   // by pod
	failed []float64 // by pod: the last time
	keys   []key     // memory of Sort
}

// key is a waiting pod with what it is sorted by.
type key struct {
	end float64 // second in which the backoff ends; -Inf if it has ended
	pod int32
}

const (
	firstBackoff = 1
	maxBackoff   = 10
	maxFails     = 5 // from so many failures on, the backoff is maxBackoff
)

// Reset makes o the order of so many pods, none of which has failed.
func (o *Order) Reset(pods int) {
	o.fails = append(o.fails[:0], make([]uint8, pods)...)
	o.failed = append(o.failed[:0], make([]float64, pods)...)
}

// Fail records that a pod found no node.
func (o *Order) Fail(pod int32, now float64) {
	o.fails[pod] = min(o.fails[pod]+1, maxFails)
	o.failed[pod] = now
}

// Sort puts waiting pods into the order in which they are tried after a deletion. Before, they are in the order
// in which they failed last.
func (o *Order) Sort(waiting []int32, now float64) {
	o.keys = o.keys[:0]
	backoff := false
	for _, pod := range waiting {
		k := key{end: math.Floor(o.failed[pod] + o.backoff(pod)), pod: pod}
		if k.end < math.Floor(now) {
			k.end = math.Inf(-1)
		} else {
			backoff = true
		}
		o.keys = append(o.keys, k)
	}
	if !backoff {
		return
	}
	slices.SortStableFunc(o.keys, func(a, b key) int {
		switch {
		case a.end < b.end:
			return -1
		case a.end > b.end:
			return 1
		}
		return 0
	})
	for i, k := range o.keys {
		waiting[i] = k.pod
	}
}

// backoff returns the seconds for which a pod waits after it failed.
func (o *Order) backoff(pod int32) float64 {
	return min(firstBackoff*float64(int(1)<<(max(o.fails[pod], 1)-1)), maxBackoff)
}

// CopyTo makes dst a copy of o.
func (o *Order) CopyTo(dst *Order) {
	dst.fails = append(dst.fails[:0], o.fails...)
	dst.failed = append(dst.failed[:0], o.failed...)
}

// queue counts the pods that arrive and wait, by kind, and what the waiting ones request.
type queue struct {
	quiet
	demand   cluster.Demand
	capacity cluster.Resources // see objective.Capacity
	share    float64           // what waiting pods request, as a share of capacity
	waits    []bool            // by arrival
	keys     []string          // by shape: its cluster.KindKey; shared by copies
}

func newQueue(e *Env) *queue {
	q := &queue{waits: make([]bool, len(e.arrivals.pods)), keys: make([]string, len(e.arrivals.shapes))}
	for shape, deployment := range e.arrivals.shapes {
		q.keys[shape] = cluster.KindKey(&e.arrivals.deployments[deployment].pod)
	}
	return q
}

func (q *queue) track(e *Env) {
	q.capacity, q.share = objective.Capacity(e.snapshot.Nodes), 0
	for pod, waits := range q.waits {
		if waits {
			q.share += objective.Share(e.deployment(int32(pod)).pod.Requests, q.capacity)
		}
	}
	e.snapshot.Demand = &q.demand
}

// WaitingCost returns what the term waiting costs if the arrivals with some indices in Plan wait.
func (e *Env) WaitingCost(arrivals []int) (cost float64) {
	for _, i := range arrivals {
		cost += e.cfg.Objective.Waiting() * objective.Share(e.deployment(int32(i)).pod.Requests, e.queue.capacity)
	}
	return cost
}

func (q *queue) arrives(e *Env, pod int32) {
	d := e.deployment(pod)
	q.demand.Arrive(q.keys[d.shape], &d.pod)
}

func (q *queue) refused(e *Env, pod int32) { e.fallen -= q.set(e, pod, 1) }

func (q *queue) placed(e *Env, pod, _ int32) { q.set(e, pod, -1) }

// set records that a pod begins to wait, or with sign -1 that it ends, and returns by how much the cost has risen.
func (q *queue) set(e *Env, pod int32, sign float64) (risen float64) {
	if q.waits[pod] == (sign > 0) {
		return 0
	}
	q.waits[pod] = sign > 0
	d := e.deployment(pod)
	q.demand.Wait(q.keys[d.shape], &d.pod, sign)
	share := sign * objective.Share(d.pod.Requests, q.capacity)
	q.share += share
	risen = e.cfg.Objective.Waiting() * share
	e.cost += risen
	return risen
}

// pass forgets pods that have left the queue without a node.
func (q *queue) pass(e *Env, _ float64) {
	if len(e.waiting) == 0 && q.share != 0 {
		clear(q.waits)
		q.demand.NoneWait()
		e.cost -= e.cfg.Objective.Waiting() * q.share
		q.share = 0
	}
}

func (q *queue) copyFor(e *Env, old []part) part {
	c := reused[queue](old)
	e.queue = c
	c.waits = append(c.waits[:0], q.waits...)
	c.capacity, c.share, c.keys = q.capacity, q.share, q.keys
	q.demand.CopyTo(&c.demand)
	e.snapshot.Demand = &c.demand
	return c
}

func (q *queue) report(e *Env, o *Outcome) {
	o.Waiting = q.share
	o.Cost += e.cfg.Objective.Waiting() * q.share
}
