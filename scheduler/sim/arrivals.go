package sim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gnnsched/internal/cluster"
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
	for _, f := range fills {
		further.begins = append(further.begins, f-first)
	}
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
	out := make([]int, len(e.waiting))
	for i, pod := range e.waiting {
		out[i] = int(pod)
	}
	return out
}

// Runs reports whether the pod with an index in Plan is on a node.
func (e *Env) Runs(arrival int) bool { return e.on[arrival] >= 0 }

// DrawFuture replaces what is still to come by another future that a scheduler could expect, which has seen what
// has arrived so far, but knows nothing of the rest. The present stays as it is. To know one future and try a choice in another, copy the
// environment first (CopyTo).
//
// The replicas of the deployment that arrives now still come. Each later one is like one that has arrived, drawn with equal
// probabilities. All lifetimes and residual lifetimes are drawn anew. The number of pods stays the same, or is smaller
// where the episode's deployments do not suffice. That is possible if lifetimes have no memory: DrawFuture fails
// for traces, processes other than steady, lifetimes other than exponential, and scenarios with lost nodes, usage or traffic.
func (e *Env) DrawFuture(rng *rand.Rand) error {
	c := &e.cfg
	if c.Trace != nil || c.OpenB != nil || c.Given != nil || !c.Arrivals.steady() || c.Lose > 0 || c.Usage != nil || c.Traffic != nil {
		return errors.New("futures can be drawn only for steady arrivals of the scenario's shapes, without lost nodes, usage and traffic")
	}
	if d := c.Lifetimes.Distribution; d != "" && d != exponentialEnd {
		return errors.New("futures can be drawn only for lifetimes that are exponential")
	}
	e.drawDeployments(rng)
	e.drawEnds(rng)
	return nil
}

// drawDeployments draws the deployments after the one that arrives now.
func (e *Env) drawDeployments(rng *rand.Rand) {
	a := &e.arrivals
	now := a.pods[max(e.clock, 1)-1]
	pods := a.pods[:e.clock:e.clock]
	deployments := slices.Clone(a.deployments)
	for i := e.clock; i < len(a.pods) && a.pods[i] == now; i++ {
		pods = append(pods, now)
	}
	for k := int(now) + 1; k < len(deployments) && len(pods) < len(a.pods); k++ {
		like := a.deployments[rng.IntN(int(now)+1)]
		like.pod.Name, like.pod.Owner = deployments[k].pod.Name, deployments[k].pod.Owner
		deployments[k] = like
		for range min(like.replicas, len(a.pods)-len(pods)) {
			pods = append(pods, int32(k))
		}
	}
	a.pods, a.deployments = pods, deployments
}

// drawEnds draws how long pods will go on running, and how long those without a node will run.
func (e *Env) drawEnds(rng *rand.Rand) {
	a := &e.arrivals
	if a.lifetime == nil {
		return
	}
	lifetimes := make([]float64, len(a.pods))
	for i := range lifetimes {
		lifetimes[i] = e.cfg.Lifetimes.draw(rng, float64(a.fill), false)
	}
	from := max(e.now, float64(a.fill))
	old := slices.Clone(e.running)
	e.running = e.running[:0]
	for _, d := range old {
		d.at = from + e.cfg.Lifetimes.draw(rng, float64(a.fill), true)
		e.running.push(d)
	}
	a.lifetime = lifetimes
}
