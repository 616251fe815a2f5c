package workload_test

import (
	"fmt"
	"os"

	"gnnsched/internal/cluster"
	"gnnsched/workload"
	"gnnsched/workload/trace"
)

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
