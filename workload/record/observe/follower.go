package observe

import (
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"gnnsched/workload/record"
)

// Follower keeps the present state of a cluster and adds to a record what changes. Its methods may be called from
// several goroutines.
//
// The API's times have a resolution of a second. If the follower learns of an event when it happens, the record has the
// follower's time instead, within the second that the API names. So a clock that is wrong here moves no event out of its
// second.
type Follower struct {
	mu        sync.Mutex
	out       Sink
	names     *record.Anonymiser
	now       func() int64 // milliseconds since 1970
	pods      map[string]*record.Pod
	gated     map[string]struct{} // UIDs of pods with scheduling gates, which no scheduler looks at yet
	nodes     states[string, record.Node]
	addresses map[string]string // of nodes, and their real names; "" for an address of several nodes
	objects   states[objectKey, record.Object]
	counts    Counts
}

// Sink takes the rows of a record. A *record.Writer is one.
type Sink interface {
	Pod(record.Pod)
	Node(record.Node)
	Object(record.Object)
}

// Counts counts a Follower's objects.
type Counts struct {
	Nodes, Pods, Waiting  int    // present now; Pods have not ended; Waiting of them have no node
	Arrived, Bound, Ended int    // since the beginning
	Owners                string // the owners of pods that are there now, as record.CountOwners counts them
}

type objectKey struct{ kind, namespace, name string }

// Config configures a Follower.
type Config struct {
	Out       Sink
	Now       func() int64       // milliseconds since 1970
	Open      record.State       // the open objects of an earlier run in the same record
	Anonymise *record.Anonymiser // nil: names stay
}

// NewFollower returns a follower.
func NewFollower(c Config) *Follower {
	open := c.Open
	f := &Follower{out: c.Out, names: c.Anonymise, now: c.Now, pods: map[string]*record.Pod{}, gated: map[string]struct{}{},
		addresses: map[string]string{},
		nodes: states[string, record.Node]{map[string]*record.Node{}, c.Out.Node,
			func(n *record.Node) (*int64, *int64, *bool) { return &n.From, &n.To, &n.Gone }},
		objects: states[objectKey, record.Object]{map[objectKey]*record.Object{}, c.Out.Object,
			func(o *record.Object) (*int64, *int64, *bool) { return &o.From, &o.To, &o.Gone }}}
	for i := range open.Pods {
		f.pods[open.Pods[i].UID] = &open.Pods[i]
	}
	for i := range open.Nodes {
		f.nodes.now[open.Nodes[i].Name] = &open.Nodes[i]
	}
	for i := range open.Objects {
		o := &open.Objects[i]
		f.objects.now[objectKey{o.Kind, o.Namespace, o.Name}] = o
	}
	return f
}

// Counts returns what was seen so far.
func (f *Follower) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.counts
	c.Nodes = len(f.nodes.now)
	owners := make([]record.Object, 0, len(f.objects.now))
	for _, o := range f.objects.now {
		owners = append(owners, *o)
	}
	c.Owners = record.CountOwners(owners)
	for _, p := range f.pods {
		if p.Ended == 0 {
			c.Pods++
			if p.Bound == 0 {
				c.Waiting++
			}
		}
	}
	return c
}

// Pod takes the state of a pod. live states that the follower saw the event that led to it, instead of a list.
func (f *Follower) Pod(p *corev1.Pod, live bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.take(p, live)
}

// take records a pod, unless it has scheduling gates: it arrives when it has lost them.
func (f *Follower) take(p *corev1.Pod, live bool) (uid string) {
	row := f.row(p)
	if gated(p) {
		f.gated[row.UID] = struct{}{}
	} else {
		f.pod(row, live)
	}
	return row.UID
}

// row translates a pod into its row.
func (f *Follower) row(p *corev1.Pod) record.Pod {
	row := Pod(p)
	record.Anonymise(f.names, &row)
	return row
}

func (f *Follower) pod(p record.Pod, live bool) {
	old := f.pods[p.UID]
	now := f.now()
	if p.Bound == 0 && p.Node != "" { // it has no binding time, and its node now at the latest
		p.Bound = now
	}
	if p.Ended == 0 && p.End != "" {
		p.Ended = now
	}
	switch {
	case old == nil:
		f.counts.Arrived++
		_, was := f.gated[p.UID]
		delete(f.gated, p.UID)
		switch {
		case was && p.Bound != 0: // the loss of its gates was not observed
			p.Arrived = p.Bound
		case was:
			p.Arrived = max(p.Arrived, now)
		case live:
			p.Arrived = refine(p.Arrived, now)
		}
	default:
		p.Arrived = old.Arrived
	}
	switch {
	case old != nil && old.Bound != 0:
		p.Bound = old.Bound
	case p.Bound != 0:
		if live {
			p.Bound = refine(p.Bound, now)
		}
		p.Bound = max(p.Bound, p.Arrived)
		f.counts.Bound++
	}
	switch {
	case old != nil && old.Ended != 0:
		p.Ended, p.End = old.Ended, old.End
	case p.Ended != 0:
		p.Ended = max(p.Ended, p.Bound, p.Arrived)
		f.counts.Ended++
	}
	if p.Health != "" && p.HealthSince == 0 { // the API does not say
		p.HealthSince = now
		if old != nil && old.Health == p.Health {
			p.HealthSince = old.HealthSince
		}
	}
	if old != nil && *old == p {
		return
	}
	p.Intern()
	f.pods[p.UID] = &p
	f.out.Pod(p)
}

// refine returns the observed time if it lies in the second that the API names, else the nearest time in it.
func refine(api, observed int64) int64 { return min(max(observed, api), api+999) }

// PodGone takes a pod that was deleted, in its last state.
func (f *Follower) PodGone(p *corev1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	uid := f.take(p, true)
	f.end(uid, why(p))
	delete(f.pods, uid)
	delete(f.gated, uid)
}

// end records that a pod went now, unless it had ended.
func (f *Follower) end(uid, how string) {
	p := f.pods[uid]
	if p == nil || p.Ended != 0 {
		return
	}
	p.Ended, p.End = max(f.now(), p.Bound, p.Arrived), how
	f.counts.Ended++
	f.out.Pod(*p)
}

// Pods takes a list of all pods. Missing pods went unobserved.
func (f *Follower) Pods(all []*corev1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	there := make(map[string]bool, len(all))
	for _, p := range all {
		there[f.take(p, false)] = true
	}
	maps.DeleteFunc(f.gated, func(uid string, _ struct{}) bool { return !there[uid] })
	for uid := range f.pods {
		if !there[uid] {
			f.end(uid, record.Unseen)
			delete(f.pods, uid)
		}
	}
}

// Node takes the state of a node.
func (f *Follower) Node(n *corev1.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	row := f.nodeRow(n)
	f.nodes.put(row.Name, row, f.now())
}

func (f *Follower) nodeRow(n *corev1.Node) record.Node {
	f.address(n)
	row := Node(n)
	record.Anonymise(f.names, &row)
	return row
}

// NodeGone takes the name of a node that left.
func (f *Follower) NodeGone(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := record.Node{Name: name}
	record.Anonymise(f.names, &n)
	f.nodes.end(n.Name, f.now())
}

// Nodes takes a list of all nodes.
func (f *Follower) Nodes(all []*corev1.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	there := make(map[string]bool, len(all))
	for _, n := range all {
		row := f.nodeRow(n)
		there[row.Name] = true
		f.nodes.put(row.Name, row, f.now())
	}
	f.nodes.keep(f.now(), func(name string) bool { return there[name] })
}

// Object takes the state of an object.
func (f *Follower) Object(o record.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.object(o)
}

func (f *Follower) object(o record.Object) objectKey {
	record.Anonymise(f.names, &o)
	k := objectKey{o.Kind, o.Namespace, o.Name}
	f.objects.put(k, o, f.now())
	return k
}

// ObjectGone takes an object that was deleted.
func (f *Follower) ObjectGone(o record.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	record.Anonymise(f.names, &o)
	f.objects.end(objectKey{o.Kind, o.Namespace, o.Name}, f.now())
}

// Objects takes a list of all objects of a kind.
func (f *Follower) Objects(kind string, all []record.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	there := make(map[objectKey]bool, len(all))
	for _, o := range all {
		there[f.object(o)] = true
	}
	f.objects.keep(f.now(), func(k objectKey) bool { return k.kind != kind || there[k] })
}

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

// part names what a list covers: the objects of a kind in a namespace. The namespace is empty for kinds that have none, and everywhere for
// all namespaces.
type part struct{ kind, namespace string }

const everywhere = "*"

// scope holds what lists cover. An object that a list covers and lacks does not exist. A list says nothing about other objects: `kubectl
// get -n`, the files of `kubectl cluster-info dump`, of must-gather and of support bundles list one namespace each.
type scope struct {
	covers map[part]bool
	names  map[objectKey]bool  // of objects by themselves
	listed map[objectKey]int64 // the newest times of objects in lists
	unread map[objectKey]bool  // objects that are there and cannot be read
}

func newScope() scope {
	return scope{map[part]bool{}, map[objectKey]bool{}, map[objectKey]int64{}, map[objectKey]bool{}}
}

// add adds the objects that a list covers. One command lists the objects of one namespace or of all. So a list with objects of several
// namespaces covers all of them, and another one the namespace of its objects.
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
