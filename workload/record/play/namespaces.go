package play

import (
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/workload"
	"gnnsched/workload/record"
)

// Namespaces returns the labels of the namespaces of some pods and among some objects, by their names. A namespace that is not among the
// objects has only the label with its name, which every API server sets.
func Namespaces(pods []record.Pod, objects []record.Object) map[string]map[string]string {
	out := map[string]map[string]string{}
	for i := range pods {
		if name := pods[i].Namespace; name != "" && out[name] == nil {
			out[name] = map[string]string{v1.LabelMetadataName: name}
		}
	}
	var reader Reader
	for i := range objects {
		if o := &objects[i]; o.Kind == record.KindNamespace {
			out[o.Name] = reader.Labels(o)
		}
	}
	return out
}

// NamespaceNote returns how many of the pods select namespaces by unknown labels, because the objects lack such a namespace; empty if there
// are none. holder names the source of the pods and objects, such as "the record".
func NamespaceNote(holder string, pods []record.Pod, objects []record.Object) string {
	known := map[string]bool{}
	for i := range objects {
		if o := &objects[i]; o.Kind == record.KindNamespace {
			known[o.Name] = true
		}
	}
	var unknown []labels.Set
	for name, set := range Namespaces(pods, nil) {
		if !known[name] {
			unknown = append(unknown, set)
		}
	}
	var reader Reader
	open, n := map[string]bool{}, 0 // open has the affinities that were looked at
	for i := range pods {
		text := pods[i].Affinity
		if text == "" || len(unknown) == 0 {
			continue
		}
		depends, seen := open[text]
		if !seen {
			var a v1.Affinity
			depends = read(&reader, "affinity", text, &a) && dependsOn(&a, unknown)
			open[text] = depends
		}
		if depends {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d pods select namespaces by labels, which %s lacks of %d namespaces", n, holder, len(unknown))
}

// dependsOn reports whether the match of a namespaceSelector with some namespaces depends on labels other than the name.
func dependsOn(a *v1.Affinity, unknown []labels.Set) bool {
	for _, t := range kube.PodTerms(a) {
		selector, err := metav1.LabelSelectorAsSelector(t.NamespaceSelector)
		if t.NamespaceSelector == nil || err != nil {
			continue
		}
		all, _ := selector.Requirements() // a selector that selects nothing has no requirements
		for _, set := range unknown {
			excluded, other := false, false
			for _, r := range all {
				byName := r.Key() == v1.LabelMetadataName
				excluded, other = excluded || byName && !r.Matches(set), other || !byName
			}
			if other && !excluded {
				return true
			}
		}
	}
	return false
}

// Midnight is the beginning of the records of traces, which have no dates: 1 January 2000 in UTC, in milliseconds since
// 1970.
const Midnight = 946_684_800_000

// PodRows returns the pods of a trace as rows of a record that begins at Midnight. Their nodes and bindings are not
// known. Pods with replicas have the Deployment's name and a number. A single pod with a lifetime is of a Job, which has done its work
// then.
func PodRows(t workload.Trace) []record.Pod {
	out := make([]record.Pod, 0, t.Pods())
	for i, a := range t {
		s := a.Deployment.Shape
		row := record.Pod{
			Namespace: "default", MilliCPU: s.Requests.MilliCPU, Memory: s.Requests.Memory, GPU: s.Requests.GPU, GPUMilli: s.Requests.GPUMilli,
			CPULimit: s.Limits.MilliCPU, MemoryLimit: s.Limits.Memory, GPUModels: record.Column(s.GPUModels), Labels: record.Column(s.Labels),
			NodeSelector: record.Column(s.NodeSelector), Tolerations: record.Column(kube.Tolerations(s.Tolerations)), Arrived: millis(a.At),
		}
		if affinity := kube.Affinity(s.NodeAffinity); affinity != nil {
			row.Affinity = record.JSON(affinity)
		}
		if !math.IsInf(a.Lifetime, 1) {
			row.Ended, row.End = max(millis(a.At+a.Lifetime), row.Arrived+1), record.Deleted
		}
		if row.Ended != 0 && a.Deployment.Replicas == 1 {
			row.End, row.OwnerKind, row.OwnerName = record.Succeeded, "Job", a.Deployment.Name
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
