package eval

import (
	"fmt"
	"strings"

	"gnnsched/scheduler/cluster"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
)

// Scenario is a kind of cluster and workload to compare policies on.
type Scenario struct {
	Name   string
	About  string // in a sentence
	Config sim.Config
}

const gib = int64(1) << 30

// Scenarios are the built-in ones. Training uses other seeds and other configurations.
func Scenarios() []Scenario {
	balance := objective.Mix{{Term: objective.Balance{}, Weight: 1}}
	pods := func(name string, weight float64, milliCPU, gi int64) workload.Shape {
		return workload.Shape{Name: name, Weight: weight, Requests: cluster.Resources{MilliCPU: milliCPU, Memory: gi * gib, Pods: 1}}
	}
	return []Scenario{
		{
			Name:  "aaml",
			About: "10 nodes of 64 CPU, 256 GiB and 110 pods and a tainted control plane; pods of 1 CPU and 2 GiB, in deployments of 5 to 15, to 50% load",
			Config: sim.Config{
				Nodes: sim.Exactly(10), Sizes: []sim.NodeSize{{Weight: 1, Allocatable: sim.AAMLNode}}, ControlPlane: true,
				Shapes: []workload.Shape{pods("one", 1, 1000, 2)}, Replicas: sim.IntRange{Min: 5, Max: 15},
				Load: sim.FloatRange{Min: 0.5, Max: 0.5}, Objective: balance,
			},
		},
		{
			Name:  "mixed",
			About: "50 nodes of 16, 32 or 64 CPU with 4 GiB a CPU, in three zones; five shapes from 0.5 CPU to 8 CPU and 32 GiB to 80% load, then twice as many pods again while others leave",
			Config: sim.Config{
				Nodes: sim.Exactly(50), Zones: sim.Exactly(3), ControlPlane: true,
				Sizes: []sim.NodeSize{
					{Weight: 2, Allocatable: cluster.Resources{MilliCPU: 16_000, Memory: 64 * gib, Pods: 110}},
					{Weight: 2, Allocatable: cluster.Resources{MilliCPU: 32_000, Memory: 128 * gib, Pods: 110}},
					{Weight: 1, Allocatable: cluster.Resources{MilliCPU: 64_000, Memory: 256 * gib, Pods: 110}},
				},
				Shapes: []workload.Shape{
					pods("web", 4, 500, 1), pods("api", 3, 1000, 4), pods("cache", 2, 1000, 8), pods("batch", 2, 4000, 4), pods("big", 1, 8000, 32),
				},
				Replicas: sim.IntRange{Min: 5, Max: 15}, Load: sim.FloatRange{Min: 0.8, Max: 0.8}, Turnover: 2, Objective: balance,
			},
		},
	}
}

// Find returns the built-in scenario of a name. The error lists those that there are.
func Find(name string) (Scenario, error) {
	var names []string
	for _, s := range Scenarios() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Scenario{}, fmt.Errorf("no scenario is called %q; there are %s", name, strings.Join(names, ", "))
}
