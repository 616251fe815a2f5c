package sim

import (
	"fmt"
	"math"
	"strings"

	"gnnsched/internal/cluster"
	"gnnsched/workload"
)

// deployment is an arrival with what the environment needs to know of it.
type deployment struct {
	pod      cluster.Pod // the name is the deployment's: its replicas are alike
	shape    int32
	replicas int
}

// arrivals is the workload of an episode: pods of deployments in order.
type arrivals struct {
	deployments []deployment
	shapes      []int32   // a deployment of each shape; those of one shape fit the same nodes
	pods        []int32   // deployment of each pod, in order of arrival
	fill        int       // pods that arrive before others begin to leave
	at          []float64 // when each pod arrives; the fill ends at time fill
	lifetime    []float64 // of each pod, +Inf for those that stay; nil where none leaves
	exact       bool      // pods leave at their time; otherwise at the next arrival
}

func (a *arrivals) add(d workload.Deployment, shape int32) {
	for range d.Replicas {
		a.pods = append(a.pods, int32(len(a.deployments)))
	}
	if int(shape) == len(a.shapes) {
		a.shapes = append(a.shapes, int32(len(a.deployments)))
	}
	a.deployments = append(a.deployments, deployment{
		pod:   cluster.Pod{Name: d.Name, Namespace: "default", Requests: d.Shape.Requests, NodeSelector: d.Shape.NodeSelector, Tolerations: d.Shape.Tolerations, GPUModels: d.Shape.GPUModels},
		shape: shape, replicas: d.Replicas,
	})
}

// numbers gives keys numbers from 0 in the order in which they come.
type numbers[K comparable] map[K]int32

func (n numbers[K]) of(key K) int32 {
	i, ok := n[key]
	if !ok {
		i = int32(len(n))
		n[key] = i
	}
	return i
}

func (c *Config) drawArrivals(seed uint64, nodes []*cluster.Node, shapes []workload.Shape, load float64) (arrivals, error) {
	g := c.generator(seed, shapes, load)
	for _, n := range nodes {
		if n.Available() {
			g.Capacity, g.Used = g.Capacity.Plus(n.Allocatable), g.Used.Plus(n.Requested)
		}
	}
	plan, err := g.Plan()
	if err != nil {
		return arrivals{}, fmt.Errorf("draw the workload: %w", err)
	}
	a := arrivals{fill: -1}
	type kind struct {
		name     string
		requests cluster.Resources
	}
	row := numbers[kind]{}
	var fills []int // the deployments with which further fills begin
	for _, s := range plan.Steps {
		if s.Action == workload.Reset { // a fill of the plan ends here
			if a.fill < 0 {
				a.fill = len(a.pods)
			}
			fills = append(fills, len(a.deployments))
			continue
		}
		a.add(s.Deployment, row.of(kind{s.Deployment.Shape.Name, s.Deployment.Shape.Requests}))
	}
	if c.Turnover == 0 {
		a.fill = len(a.pods)
	}
	c.drawTimes(seed, &a, fills)
	c.drawLifetimes(seed, &a)
	return a, nil
}

// drawTimes says when pods arrive. The fill is a pod a unit of time whatever the process:
// nobody leaves in it, so that it would be the same at any pace.
func (c *Config) drawTimes(seed uint64, a *arrivals, fills []int) {
	a.at = make([]float64, len(a.pods))
	for i := range a.at {
		a.at[i] = float64(i + 1)
	}
	if c.Arrivals.steady() || len(fills) == 0 {
		return
	}
	a.exact = true
	first := fills[0]
	replicas := make([]int, 0, len(a.deployments)-first)
	for _, d := range a.deployments[first:] {
		replicas = append(replicas, d.replicas)
	}
	for i := range fills {
		fills[i] -= first
	}
	times := c.Arrivals.times(stream(seed, streamArrivals), replicas, fills, a.fill)
	for i := a.fill; i < len(a.pods); i++ {
		a.at[i] = float64(a.fill) + times[int(a.pods[i])-first]
	}
}

func (c *Config) drawLifetimes(seed uint64, a *arrivals) {
	if c.Turnover == 0 || c.Lifetimes.Distribution == NoEnd {
		return
	}
	rng := stream(seed, streamLifetimes)
	a.lifetime = make([]float64, len(a.pods))
	for i := range a.lifetime {
		a.lifetime[i] = c.Lifetimes.draw(rng, float64(a.fill), i < a.fill)
	}
}

// fromTrace is the workload that a trace says. It has no fill.
func fromTrace(t workload.Trace) arrivals {
	a := arrivals{exact: true}
	type kind struct { // a trace has no selectors or tolerations
		requests cluster.Resources
		models   string
	}
	row := numbers[kind]{}
	for _, x := range t {
		a.add(x.Deployment, row.of(kind{x.Deployment.Shape.Requests, strings.Join(x.Deployment.Shape.GPUModels, "|")}))
		for range x.Deployment.Replicas {
			a.at = append(a.at, x.At-t[0].At)
			a.lifetime = append(a.lifetime, x.Lifetime)
		}
	}
	return a
}

// stays tells whether a pod never leaves.
func (a *arrivals) stays(pod int32) bool { return a.lifetime == nil || math.IsInf(a.lifetime[pod], 1) }
