// Package measured reads public records of the real usage of machines and jobs, and makes pod shapes and arrivals from them.
//
//	w, err := measured.Read(measured.Options{Step: 300}, files...)
//	shapes, err := w.Shapes(0)
//
// Each [Format] has a file of its own:
//
//	gwa-t-12            gwa.go       a file for each virtual machine, from the Grid Workloads Archive
//	vms                 vms.go       a line for each virtual machine, with its series
//	azure               azure.go     readings of Azure's public dataset, and its table of machines
//	alibaba-2018        alibaba.go   container_usage.csv and container_meta.csv of cluster-trace-v2018
//	alibaba-2018-batch  alibaba.go   batch_instance.csv of the same
//	jobs                jobs.go      a line for each batch job
//
// A record says when something was measured; a [usage.Series] has a value for each step. A step's value is the mean of
// what was measured in it. A step without a measurement has the value of the step before.
package measured
