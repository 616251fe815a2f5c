// Package driver applies a workload plan to a cluster: it creates the Deployments one after
// another, watches their pods being bound, deletes everything between two fills, and says
// what came of it.
//
//	room, err := driver.Measure(ctx, clientset, workload.Tolerations(shapes))
//	plan, err := workload.Generator{…, Capacity: room.Allocatable, Used: room.Used}.Plan()
//	cleaner, err := cleanup.New(restConfig)
//	summary, err := driver.Run(ctx, driver.Config{
//		Client: clientset, Cleaner: cleaner, Plan: plan, Room: room, SchedulerName: "gnn", RunID: driver.NewRunID(time.Now()),
//	})
//
// After the last fill the pods stay; cleaner.Remove takes them away.
package driver
