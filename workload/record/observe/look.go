package observe

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"gnnsched/internal/cluster/kube"
	"gnnsched/workload/record"
)

// Known holds the combined knowledge of several looks at a cluster.
type Known struct {
	nodes  map[string]*corev1.Node
	pods   map[objectKey]*corev1.Pod
	others map[objectKey]record.Object
	kinds  map[string]bool // of others, now or earlier
}

// NewKnown returns a cluster without any knowledge.
func NewKnown() *Known {
	return &Known{map[string]*corev1.Node{}, map[objectKey]*corev1.Pod{}, map[objectKey]record.Object{}, map[string]bool{}}
}

// Assumed counts the assumptions of a look.
type Assumed struct {
	Pods     int    // of earlier looks, in namespaces that this one does not list; they are taken to be there still
	Nowhere  int    // pods on nodes that no file has
	Lost     int    // if most are, the pods that are taken to have ended because the files list their namespaces without them
	Of       int    // the pods that earlier looks had in these namespaces; 0 if most are there still
	Pod      string // the first one of Pods
	NodeLess string // the node of the first one of Nowhere
}

// Look takes the files of a look. Covered objects that they lack have gone, except nodes with pods of the look. Pods that they do not cover
// have gone with their nodes.
func (p *Known) Look(files []File) (out Assumed) {
	s := newScope()
	for _, f := range files {
		maps.Copy(s.covers, f.scope.covers)
		maps.Copy(s.unread, f.scope.unread)
	}
	before := maps.Clone(p.nodes)
	had := maps.Clone(p.pods)
	maps.DeleteFunc(p.pods, func(k objectKey, _ *corev1.Pod) bool { return s.gone(k) })
	maps.DeleteFunc(p.others, func(k objectKey, _ record.Object) bool { return s.gone(k) })
	maps.DeleteFunc(p.nodes, func(name string, _ *corev1.Node) bool { return s.gone(objectKey{kind: kindNode, name: name}) })
	listed := map[objectKey]bool{}
	for _, f := range files {
		for _, n := range f.Nodes {
			p.nodes[n.Name] = n
		}
		for _, x := range f.Pods {
			k := objectKey{kindPod, x.Namespace, x.Name}
			p.pods[k], listed[k] = x, true
		}
		for _, x := range f.others {
			p.others[objectKey{x.Kind, x.Namespace, x.Name}], p.kinds[x.Kind] = x, true
		}
	}
	for k := range listed {
		if node := p.pods[k].Spec.NodeName; before[node] != nil && p.nodes[node] == nil {
			p.nodes[node] = before[node]
		}
	}
	out.lost(s, had, p.pods)
	for _, k := range inOrder(p.pods) {
		node := p.pods[k].Spec.NodeName
		there := node == "" || p.nodes[node] != nil
		switch {
		case listed[k] && !there && !kube.Finished(p.pods[k]):
			out.Nowhere++
			out.NodeLess = cmp.Or(out.NodeLess, node)
		case !listed[k] && !there && before[node] != nil:
			delete(p.pods, k)
		case !listed[k]:
			out.Pods++
			out.Pod = cmp.Or(out.Pod, k.namespace+"/"+k.name)
		}
	}
	return out
}

// lost counts the pods that a look covers and lacks, if they are most of those before it.
func (a *Assumed) lost(s scope, before, now map[objectKey]*corev1.Pod) {
	lost, of := 0, 0
	for k, x := range before {
		if s.covered(k.kind, k.namespace) && !kube.Finished(x) {
			of++
			if now[k] == nil {
				lost++
			}
		}
	}
	if 2*lost > of {
		a.Lost, a.Of = lost, of
	}
}

// Tell tells a follower that the cluster has these objects and no others.
func (p *Known) Tell(f *Follower) {
	var nodes []*corev1.Node
	for _, name := range slices.Sorted(maps.Keys(p.nodes)) {
		nodes = append(nodes, p.nodes[name])
	}
	f.Nodes(nodes)
	var pods []*corev1.Pod
	for _, k := range inOrder(p.pods) {
		pods = append(pods, p.pods[k])
	}
	f.Pods(pods)
	rows := map[string][]record.Object{}
	for _, k := range inOrder(p.others) {
		rows[k.kind] = append(rows[k.kind], p.others[k])
	}
	for _, kind := range slices.Sorted(maps.Keys(p.kinds)) {
		f.Objects(kind, rows[kind])
	}
}

func inOrder[T any](m map[objectKey]T) []objectKey {
	return slices.SortedFunc(maps.Keys(m), func(a, b objectKey) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
}
