package observe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"gnnsched/internal/cluster/kube"
	"gnnsched/workload/record"
)

// listing is a list of objects, or an object by itself.
type listing struct {
	kinds      map[string]bool // of the list's objects that a record holds; nil for an object by itself
	namespaces map[string]bool // of all its objects
}

func (l *listing) namespace(name string) {
	if name != "" {
		l.namespaces[name] = true
	}
}

// part is what a list covers: the objects of a kind in a namespace. The namespace is empty for kinds that have none, and everywhere for
// all namespaces.
type part struct{ kind, namespace string }

const everywhere = "*"

// scope is what lists cover. What a list covers and lacks is not there. About everything else it says nothing: `kubectl get -n`, the
// files of `kubectl cluster-info dump`, of must-gather and of support bundles list one namespace each.
type scope struct {
	covers map[part]bool
	names  map[objectKey]bool // of objects by themselves
	unread map[objectKey]bool // objects that are there and cannot be read
}

func newScope() scope { return scope{map[part]bool{}, map[objectKey]bool{}, map[objectKey]bool{}} }

// add adds what a list covers. One command lists the objects of one namespace or of all. So a list with objects of several namespaces
// covers all of them, and another one the namespace of its objects.
func (s scope) add(l *listing) {
	for kind := range l.kinds {
		if spaceless[kind] {
			s.covers[part{kind, ""}] = true
			continue
		}
		for n := range l.namespaces {
			s.covers[part{kind, n}] = true
		}
		if len(l.namespaces) > 1 {
			s.covers[part{kind, everywhere}] = true
		}
	}
}

// spaceless are the kinds whose objects are in no namespace.
var spaceless = map[string]bool{kindNode: true, record.KindNamespace: true, record.KindPriorityClass: true}

// gone reports whether the lists cover an object that is not in them. Those who call it add the listed objects again.
func (s scope) gone(k objectKey) bool { return s.covered(k.kind, k.namespace) && !s.unread[k] }

// covered reports whether objects of a kind in a namespace are there only if they are listed.
func (s scope) covered(kind, namespace string) bool {
	return s.covers[part{kind, namespace}] || s.covers[part{kind, everywhere}]
}

// overlaps reports whether both say of something whether it is there, so that they are of different times.
func (s scope) overlaps(t scope) bool {
	for p := range t.covers {
		if s.covers[p] && p.namespace != everywhere {
			return true
		}
	}
	for n := range t.names {
		if s.names[n] {
			return true
		}
	}
	return false
}

// File is a file of objects.
type File struct {
	Objects
	Path string
	At   int64 // milliseconds since 1970
}

// Looks puts files together that are of one look at the cluster: none of them lists anything again that another one lists. The
// looks are in the order of their times, which are those of their newest files. A file that is older than an earlier one that lists the
// same is an error.
func Looks(files []File) ([][]File, error) {
	last := map[part]File{}
	for _, f := range files {
		for p := range f.scope.covers {
			if before, listed := last[p]; listed && p.namespace != everywhere && f.At < before.At {
				return nil, fmt.Errorf("%s is older than %s, which lists the same; name the files in the order of their times", f.Path, before.Path)
			}
			last[p] = f
		}
	}
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b File) int { return cmp.Compare(a.At, b.At) })
	var out [][]File
	var now scope
	for _, f := range files {
		if len(out) == 0 || now.overlaps(f.scope) {
			out, now = append(out, nil), newScope()
		}
		out[len(out)-1] = append(out[len(out)-1], f)
		maps.Copy(now.covers, f.scope.covers)
		maps.Copy(now.names, f.scope.names)
	}
	return out, nil
}

// Known is what looks at a cluster together say of it.
type Known struct {
	nodes  map[string]*corev1.Node
	pods   map[objectKey]*corev1.Pod
	others map[objectKey]record.Object
	kinds  map[string]bool // of others, now or earlier
}

// NewKnown returns a cluster of which nothing is known.
func NewKnown() *Known {
	return &Known{map[string]*corev1.Node{}, map[objectKey]*corev1.Pod{}, map[objectKey]record.Object{}, map[string]bool{}}
}

// Assumed counts what a look leaves open.
type Assumed struct {
	Pods     int    // of earlier looks, in namespaces that this one does not list; they are taken to be there still
	Nowhere  int    // pods on nodes that no file has
	Pod      string // the first one of Pods
	NodeLess string // the node of the first one of Nowhere
}

// Look takes the files of a look. What they cover and lack has gone, but for nodes on which pods of the look are. Pods that they do not
// cover have gone with their nodes.
func (p *Known) Look(files []File) (out Assumed) {
	s := newScope()
	for _, f := range files {
		maps.Copy(s.covers, f.scope.covers)
		maps.Copy(s.unread, f.scope.unread)
	}
	before := maps.Clone(p.nodes)
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
