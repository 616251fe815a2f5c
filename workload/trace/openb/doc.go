// Package openb reads the openb trace, a production cluster that shares GPUs (Weng et al.,
// "Beware of Fragmentation", USENIX ATC 2023), as plain values, and makes workloads of it.
//
//	nodes, err := openb.LoadNodes("openb_node_list_gpu_node.csv")
//	pods, err := openb.LoadPods("openb_pod_list_default.csv")
//	arrivals, err := openb.Inflate(pods, 1.3, openb.GPUMilli(nodes), seed) // the published protocol
//	trace := openb.InOrder(arrivals)                                       // or openb.Trace(pods), by their times
//
// [Nodes] and [Pods] stream a file record by record. Columns are found by the header, in any
// order and beside others; every error has the form file:line:column.
package openb
