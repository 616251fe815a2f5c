package demo

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
)

// part is one comparison of the demo: a learned profile and the default one on one scenario. Its
// scenario has pools only, so that every workload meets the same nodes.
type part struct {
	title    string
	scenario eval.Scenario
	learned  string    // the profile
	others   []string  // policies that stand beside it in the simulator
	explains bool      // whether it explains a decision
	measures []measure // of a result
	usually  []figure  // of an outcome in the simulator
	note     string    // adds what the table leaves out
	legend   string    // describes the other policies
}

// parts returns the parts of the demo, the first one with a variant.
func parts(variant string) ([]part, error) {
	jobs, err := eval.Find("jobs")
	if err != nil {
		return nil, err
	}
	pool, err := eval.Find("gpu-pool")
	if err != nil {
		return nil, err
	}
	return []part{{
		title: "Mixed nodes under load", scenario: jobs, learned: variant, others: []string{"linear"}, explains: true,
		measures: []measure{cpuSpread, memorySpread, pending, attempt},
		usually:  []figure{imbalance, unscheduled},
		note: "These are single pods, as of jobs. Replicas of a Deployment are spread by both schedulers first, " +
			"which leaves little to win. The networks were trained on nodes and pods of these sizes, in other numbers.",
		legend: "linear is a weighted sum of ten hand-made features, and no network.",
	}, {
		title: "A pool of GPUs", scenario: pool, learned: "gpu-gnn", others: []string{"gpu-best-fit", "fgd"},
		measures: []measure{allocated, lacking, pending, attempt},
		usually:  []figure{allocation, unscheduled},
		note: "Whoever gives more of the GPUs away may leave more pods without a node: small ones instead of few large ones. " +
			"The network was trained on the openb trace, whose machines and pods these resemble.",
		legend: "gpu-best-fit and fgd are published heuristics that pack GPUs.",
	}}, nil
}

// nodes returns the nodes of the scenario. Names say the model, or the number of CPUs.
func (p part) nodes() (testbed.Nodes, error) {
	var list []map[string]any
	for _, n := range p.scenario.Pools {
		pool := map[string]any{
			"name": fmt.Sprintf("cpu%d", n.Allocatable.MilliCPU/1000), "count": n.Count.Min, "capacity": kube.Capacity(n.Allocatable),
		}
		if n.GPUModel != "" {
			pool["name"] = strings.ToLower(n.GPUModel)
			pool["labels"] = map[string]string{kube.GPUModelLabel: n.GPUModel}
		}
		list = append(list, pool)
	}
	y, err := yaml.Marshal(map[string]any{"pools": list})
	if err != nil {
		return testbed.Nodes{}, fmt.Errorf("write the node pools: %w", err)
	}
	return testbed.Nodes{Pools: y}, nil
}

// plan returns the pods of the scenario's episode of a seed, in the order of their arrival.
func (p part) plan(seed uint64) (workload.Plan, error) {
	env, err := sim.New(p.scenario.Config)
	if err != nil {
		return workload.Plan{}, err
	}
	if err := env.Reset(seed); err != nil {
		return workload.Plan{}, err
	}
	var plan workload.Plan
	for _, a := range env.Plan() {
		plan.Steps = append(plan.Steps, workload.Step{Deployment: workload.Deployment{
			Name: a.Pod.Name, Replicas: 1, Shape: workload.Shape{Requests: a.Pod.Requests, GPUModels: a.Pod.GPUModels},
		}})
	}
	return plan, nil
}

// The seeds of the comparison in the simulator, far from the workloads' seeds on the cluster.
const (
	usualSeed  = 101
	usualSeeds = 40
)

// baseline is the policy that scores in the simulator as the default profile does.
const baseline = "kube-scheduler"

// usual compares the policies in the simulator.
func (p part) usual(ctx context.Context) (*eval.Comparison, error) {
	contenders, err := contender.List(p.policies(), nil)
	if err != nil {
		return nil, err
	}
	return eval.Compare(ctx, p.scenario, contenders, eval.Seeds(usualSeed, usualSeeds), nil)
}

// policies returns the policies to compare in the simulator, the baseline first and the learned one last.
func (p part) policies() []string {
	return append(append([]string{baseline}, p.others...), p.learned)
}

// pod returns the pod of a step as policies see it.
func pod(s workload.Step) *cluster.Pod {
	d := s.Deployment
	return &cluster.Pod{
		Name: d.Name, Namespace: namespace, Requests: d.Shape.Requests, GPUModels: d.Shape.GPUModels, Tolerations: workload.Tolerations(nil),
	}
}
