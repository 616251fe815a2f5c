// Package openb reads the openb trace, a recording of a production cluster that shares GPUs
// (Weng et al., "Beware of Fragmentation", USENIX ATC 2023), and makes workloads from it.
//
//	nodes, err := openb.LoadNodes("openb_node_list_gpu_node.csv")
//	pods, err := openb.LoadPods("openb_pod_list_default.csv")
//	trace := openb.Trace(pods) // the pods at their recorded times
//
// The published experiments use no times. They shuffle the pods and repeat some of them until
// 130% of the cluster's GPUs are requested:
//
//	arrivals, err := openb.Inflate(pods, 1.3, openb.GPUMilli(nodes), seed)
//	trace := openb.InOrder(arrivals)
//
// Files are CSVs with a header. Columns may come in any order and beside others. Errors begin
// with file, line and column.
package openb
