package observe

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/each"
	"gnnsched/workload/record"
)

// Known holds the combined knowledge of several looks at a cluster.
type Known struct {
	nodes  map[string]*corev1.Node
	pods   map[objectKey]*corev1.Pod
	others map[objectKey]record.Object
	kinds  map[string]bool // of others, now or earlier
	uids   map[types.UID]objectKey
	shared map[types.UID]bool // that several pods have, as where a tool has redacted them
}

// NewKnown returns a cluster without any knowledge.
func NewKnown() *Known {
	return &Known{map[string]*corev1.Node{}, map[objectKey]*corev1.Pod{}, map[objectKey]record.Object{}, map[string]bool{},
		map[types.UID]objectKey{}, map[types.UID]bool{}}
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
			if of, known := p.uids[x.UID]; known && of != k {
				p.shared[x.UID] = true
			}
			p.uids[x.UID] = k
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
		x := p.pods[k]
		if p.shared[x.UID] { // its name tells it apart
			x = x.DeepCopy()
			x.UID = ""
		}
		pods = append(pods, x)
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

// Time is a time that an object has, in milliseconds since 1970.
type Time struct {
	At int64
	Of string // the object, such as shop/web-1
}

// newer returns the newer one of two times, the first of equal ones.
func newer(a, b Time) Time {
	if b.At > a.At {
		return b
	}
	return a
}

// newest returns the newest time that an object has of something that has happened: its creation, changes of its fields, conditions,
// heartbeats and states of containers.
func newest(x metav1.Object) Time {
	created := x.GetCreationTimestamp()
	out := millis(created)
	for _, t := range times(x) {
		out = max(out, millis(*t))
	}
	name := x.GetName()
	if space := x.GetNamespace(); space != "" {
		name = space + "/" + name
	}
	return Time{out, name}
}

// times returns an object's times without its creation.
func times(x metav1.Object) (out []*metav1.Time) {
	out = each.Map(x.GetManagedFields(), func(f metav1.ManagedFieldsEntry) *metav1.Time { return f.Time })
	switch x := x.(type) {
	case *corev1.Pod:
		out = append(out, timesOfPod(x)...)
	case *corev1.Node:
		for i := range x.Status.Conditions {
			out = append(out, &x.Status.Conditions[i].LastHeartbeatTime, &x.Status.Conditions[i].LastTransitionTime)
		}
		out = append(out, each.Map(x.Spec.Taints, func(t corev1.Taint) *metav1.Time { return t.TimeAdded })...)
	case *policyv1.PodDisruptionBudget:
		for i := range x.Status.Conditions {
			out = append(out, &x.Status.Conditions[i].LastTransitionTime)
		}
	}
	return slices.DeleteFunc(out, func(t *metav1.Time) bool { return t == nil })
}

func timesOfPod(p *corev1.Pod) []*metav1.Time {
	out := []*metav1.Time{p.Status.StartTime}
	for i := range p.Status.Conditions {
		out = append(out, &p.Status.Conditions[i].LastTransitionTime, &p.Status.Conditions[i].LastProbeTime)
	}
	s := p.Status
	for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses) {
		for _, s := range []corev1.ContainerState{c.State, c.LastTerminationState} {
			if s.Running != nil {
				out = append(out, &s.Running.StartedAt)
			}
			if s.Terminated != nil {
				out = append(out, &s.Terminated.StartedAt, &s.Terminated.FinishedAt)
			}
		}
	}
	return out
}

// Doubt removes times of nodes and pods that are more than a day after the file's time, because the machine's clock was wrong. If half of
// the objects have such times, the file's own time is wrong. It returns these objects.
func (f *File) Doubt() (out Few) {
	last := f.At + int64(24*time.Hour/time.Millisecond)
	var all []metav1.Object
	for _, n := range f.Nodes {
		all = append(all, n)
	}
	for _, p := range f.Pods {
		all = append(all, p)
	}
	late := each.Filter(all, func(x metav1.Object) bool { return newest(x).At > last })
	if len(late) == 0 || 2*len(late) >= len(all) {
		return out
	}
	for _, x := range late {
		t := newest(x)
		out.add(t.Of, fmt.Errorf("it has a time of %s", time.UnixMilli(t.At).UTC().Format(time.RFC3339)))
		if millis(x.GetCreationTimestamp()) > last {
			x.SetCreationTimestamp(metav1.Time{})
		}
		for _, t := range times(x) {
			if millis(*t) > last {
				*t = metav1.Time{}
			}
		}
	}
	for k, at := range f.scope.listed {
		if at > last {
			f.scope.listed[k] = 0
		}
	}
	f.Newest = Time{}
	for _, x := range all {
		f.Newest = newer(f.Newest, newest(x))
	}
	return out
}

// states are the present states of nodes or of other objects. A state lasts from one change to the next.
type states[K, T comparable] struct {
	now  map[K]*T
	out  func(T)                                // adds a row to the record
	span func(*T) (from, to *int64, gone *bool) // the columns of a row that say how long its state lasted
}

// put takes the state of an object at a time.
func (s states[K, T]) put(k K, x T, at int64) {
	from, _, _ := s.span(&x)
	if old := s.now[k]; old != nil {
		began, _, _ := s.span(old)
		if *from = *began; x == *old {
			return
		}
		s.over(old, false, at)
	}
	*from = at
	s.now[k] = &x
	s.out(x)
}

// over ends a state. One that lasted for no time is left out: the next one replaces its row.
func (s states[K, T]) over(x *T, left bool, at int64) {
	from, to, gone := s.span(x)
	*to, *gone = max(at, *from), left
	if *to > *from || left {
		s.out(*x)
	}
}

// end takes an object that left, if it was there.
func (s states[K, T]) end(k K, at int64) {
	if x := s.now[k]; x != nil {
		s.over(x, true, at)
		delete(s.now, k)
	}
}

// keep ends all objects but those that are there.
func (s states[K, T]) keep(at int64, there func(K) bool) {
	for k := range s.now {
		if !there(k) {
			s.end(k, at)
		}
	}
}

// address notes the addresses of a node and the name that its machine gives itself.
func (f *Follower) address(n *corev1.Node) {
	all := []string{n.Labels[corev1.LabelHostname]}
	all = append(all, each.Map(n.Status.Addresses, func(a corev1.NodeAddress) string { return a.Address })...)
	for _, a := range all {
		if name, taken := f.addresses[a]; taken && name != n.Name {
			f.addresses[a] = ""
		} else if a != "" {
			f.addresses[a] = n.Name
		}
	}
}

// Present holds the objects present at a time, by their real names.
type Present struct {
	names     *record.Anonymiser
	there     map[[2]string]bool
	addresses map[string]string
}

// Present returns the nodes and pods that are there now.
func (f *Follower) Present() Present {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := Present{f.names, make(map[[2]string]bool, len(f.nodes.now)+len(f.pods)), maps.Clone(f.addresses)}
	for name := range f.nodes.now {
		p.there[[2]string{"", name}] = true
	}
	for _, x := range f.pods {
		p.there[[2]string{x.Namespace, x.Name}] = true
	}
	return p
}

// Pod reports whether a pod is there.
func (p Present) Pod(namespace, name string) bool {
	s := record.Sample{Namespace: namespace, Name: name}
	record.Anonymise(p.names, &s)
	return p.there[[2]string{s.Namespace, s.Name}]
}

// Node returns the first node that has one of the names or addresses, else "".
func (p Present) Node(names []string) string {
	for _, name := range names {
		for _, real := range []string{name, p.addresses[name]} {
			if real != "" && p.Pod("", real) {
				return real
			}
		}
	}
	return ""
}

// File is a file of objects.
type File struct {
	Objects
	Path string
	At   int64 // milliseconds since 1970
}

// Older compares files by their times, and files with equal times, such as copies, by the newest times in them.
func Older(a, b File) int {
	return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Newest.At, b.Newest.At))
}

// moment is the longest time between files of one look.
const moment = int64(2 * time.Minute / time.Millisecond)

// beside reports whether files are of one folder and about the same time. Each may then list a part, such as the pods of one node or
// with one label.
func beside(a, b File) bool {
	near := func(x, y int64) bool { return x > 0 && y > 0 && max(x-y, y-x) <= moment }
	return filepath.Dir(a.Path) == filepath.Dir(b.Path) && (near(a.At, b.At) || near(a.Newest.At, b.Newest.At))
}

// look is a look that is being put together.
type look struct {
	files  []File
	listed map[part]File // the last file that lists a part
	scope  scope
}

// later reports whether a file belongs to a later look: it lists an object of the look again. A list may be only a part of one, as with
// --field-selector or -l. So consecutive files without a common object are one look.
func (l *look) later(f File) bool {
	for n := range f.scope.names {
		if l.scope.names[n] {
			return true
		}
	}
	shares := false
	for k := range f.scope.listed {
		_, has := l.scope.listed[k]
		shares = shares || has
	}
	for p := range f.scope.covers {
		if last, again := l.listed[p]; again && p.namespace != everywhere && (shares || !beside(last, f)) {
			return true
		}
	}
	return false
}

func (l *look) add(f File) {
	l.files = append(l.files, f)
	for p := range f.scope.covers {
		l.listed[p] = f
	}
	maps.Copy(l.scope.names, f.scope.names)
	maps.Copy(l.scope.listed, f.scope.listed)
}

func newLook(f File) *look {
	out := &look{listed: map[part]File{}, scope: newScope()}
	out.add(f)
	return out
}

// Looks groups the files of one look at the cluster: none of them lists an object again that another one lists. The looks are in the order
// of their newest files' times. A file that is older than an earlier one with the same object is an error.
func Looks(files []File) ([][]File, error) {
	last := map[part]*look{}
	for _, f := range files {
		now := newLook(f)
		for p := range f.scope.covers {
			if before := last[p]; before != nil && p.namespace != everywhere && f.At < before.files[0].At && before.later(f) {
				return nil, fmt.Errorf("%s is older than %s, which lists the same; name the files in the order of their times",
					f.Path, before.files[0].Path)
			}
			last[p] = now
		}
	}
	files = slices.Clone(files)
	slices.SortStableFunc(files, Older)
	var out [][]File
	var now *look
	for _, f := range files {
		if now == nil || now.later(f) {
			now, out = newLook(f), append(out, nil)
		} else {
			now.add(f)
		}
		out[len(out)-1] = now.files
	}
	return out, nil
}

// Disorder finds an object with a newer time in an earlier look than in a later one: the files' times are then wrong. earlier is empty if
// there is none.
func Disorder(looks [][]File) (earlier, later, object string) {
	type seen struct {
		at   int64
		file string
	}
	last := map[objectKey]seen{}
	for _, files := range looks {
		for _, f := range files {
			for _, k := range inOrder(f.scope.listed) {
				at := f.scope.listed[k]
				if before := last[k]; before.at > at && at > 0 {
					return before.file, f.Path, k.name
				}
				last[k] = seen{at, f.Path}
			}
		}
	}
	return "", "", ""
}
