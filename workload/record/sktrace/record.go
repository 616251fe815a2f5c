package sktrace

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/workload/record"
	"gnnsched/workload/record/observe"
)

// Rows is a trace as the rows of a record.
type Rows struct {
	Pods     []record.Pod // by arrival
	Objects  []record.Object
	From, To int64    // the time of the trace, in milliseconds since 1970
	Notes    []string // what of the trace the rows lack, and what was assumed, for people
}

// maxPods bounds the pods of a trace: a few bytes may ask for any number of replicas.
const maxPods = 2_000_000

// Record returns the owners of a trace and their pods. If a trace has lifecycles of an owner's pods, these are its pods. Otherwise it has
// as many as it asks for: when they become fewer, the last ones end, and another template replaces all. No pod has a node.
func (t *Trace) Record() (Rows, error) { return t.record(maxPods) }

// record is Record with a largest number of pods.
func (t *Trace) record(most int) (Rows, error) {
	p := player{trace: t, most: most, owners: map[ownerKey]*owner{}, faults: faults{}}
	var now int64
	follower := observe.NewFollower(observe.Config{Out: &p, Now: func() int64 { return now }})
	for _, e := range t.events {
		now = max(e.at, 1) * 1000 // 0 means no time
		if p.rows.From == 0 {
			p.rows.From = now
		}
		p.rows.To = now
		for _, raw := range e.applied {
			if o := p.object(raw); o != nil {
				if o.isRow {
					follower.Object(o.row)
				}
				p.apply(o, now)
			}
		}
		for _, raw := range e.deleted {
			if o := p.object(raw); o != nil {
				if o.isRow {
					follower.ObjectGone(o.row)
				}
				p.remove(o, now)
			}
		}
	}
	p.lived()
	switch {
	case p.rows.From == 0:
		return p.rows, errors.New("the trace has no events")
	case p.full:
		return p.rows, fmt.Errorf("the trace asks for more than %d pods", most)
	}
	slices.SortStableFunc(p.rows.Pods, func(a, b record.Pod) int { return cmp.Compare(a.Arrived, b.Arrived) })
	p.rows.Notes = append(slices.Clone(t.notes), p.notes()...)
	return p.rows, nil
}

// player makes rows of a trace.
type player struct {
	trace  *Trace
	most   int // pods
	owners map[ownerKey]*owner
	rows   Rows
	made   int // pods, for their UIDs
	faults
	states map[stateKey]int // indices in rows.Objects
	full   bool             // the trace asks for more pods
}

type stateKey struct {
	kind, namespace, name string
	from                  int64
}

// Pod, Node and Object implement observe.Sink. The follower has objects only.
func (p *player) Pod(record.Pod) {}

// Node implements observe.Sink.
func (p *player) Node(record.Node) {}

// Object implements observe.Sink.
func (p *player) Object(o record.Object) {
	k := stateKey{o.Kind, o.Namespace, o.Name, o.From}
	if p.states == nil {
		p.states = map[stateKey]int{}
	}
	if i, again := p.states[k]; again {
		p.rows.Objects[i] = o
		return
	}
	p.states[k] = len(p.rows.Objects)
	p.rows.Objects = append(p.rows.Objects, o)
}

// object is an object of a trace.
type object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace string                  `json:"namespace"`
		Name      string                  `json:"name"`
		Owners    []metav1.OwnerReference `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		Replicas    *int32 `json:"replicas"`
		Parallelism *int32 `json:"parallelism"`
		Completions *int32 `json:"completions"`
	} `json:"spec"`

	raw   json.RawMessage
	row   record.Object
	isRow bool // the table objects holds its kind
}

func (o *object) key() ownerKey {
	return ownerKey{o.APIVersion + "." + o.Kind, o.Metadata.Namespace + "/" + o.Metadata.Name}
}

// object reads an object of an event; nil if it cannot be read.
func (p *player) object(b []byte) *object {
	raw, err := toJSON(b)
	o := &object{raw: raw}
	if err == nil {
		err = json.Unmarshal(raw, o)
	}
	if err == nil && (o.Kind == "" || o.Metadata.Name == "") {
		err = errors.New("it has no kind or no name")
	}
	if err == nil {
		o.row, o.isRow, err = observe.Row(raw)
	}
	if err != nil {
		p.fault("objects cannot be read, and are left out", o.Kind+" "+o.key().name+": "+err.Error())
		return nil
	}
	return o
}

// owner is an owner of pods in the trace.
type owner struct {
	key      ownerKey
	versions []template // by time
	live     []int      // its pods that have not ended, in rows.Pods
}

// template is a template of pods from a time on.
type template struct {
	at   int64
	text string
	pods corev1.PodTemplateSpec
	row  record.Pod // of such a pod; without a namespace before the first one
}

// usualTemplates are the JSON pointers to pod templates where the trace's config says nothing else.
var usualTemplates = map[string]string{
	"apps/v1.Deployment": "/spec/template", "apps/v1.ReplicaSet": "/spec/template", "apps/v1.StatefulSet": "/spec/template",
	"apps/v1.DaemonSet": "/spec/template", "batch/v1.Job": "/spec/template", "batch/v1.CronJob": "/spec/jobTemplate/spec/template",
	"v1.Pod": "",
}

// apply takes an object that was applied.
func (p *player) apply(o *object, now int64) {
	k := o.key()
	path, has := p.trace.templates[k.kind]
	if usual, known := usualTemplates[k.kind]; known && (!has || k.kind == "v1.Pod") {
		path, has = usual, true
	}
	if !has {
		if !o.isRow {
			p.fault("objects are of kinds that have no place in a record", k.kind+" "+k.name)
		}
		return
	}
	v := template{at: now}
	raw, err := at(o.raw, path)
	if err == nil {
		err = json.Unmarshal(raw, &v.pods)
	}
	if err != nil || len(v.pods.Spec.Containers) == 0 {
		p.fault("owners have no pod template that can be read, and so no pods", k.kind+" "+k.name)
		return
	}
	v.text = string(raw)
	own := p.owners[k]
	if own == nil {
		own = &owner{key: k}
		p.owners[k] = own
	}
	changed := len(own.versions) > 0 && own.versions[len(own.versions)-1].text != v.text
	if len(own.versions) == 0 || changed {
		own.versions = append(own.versions, v)
	}
	if len(p.trace.lifecycles[k]) > 0 {
		return // lived adds its pods
	}
	want, known := wanted(o)
	switch {
	case controlled(o):
		p.fault("owners belong to others, which have their pods", k.kind+" "+k.name)
		return
	case !known:
		p.fault("owners have neither replicas nor lifecycles of pods, and so no pods", k.kind+" "+k.name)
		return
	}
	if changed {
		p.scale(own, 0, now)
	}
	p.scale(own, want, now)
}

func controlled(o *object) bool {
	return slices.ContainsFunc(o.Metadata.Owners, func(r metav1.OwnerReference) bool { return r.Controller != nil && *r.Controller })
}

// wanted returns how many pods an object asks for.
func wanted(o *object) (n int, known bool) {
	one := func(x *int32) int {
		if x == nil {
			return 1
		}
		return int(max(*x, 0))
	}
	switch o.Kind {
	case "Pod":
		return 1, true
	case record.KindJob:
		n = one(o.Spec.Parallelism)
		if o.Spec.Completions != nil {
			n = min(n, one(o.Spec.Completions))
		}
		return n, true
	case record.KindDaemonSet, record.KindCronJob:
		return 0, false
	case record.KindDeployment, record.KindReplicaSet, record.KindStatefulSet:
		return one(o.Spec.Replicas), true
	}
	return one(o.Spec.Replicas), o.Spec.Replicas != nil
}

// remove takes an object that was deleted.
func (p *player) remove(o *object, now int64) {
	if own := p.owners[o.key()]; own != nil {
		p.scale(own, 0, now)
	}
}

// scale gives an owner a number of pods.
func (p *player) scale(own *owner, want int, now int64) {
	for len(own.live) > want {
		last := len(own.live) - 1
		row := &p.rows.Pods[own.live[last]]
		row.Ended, row.End = max(now, row.Arrived), record.Deleted
		own.live = own.live[:last]
	}
	if p.full = p.full || want-len(own.live) > p.most-len(p.rows.Pods); p.full {
		return
	}
	for len(own.live) < want {
		if !p.pod(own, &own.versions[len(own.versions)-1], now) {
			return
		}
		own.live = append(own.live, len(p.rows.Pods)-1)
	}
}

// pod adds a pod of an owner. It returns false if no cluster has such a pod.
func (p *player) pod(own *owner, v *template, arrived int64) bool {
	p.made++
	space, name, _ := strings.Cut(own.key.name, "/")
	version, kind := own.key.kind, ""
	if i := strings.LastIndexByte(version, '.'); i >= 0 {
		version, kind = version[:i], version[i+1:]
	}
	if v.row.Namespace == "" {
		pod := &corev1.Pod{ObjectMeta: v.pods.ObjectMeta, Spec: v.pods.Spec}
		pod.Namespace, pod.Name, pod.CreationTimestamp = cmp.Or(space, "default"), name, metav1.NewTime(time.UnixMilli(arrived))
		pod.Spec.NodeName, pod.Spec.SchedulingGates = "", nil
		if kind != "Pod" {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, Controller: new(true)}}
		}
		if err := observe.BoundPod(pod); err != nil {
			p.fault("templates have amounts that no cluster has; the record bounds them", own.key.kind+" "+own.key.name+": "+err.Error())
		}
		v.row = observe.Pod(pod)
	}
	row := v.row
	row.UID, row.Arrived = fmt.Sprintf("sktrace-%d", p.made), arrived
	if kind != "Pod" {
		row.Name = fmt.Sprintf("%s-%d", name, p.made)
	}
	if err := record.Check(&row); err != nil {
		p.fault("pods are left out, because no cluster has such pods", own.key.kind+" "+own.key.name+": "+err.Error())
		return false
	}
	p.rows.Pods = append(p.rows.Pods, row)
	return true
}

// lived adds the pods of lifecycles. Which template a pod had is not known, so it has the one of the time.
func (p *player) lived() {
	for _, k := range slices.SortedFunc(maps.Keys(p.trace.lifecycles), byName) {
		own := p.owners[k]
		if own == nil {
			p.fault("owners have lifecycles of pods, and no object with a pod template", k.kind+" "+k.name)
			continue
		}
		for _, l := range p.trace.lifecycles[k] {
			if l.start == 0 {
				p.fault("pods never ran, and are left out", k.kind+" "+k.name)
				continue
			}
			v := &own.versions[0]
			for i := range own.versions {
				if own.versions[i].at <= l.start*1000 {
					v = &own.versions[i]
				}
			}
			p.full = p.full || len(p.rows.Pods) >= p.most
			if p.full || !p.pod(own, v, l.start*1000) {
				break
			}
			row := &p.rows.Pods[len(p.rows.Pods)-1]
			p.rows.From = min(p.rows.From, row.Arrived)
			if l.end > 0 {
				row.Ended, row.End = l.end*1000, record.Deleted
				if row.OwnerKind == record.KindJob || row.OwnerKind == record.KindCronJob {
					row.End = record.Succeeded
				}
				p.rows.To = max(p.rows.To, row.Ended)
			}
		}
	}
}

// at returns the value at a JSON pointer.
func at(raw json.RawMessage, pointer string) (json.RawMessage, error) {
	for word := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, err
		}
		next, has := m[strings.NewReplacer("~1", "/", "~0", "~").Replace(word)]
		if !has {
			return nil, fmt.Errorf("it has no %s", pointer)
		}
		raw = next
	}
	return raw, nil
}
