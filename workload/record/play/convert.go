package play

import (
	"encoding/json"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"

	"gnnsched/internal/cluster"
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
			CPULimit: s.Limits.MilliCPU, MemoryLimit: s.Limits.Memory, GPUModels: column(s.GPUModels), Labels: column(s.Labels),
			NodeSelector: column(s.NodeSelector), Tolerations: column(tolerations(s.Tolerations)), Arrived: millis(a.At),
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

func tolerations(all []cluster.Toleration) (out []corev1.Toleration) {
	for _, t := range all {
		o := corev1.Toleration{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect), Operator: corev1.TolerationOpEqual}
		if t.Exists {
			o.Operator = corev1.TolerationOpExists
		}
		out = append(out, o)
	}
	return out
}

// column returns a list or map as JSON; "" if it is empty. A trace's lists and maps can always be written.
func column[T []string | map[string]string | []corev1.Toleration | []corev1.Taint](v T) string {
	if len(v) == 0 {
		return ""
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot happen: texts only
	}
	return string(text)
}

// NodeRows returns nodes as rows of a record that begins at Midnight.
func NodeRows(nodes []*cluster.Node) []record.Node {
	out := make([]record.Node, len(nodes))
	for i, n := range nodes {
		var taints []corev1.Taint
		for _, t := range n.Taints {
			taints = append(taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
		}
		a := n.Allocatable
		out[i] = record.Node{
			Name: n.Name, From: Midnight, MilliCPU: a.MilliCPU, Memory: a.Memory, Pods: a.Pods, GPU: a.GPU, GPUModel: n.GPUModel,
			Labels: column(n.Labels), Taints: column(taints),
		}
	}
	return out
}
