package eval_test

import (
	"context"
	"fmt"
	"os"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy/heuristic"
)

// contender returns a heuristic as a contender.
func contender(name string) eval.Contender {
	h, err := heuristic.Find(name)
	if err != nil {
		panic(err)
	}
	return eval.Contender{Name: h.Name, New: h.New, RandomTies: h.RandomTies}
}

// Two policies on the same ten episodes of the scenario tiny, which also has the optimum.
func ExampleCompare() {
	scenario, err := eval.Find("tiny")
	if err != nil {
		panic(err)
	}
	contenders := []eval.Contender{contender("kube-scheduler"), contender("greedy-balance")}
	c, err := eval.Compare(context.Background(), scenario, contenders, eval.Seeds(1, 10), nil)
	if err != nil {
		panic(err)
	}
	if err := c.WriteSummary(os.Stdout); err != nil {
		panic(err)
	}
	// Output:
	// tiny: 4 nodes of two sizes and about ten pods to 80% load, small enough to compute the best placement.
	//
	// Means over 10 paired seeds (1 to 10), less is better. Difference from kube-scheduler in the objective on the same seeds.
	// Better and worse mark a difference whose 95% interval excludes 0 and whose p is below 0.05 (Wilcoxon's signed-rank test,
	// adjusted by Holm for 2 comparisons); unclear marks one with only one of the two.
	//
	// ┌────────────────┬───────────┬─────────────┬────────┬────────────┬────────────────────┬──────────┬─────────────┐
	// │ policy         │ objective │ unscheduled │ waited │ difference │       95% interval │ relative │ significant │
	// ├────────────────┼───────────┼─────────────┼────────┼────────────┼────────────────────┼──────────┼─────────────┤
	// │ kube-scheduler │    0.1087 │         0.0 │    0.0 │            │                    │          │             │
	// │ greedy-balance │    0.1038 │         0.1 │    0.1 │    -0.0049 │ -0.0338 to +0.0214 │    -4.5% │          no │
	// │ optimum        │    0.0801 │         0.0 │    0.0 │    -0.0286 │ -0.0523 to -0.0121 │   -26.3% │      better │
	// └────────────────┴───────────┴─────────────┴────────┴────────────┴────────────────────┴──────────┴─────────────┘
}

// A threshold compares means, and Judge keeps the verdict.
func ExampleParseThreshold() {
	scenario, err := eval.Find("tiny")
	if err != nil {
		panic(err)
	}
	contenders := []eval.Contender{contender("kube-scheduler"), contender("greedy-balance")}
	c, err := eval.Compare(context.Background(), scenario, contenders, eval.Seeds(1, 10), nil)
	if err != nil {
		panic(err)
	}
	threshold, err := eval.ParseThreshold("greedy-balance.unscheduled <= kube-scheduler.unscheduled + 0.5")
	if err != nil {
		panic(err)
	}
	if err := c.Judge([]eval.Threshold{threshold}); err != nil {
		panic(err)
	}
	fmt.Println(c.Verdicts[0])
	// Output:
	// PASS greedy-balance.unscheduled <= kube-scheduler.unscheduled + 0.5 (0.1 and 0.5, p 0.0215)
}

// Read decodes a scenario of your own.
func ExampleRead() {
	scenarios, err := eval.Read("mine.yaml", []byte(`
name: mine
about: web servers on ten equal nodes
nodes: 10
sizes:
- {weight: 1, allocatable: {cpu: 16, memory: 64Gi, pods: 110}}
shapes:
- {name: web, weight: 1, requests: {cpu: 500m, memory: 1Gi}}
replicas: {min: 1, max: 10}
load: 0.8
objective: balance
`))
	if err != nil {
		panic(err)
	}
	fmt.Println(scenarios[0].Name, scenarios[0].Nodes.Max, scenarios[0].Objective.Name())
	// Output:
	// mine 10 balance
}

// Five pairs are too few for significance at 0.05, six of the same sign are enough.
func ExampleWilcoxon() {
	fmt.Println(eval.Wilcoxon([]float64{1, 2, 3, 4, 5}))
	fmt.Println(eval.Wilcoxon([]float64{1, 2, 3, 4, 5, 6}))
	// Output:
	// 0.0625
	// 0.03125
}
