// Package driver applies a workload plan to a cluster and reports the outcome. It creates the
// Deployments one after another, watches how their pods are bound, and deletes everything
// between two fills.
//
//	capacity, err := driver.Measure(ctx, clientset, workload.Tolerations(shapes))
//	plan, err := workload.Generator{..., Capacity: capacity.Allocatable, Used: capacity.Used}.Plan()
//	cleaner, err := cleanup.New(restConfig)
//	summary, err := driver.Run(ctx, driver.Config{
//		Client: clientset, Cleaner: cleaner, Plan: plan, Capacity: capacity, SchedulerName: "gnn", RunID: driver.NewRunID(time.Now()),
//	})
//
// The pods of the last fill stay until cleaner.Remove deletes them. Package fakecluster is an
// in-memory cluster for tests.
package driver
