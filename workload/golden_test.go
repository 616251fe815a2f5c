package workload_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/workload"
	"gnnsched/workload/trace"
)

// The plan of a seed never changes, because results name seeds.
func TestPlanOfSeed1(t *testing.T) {
	p := fatal.Value(workload.Generator{
		Seed: 1, Shapes: workload.DefaultShapes(), ReplicasMin: 5, ReplicasMax: 15, Fills: 2,
		Target:   workload.Load{CPU: 0.03, Memory: 0.03, Pods: 0.03},
		Capacity: cluster.Resources{MilliCPU: 640_000, Memory: 2560 << 30, Pods: 1100},
	}.Plan())(t)
	var b strings.Builder
	fatal.If(t, trace.WritePlan(&b, p))
	fatal.Golden(t, "plan-seed-1.csv", b.String())
}

// Every shapes file and CSV in docs/reference/scenario-file.md is valid.
func TestExamplesInTheDocs(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/scenario-file.md")
	fatal.If(t, err)
	seen := map[string]int{}
	for i, part := range strings.Split(string(page), "\n```") {
		lang, body, _ := strings.Cut(part, "\n")
		if i%2 == 0 {
			continue // between two blocks
		}
		seen[lang]++
		switch lang {
		case "yaml":
			if !strings.HasPrefix(body, "shapes:") {
				continue // a scenario, which scheduler/eval checks
			}
			_, err = workload.ReadShapes("docs", []byte(body))
		case "csv":
			_, err = trace.ReadPlan(strings.NewReader(body), "docs")
		default:
			t.Errorf("a block of %q, which nothing checks", lang)
		}
		if err != nil {
			t.Errorf("%v in\n%s", err, body)
		}
	}
	if seen["yaml"] == 0 || seen["csv"] == 0 {
		t.Errorf("blocks found: %v", seen)
	}
}

// docs/reference/scenario-file.md describes every trace format.
func TestDocsHaveEveryFormat(t *testing.T) {
	page := fatal.Value(os.ReadFile("../docs/reference/scenario-file.md"))(t)
	for _, name := range []string{"openb", "arrivals", trace.Plan.Name} {
		if !strings.Contains(string(page), "\n| `"+name+"` |") {
			t.Errorf("docs/reference/scenario-file.md does not list the trace format %s", name)
		}
	}
}

// Draw a plan for a cluster of ten nodes and print it in the form that runsim --replay reads.
func Example() {
	node := cluster.Resources{MilliCPU: 64_000, Memory: 256 << 30, Pods: 110}
	plan, err := workload.Generator{
		Seed: 1, Shapes: workload.DefaultShapes(), ReplicasMin: 5, ReplicasMax: 15, Fills: 1,
		Target:   workload.Load{CPU: 0.03, Memory: 0.03, Pods: 0.03},
		Capacity: node.Times(10),
	}.Plan()
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := trace.WritePlan(os.Stdout, plan); err != nil {
		fmt.Println(err)
	}
	fill := plan.Fills()[0]
	fmt.Printf("%d pods: %v\n", fill.Pods, workload.LoadOf(fill.Requests, node.Times(10)))
	// Output:
	// name,pod_count,cpu_request,cpu_limit,mem_request,mem_limit,action
	// witty-brook,11,500m,1,1Gi,2Gi,add
	// stable-thistle,12,500m,1,1Gi,2Gi,add
	// even-tulip,12,500m,1,1Gi,2Gi,add
	// 35 pods: cpu 3% mem 1% pods 3%
}

// A plan as a trace: its Deployments with times.
func ExamplePlan_Trace() {
	web := workload.Deployment{Name: "web", Replicas: 3}
	plan := workload.Plan{Steps: []workload.Step{
		{Action: workload.Add, Deployment: web},
		{Action: workload.Add, Deployment: workload.Deployment{Name: "batch", Replicas: 1}},
		{Action: workload.Delete, Deployment: web},
	}}
	for _, a := range plan.Trace() {
		fmt.Printf("at %v: %d pods of %s for %v\n", a.At, a.Deployment.Replicas, a.Deployment.Name, a.Lifetime)
	}
	// Output:
	// at 0: 3 pods of web for 2
	// at 1: 1 pods of batch for +Inf
}
