package sim

import (
	"fmt"

	"gnnsched/scheduler/cluster"
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
	shapes      int
	pods        []int32   // deployment of each pod, in order of arrival
	fill        int       // pods that arrive before others begin to leave
	lifetime    []float64 // of each pod in arrivals; nil where none leaves
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
	row := map[string]int32{}
	for i, s := range shapes {
		row[s.Name] = int32(i)
	}
	a := arrivals{shapes: len(shapes), fill: -1}
	for _, s := range plan.Steps {
		if s.Action == workload.Reset { // a fill of the plan ends here
			if a.fill < 0 {
				a.fill = len(a.pods)
			}
			continue
		}
		d := s.Deployment
		for range d.Replicas {
			a.pods = append(a.pods, int32(len(a.deployments)))
		}
		a.deployments = append(a.deployments, deployment{
			pod:   cluster.Pod{Name: d.Name, Namespace: "default", Requests: d.Shape.Requests, NodeSelector: d.Shape.NodeSelector, Tolerations: d.Shape.Tolerations},
			shape: row[d.Shape.Name], replicas: d.Replicas,
		})
	}
	if c.Turnover == 0 {
		a.fill = len(a.pods)
		return a, nil
	}
	rng := stream(seed, streamLifetimes)
	a.lifetime = make([]float64, len(a.pods))
	for i := range a.lifetime {
		a.lifetime[i] = rng.ExpFloat64() * float64(a.fill)
	}
	return a, nil
}
