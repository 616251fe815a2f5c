// Package trace reads workloads from files: it holds every file format in which arriving pods
// are recorded, in one list.
//
//	f, err := trace.Auto.Read(file, "pods.csv") // the header decides on the format
//	fmt.Println(f.Arrivals.Pods(), "pods in", f.Format.Name)
//
// Each [Format] has a file of its own and an entry in formats:
//
//	openb      openb.go      a pod list of the openb trace, see package openb
//	gpu-v2025  instances.go  the instances of Alibaba's cluster-trace-gpu-v2025
//	arrivals   arrivals.go   a CSV with an arrival time for each row
//	plan       plan.go       the CSV that runsim and AAML write, one step a row
//
// To add a format, write a type with the methods of Format and add it to the list. Package
// records reads CSV rows and reports errors as file:line:column.
package trace
