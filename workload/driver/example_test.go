package driver_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/workload"
	"gnnsched/workload/cleanup"
	"gnnsched/workload/driver"
	"gnnsched/workload/driver/fakecluster"
)

// Measure a cluster, draw a plan for it and apply the plan. On a real cluster, the client comes
// from kubernetes.NewForConfig and the cleaner from cleanup.New.
func Example() {
	ctx := context.Background()
	c := fakecluster.New(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-0"},
		Status:     corev1.NodeStatus{Allocatable: kube.Capacity(cluster.Resources{MilliCPU: 64_000, Memory: 256 << 30, Pods: 110})},
	})
	cleaner := &cleanup.Client{Metadata: c.Metadata, Kinds: c, Clock: clock.RealClock{}}

	shapes := workload.DefaultShapes()
	capacity, err := driver.Measure(ctx, c.Client, workload.Tolerations(shapes))
	if err != nil {
		fmt.Println(err)
		return
	}
	plan, err := workload.Generator{
		Seed: 1, Shapes: shapes, ReplicasMin: 5, ReplicasMax: 15, Fills: 1,
		Target:   workload.Load{CPU: 0.3, Memory: 0.3, Pods: 0.3},
		Capacity: capacity.Allocatable, Used: capacity.Used,
	}.Plan()
	if err != nil {
		fmt.Println(err)
		return
	}
	summary, err := driver.Run(ctx, driver.Config{
		Client: c.Client, Cleaner: cleaner, Plan: plan, Capacity: capacity, SchedulerName: "gnn", RunID: "example",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, f := range summary.Fills {
		fmt.Printf("fill %d: %d deployments, %d of %d pods bound, %v\n", i+1, f.Deployments, f.Bound, f.Pods, f.Load)
	}
	// Output:
	// fill 1: 3 deployments, 35 of 35 pods bound, cpu 27% mem 14% pods 32%
}
