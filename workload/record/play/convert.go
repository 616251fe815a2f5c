package play

import (
	"fmt"
	"math"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/workload"
	"gnnsched/workload/record"
)

// Midnight is the beginning of the records of traces, which have no dates: 1 January 2000 in UTC, in milliseconds since
// 1970.
const Midnight = 946_684_800_000

// PodRows returns the pods of a trace as rows of a record that begins at Midnight. Their nodes and bindings are not
// known. Pods with replicas have the Deployment's name and a number.
func PodRows(t workload.Trace) []record.Pod {
	out := make([]record.Pod, 0, t.Pods())
	for i, a := range t {
		s := a.Deployment.Shape
		row := record.Pod{
			Namespace: "default", MilliCPU: s.Requests.MilliCPU, Memory: s.Requests.Memory, GPU: s.Requests.GPU, GPUMilli: s.Requests.GPUMilli,
			CPULimit: s.Limits.MilliCPU, MemoryLimit: s.Limits.Memory, GPUModels: record.Column(s.GPUModels), Labels: record.Column(s.Labels),
			NodeSelector: record.Column(s.NodeSelector), Tolerations: record.Column(kube.Tolerations(s.Tolerations)), Arrived: millis(a.At),
		}
		if !math.IsInf(a.Lifetime, 1) {
			row.Ended, row.End = max(millis(a.At+a.Lifetime), row.Arrived+1), record.Deleted
		}
		for n := range a.Deployment.Replicas {
			row.Name = a.Deployment.Name
			if a.Deployment.Replicas > 1 {
				row.Name = fmt.Sprintf("%s-%d", row.Name, n)
				row.OwnerKind, row.OwnerName, row.Workload = "Deployment", a.Deployment.Name, "Deployment/"+a.Deployment.Name
			}
			row.UID = fmt.Sprintf("%d-%d", i+1, n)
			out = append(out, row)
		}
	}
	return out
}

// millis returns the time of a record for seconds of a trace.
func millis(seconds float64) int64 { return Midnight + int64(math.Round(seconds*1000)) }

// NodeRows returns nodes as rows of a record that begins at Midnight.
func NodeRows(nodes []*cluster.Node) []record.Node {
	out := make([]record.Node, len(nodes))
	for i, n := range nodes {
		a := n.Allocatable
		out[i] = record.Node{
			Name: n.Name, From: Midnight, MilliCPU: a.MilliCPU, Memory: a.Memory, Pods: a.Pods, GPU: a.GPU, GPUModel: n.GPUModel,
			Labels: record.Column(n.Labels), Taints: record.Column(kube.Taints(n.Taints)),
		}
	}
	return out
}
