package sktrace

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"gnnsched/workload/record"
)

// Written is a trace that was made of a record.
type Written struct {
	Trace        []byte
	Owners, Pods int      // in the trace
	Notes        []string // what of the record the trace lacks, for people
}

// writer collects the parts of a trace.
type writer struct {
	pods       []record.Pod
	from, to   int64                          // of the record
	events     map[int64]*change              // by seconds since 1970
	index      map[string]map[string]uint64   // hashes by kind and namespace/name
	lifecycles map[ownerKey]map[uint64][]life // by the hash of the template
	maker      maker
	out        Written
}

// change holds the manifests that were applied and deleted at a time.
type change struct{ applied, deleted []any }

// Write makes a trace of the pods and owners of a record, from its beginning to its end in milliseconds since 1970. ReplicaSets of
// Deployments are part of these. Pods without an owner are objects of their own.
func Write(pods []record.Pod, objects []record.Object, from, to int64) (Written, error) {
	w := &writer{
		pods: pods, from: from, to: to, events: map[int64]*change{}, index: map[string]map[string]uint64{},
		lifecycles: map[ownerKey]map[uint64][]life{}, maker: maker{faults: faults{}, made: map[record.Pod]map[string]any{}},
	}
	owners, notes := record.Owners(pods, objects)
	if len(owners) == 0 {
		return w.out, errors.New("the record has no owners of pods, such as Deployments; older records and those of CSV traces have none")
	}
	there := map[string]bool{}
	for i := range owners {
		there[owners[i].String()] = true
	}
	of := map[int]bool{} // pods that the trace has through their owners
	for i := range owners {
		if o := &owners[i]; w.writes(o, there) {
			w.owner(o)
			for _, p := range o.Pods {
				of[p] = true
			}
		}
	}
	for i := range pods {
		switch p := &pods[i]; {
		case of[i]:
		case p.OwnerKind == "" && !p.Daemon:
			w.bare(p)
		default:
			w.maker.fault("pods are left out, because their owners are not in the record, or they are static pods", p.Namespace+"/"+p.Name)
		}
	}
	w.event(from)
	w.event(to) // SimKube's clock ends with the last event
	w.out.Notes = slices.Concat(notes, w.maker.notes(), w.maker.reader.Notes())
	w.out.Trace = w.encode()
	return w.out, nil
}

// writes reports whether an owner becomes an object of the trace.
func (w *writer) writes(o *record.Owner, there map[string]bool) bool {
	name := o.String()
	switch above := o.Last().Scale.Owner; {
	case o.Kind == record.KindAutoscaler:
		w.maker.fault("HorizontalPodAutoscalers are left out; the trace has the replicas that they set", name)
	case o.Kind == record.KindCronJob:
		w.maker.fault("CronJobs are left out; the trace has the Jobs that they made", name)
	case o.Kind == record.KindReplicaSet && above != "" && there[ownerName(above, o.Namespace)]:
	case len(o.Pods) == 0:
		w.maker.fault("owners are left out, because the record has no pod of theirs, and so no template", name)
	default:
		return true
	}
	return false
}

// seconds returns the second of a time within the record.
func (w *writer) seconds(ms int64) int64 { return max(ms, w.from) / 1000 }

func (w *writer) event(ms int64) *change {
	at := w.seconds(ms)
	if w.events[at] == nil {
		w.events[at] = &change{}
	}
	return w.events[at]
}

// owner writes an owner: its object at each change of what it asks for and of its template, and the lifecycles of its pods.
func (w *writer) owner(o *record.Owner) {
	w.out.Owners++
	kind := versionOf(o.Kind) + "." + o.Kind
	k := ownerKey{kind, o.Namespace + "/" + o.Name}
	templates := w.templates(o)
	times := map[int64]bool{}
	for _, s := range o.States {
		times[s.From] = true
	}
	for _, t := range templates {
		if t.at > o.States[0].From {
			times[t.at] = true
		}
	}
	last := uint64(0)
	var object any
	for _, at := range slices.Sorted(maps.Keys(times)) {
		s := &o.States[0]
		for i := range o.States {
			if o.States[i].From <= at {
				s = &o.States[i]
			}
		}
		if s.To != 0 && s.To <= at {
			continue // it is not there
		}
		t := templates[0]
		for _, later := range templates {
			if later.at <= at {
				t = later
			}
		}
		object = manifest(o, s.Scale, t.template)
		if hash := hashOf(object); hash != last {
			e := w.event(at)
			e.applied, last = append(e.applied, object), hash
			w.put(k, hash)
		}
	}
	if s := o.Last(); s.Gone && object != nil {
		e := w.event(s.To)
		e.deleted = append(e.deleted, object)
	}
	for _, i := range o.Pods {
		w.life(k, &w.pods[i])
	}
	for _, list := range w.lifecycles[k] {
		slices.SortStableFunc(list, func(a, b life) int { return cmp.Compare(a.start, b.start) })
	}
}

func (w *writer) put(k ownerKey, hash uint64) {
	if w.index[k.kind] == nil {
		w.index[k.kind] = map[string]uint64{}
	}
	w.index[k.kind][k.name] = hash
}

// dated is a template of pods from a time on.
type dated struct {
	at       int64
	template any
}

// templates returns the templates of an owner's pods, each since its first pod.
func (w *writer) templates(o *record.Owner) (out []dated) {
	seen := map[uint64]bool{}
	for _, i := range o.Pods {
		t := w.maker.template(&w.pods[i], o)
		if hash := hashOf(t); !seen[hash] {
			seen[hash] = true
			out = append(out, dated{w.pods[i].Arrived, t})
		}
	}
	return out
}

// bare writes a pod without an owner.
func (w *writer) bare(p *record.Pod) {
	k := ownerKey{"v1.Pod", p.Namespace + "/" + p.Name}
	shape := w.maker.pod(p)
	meta, _ := shape["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	meta["namespace"], meta["name"] = p.Namespace, p.Name
	object := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": shape["spec"]}
	e := w.event(p.Arrived)
	e.applied = append(e.applied, object)
	w.put(k, hashOf(object))
	if p.Ended != 0 {
		e := w.event(p.Ended)
		e.deleted = append(e.deleted, object)
	}
	w.life(k, p)
}

// life adds the lifecycle of a pod that ran.
func (w *writer) life(k ownerKey, p *record.Pod) {
	w.out.Pods++
	w.maker.lacks(p)
	if p.Bound == 0 {
		w.maker.fault("pods never ran, and have no lifecycle", p.Namespace+"/"+p.Name)
		return
	}
	l := life{start: w.seconds(p.Bound)}
	if p.Ended != 0 {
		l.end = max(w.seconds(p.Ended), l.start)
	}
	if w.lifecycles[k] == nil {
		w.lifecycles[k] = map[uint64][]life{}
	}
	hash := hashOf(w.maker.pod(p)["spec"])
	w.lifecycles[k][hash] = append(w.lifecycles[k][hash], l)
}

// hashOf returns a hash of a value. It is not the one that SimKube's own tracer computes.
func hashOf(x any) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(appendValue(nil, x)) // never fails
	return h.Sum64()
}

// fault counts something, and has its first.
type fault struct {
	n     int
	first string
}

// faults counts what one format has and the other lacks.
type faults map[string]fault

func (f faults) fault(what, name string) {
	x := f[what]
	x.first = cmp.Or(x.first, name)
	x.n++
	f[what] = x
}

func (f faults) notes() (out []string) {
	for _, what := range slices.Sorted(maps.Keys(f)) {
		out = append(out, fmt.Sprintf("%d %s (%.200q is the first)", f[what].n, what, f[what].first))
	}
	return out
}
