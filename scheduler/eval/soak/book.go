package soak

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// Kinds of violations.
const (
	lost          = "lost"
	vanished      = "vanished"
	boundTwice    = "bound twice"
	deviceTwice   = "device twice"
	noDevice      = "no device"
	claimElse     = "claim elsewhere" // of a bound pod, not allocated to it on its node
	claimLeft     = "claim left"
	overcommitted = "node overcommitted"
	miscounted    = "miscounted" // etcd's history and the API server disagree
	ended         = "ended by itself"
	memoryGrew    = "memory grew"
	shareStopped  = "share stopped"
	shadowFailed  = "shadow failed"
)

// violationKinds are all kinds.
var violationKinds = []string{
	lost, vanished, boundTwice, deviceTwice, noDevice, claimElse, claimLeft, overcommitted, miscounted, ended, memoryGrew, shareStopped,
	shadowFailed,
}

// violation is something that must not happen.
type violation struct {
	kind    string
	pods    []string // names of the offending pods; empty if it is about a program
	detail  string
	history []string // of the first pod
}

// book is the independent count: the states of all pods in the order in which etcd had them.
type book struct {
	capacity map[string]machine // of the nodes by name
	now      func() time.Time

	mu         sync.Mutex
	claims     map[string]*claimRecord       // that exist, by name
	live       map[string]*record            // pods that exist, or that the API server accepted, by name
	rivals     map[string]bool               // the rival's pods that exist or existed
	on         map[string]map[string]*record // bound pods that have not ended, by node and name
	gone       map[string]bool               // pods that left etcd before the API server answered that it accepted them
	collided   map[string]string             // by pod or claim, the one with which it collided last; see tooMuch
	parted     map[string]time.Time          // when pods and claims that had collided left
	totals     totals
	violations []violation
	known      map[string]bool // violations by kind and pods, to report each once
}

// totals are counts of pods.
type totals struct {
	created       int // seen in etcd
	accepted      int // by the API server, as its answers said
	bound         int
	unschedulable int // pods that were reported as unschedulable at least once
	deleted       int // by the soak
	evicted       map[string]int
	states        int            // states of pods, deletions included, that etcd's history held
	allocated     int            // claims
	collisions    map[string]int // collisions of pods of both schedulers over a resource, by kind
	forgotten     int            // pods whose status lacked one of several claims when they were judged
}

// record is one pod.
type record struct {
	name, node    string
	uid           types.UID
	requests      cluster.Resources
	devices       cluster.DeviceSet
	claims        []string
	placed        time.Time // when it was bound
	seen          bool      // etcd had it
	accepted      bool      // the API server said so
	deleting      bool      // the soak wants it gone
	tooLarge      bool      // it fits on no node
	evicted       string    // reason of the condition DisruptionTarget
	unschedulable bool      // a scheduler reported that it fits nowhere
	forgotten     bool      // its status has some of its claims and lacks others
	phase         corev1.PodPhase
	history       []string
}

func newBook(capacity map[string]machine) *book {
	return &book{
		capacity: capacity, now: time.Now, collided: map[string]string{}, parted: map[string]time.Time{},
		claims: map[string]*claimRecord{}, live: map[string]*record{}, rivals: map[string]bool{}, on: map[string]map[string]*record{},
		gone: map[string]bool{}, known: map[string]bool{}, totals: totals{evicted: map[string]int{}, collisions: map[string]int{}},
	}
}

// record returns the record of a pod, which it makes if need be. The caller holds the lock.
func (b *book) record(name string) *record {
	r := b.live[name]
	if r == nil {
		r = &record{name: name}
		b.live[name] = r
	}
	return r
}

// accepted notes that the API server answered that it created the pod.
func (b *book) accepted(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.accepted++
	if b.gone[name] {
		delete(b.gone, name)
		return
	}
	b.record(name).accepted = true
}

// deleting notes that the soak is about to delete the pod.
func (b *book) deleting(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.live[name]; r != nil && !r.deleting {
		r.deleting = true
		b.totals.deleted++
	}
}

// see counts a state of a pod. revision is etcd's.
func (b *book) see(revision int64, p *corev1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.states++
	r := b.record(p.Name)
	if !r.seen {
		r.seen, r.uid, r.tooLarge = true, p.UID, p.Labels[tooLargeLabel] != ""
		if p.Spec.SchedulerName == rival {
			b.rivals[p.Name] = true
		}
		b.totals.created++
	}
	if r.uid != p.UID {
		b.report(violation{kind: miscounted, pods: []string{r.name}, detail: fmt.Sprintf("its UID changed from %s to %s", r.uid, p.UID)})
	}
	has := len(kube.ClaimNames(p))
	r.forgotten = has > 0 && has < len(p.Spec.ResourceClaims)
	b.conditions(r, revision, p)
	b.place(r, revision, p)
	if p.Status.Phase != r.phase && (p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed) {
		r.note(revision, "ended: %s", p.Status.Phase)
		delete(b.on[r.node], r.name) // it uses nothing any more
	}
	r.phase = p.Status.Phase
}

// conditions notes why a pod waits and why it is evicted.
func (b *book) conditions(r *record, revision int64, p *corev1.Pod) {
	for _, c := range p.Status.Conditions {
		switch {
		case c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable && !r.unschedulable:
			r.unschedulable = true
			b.totals.unschedulable++
			r.note(revision, "unschedulable: %s", c.Message)
		case c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && r.evicted == "":
			r.evicted = c.Reason
			r.note(revision, "evicted: %s", c.Reason)
		}
	}
}

// place notes the node and the devices of a pod.
func (b *book) place(r *record, revision int64, p *corev1.Pod) {
	running, err := kube.Running(p)
	if err != nil {
		b.report(r.violation(miscounted, "%v", err))
	}
	if p.Status.ExtendedResourceClaimStatus != nil {
		running.Requests.GPU = 0 // a claim has it
	}
	switch node := p.Spec.NodeName; {
	case node == r.node && (node == "" || running.Devices == r.devices):
	case r.node == "":
		r.node, r.requests, r.devices = node, running.Requests, running.Devices
		r.placed = b.now()
		r.note(revision, "bound to %s by %s, devices %q", node, p.Spec.SchedulerName, kube.FormatDevices(r.devices))
		b.totals.bound++
		b.occupy(r)
		b.checkClaims(r, p)
	case node != r.node:
		r.note(revision, "bound to %q", node)
		b.report(r.violation(boundTwice, "first to %s, then to %q", r.node, node))
		b.leave(r)
		r.node = node
		b.occupy(r)
	default:
		r.note(revision, "devices %q", kube.FormatDevices(running.Devices))
		b.report(r.violation(deviceTwice, "its devices changed while it ran"))
		r.devices = running.Devices
		b.check(r)
	}
}

// occupy puts a pod on its node.
func (b *book) occupy(r *record) {
	if r.node == "" {
		return
	}
	if b.on[r.node] == nil {
		b.on[r.node] = map[string]*record{}
	}
	b.on[r.node][r.name] = r
	b.check(r)
}

func (b *book) leave(r *record) { delete(b.on[r.node], r.name) }

// check compares the use of a node by its pods with its capacity, after r came to it.
func (b *book) check(r *record) {
	has, known := b.capacity[r.node]
	if !known {
		b.report(r.violation(overcommitted, "%s is no node for pods", r.node))
		return
	}
	var sum cluster.Resources
	for _, o := range b.on[r.node] {
		sum = sum.Plus(o.requests)
	}
	// A collision may have left too much of another resource on the node.
	gpus := r.requests.TotalGPUMilli() > 0 && sum.TotalGPUMilli() > has.TotalGPUMilli()
	if sum.MilliCPU > has.MilliCPU || sum.Memory > has.Memory || sum.Pods > has.Pods || gpus {
		b.tooMuch(violation{
			kind: overcommitted, pods: append([]string{r.name}, others(slices.Collect(maps.Keys(b.on[r.node])), r.name)...),
			detail: fmt.Sprintf("pods on %s request %+v of %+v", r.node, sum, has.Resources), history: r.history,
		})
	}
	if r.requests.TotalGPUMilli() > 0 {
		b.checkDevices(r, int(has.GPU))
	}
}

// checkDevices checks r's devices against the other pods' devices on its node, which has the given number of devices.
func (b *book) checkDevices(r *record, devices int) {
	want := max(int(r.requests.GPU), 1)
	if r.devices.Len() != want || r.devices>>devices != 0 {
		b.report(r.violation(noDevice, "it has devices %q of %d on %s and needs %d", kube.FormatDevices(r.devices), devices, r.node, want))
	}
	b.checkUse(r.node, r.devices, violation{kind: deviceTwice, pods: []string{r.name}, history: r.history})
}

// checkUse reports v for each of the devices of a node if pods and claims take more than all of it.
func (b *book) checkUse(node string, devices cluster.DeviceSet, v violation) {
	for i := range cluster.MaxDevices {
		if !devices.Has(i) {
			continue
		}
		milli, with := int64(0), []string(nil)
		for name, o := range b.on[node] {
			if o.devices.Has(i) {
				milli += o.requests.GPUMilli + cluster.DeviceMilli*min(o.requests.GPU, 1)
				with = append(with, name)
			}
		}
		for name, c := range b.claims {
			if c.held.Pool == node && c.held.Devices.Has(i) {
				milli += c.held.Milli
				with = append(with, claimPrefix+name)
			}
		}
		if milli > cluster.DeviceMilli {
			v.pods = append(v.pods[:1:1], others(with, v.pods[0])...)
			v.detail = fmt.Sprintf("%d thousandths of device %d on %s", milli, i, node)
			b.tooMuch(v)
		}
	}
}

// others returns the names except one, in order.
func others(names []string, except string) []string {
	return slices.DeleteFunc(slices.Sorted(slices.Values(names)), func(name string) bool { return name == except })
}

// left counts that a pod left etcd.
func (b *book) left(revision int64, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.states++
	r := b.live[name]
	if r == nil {
		b.report(violation{kind: miscounted, pods: []string{name}, detail: "it left etcd without ever having been there"})
		return
	}
	b.leave(r)
	delete(b.live, name)
	b.part(name)
	if !r.accepted {
		b.gone[name] = true
	}
	switch {
	case r.evicted != "":
		b.totals.evicted[r.evicted]++
	case !r.deleting:
		r.note(revision, "gone")
		b.report(r.violation(vanished, "nobody deleted it and nothing evicted it"))
	}
}

// report adds a violation unless it is there already. The caller holds the lock.
func (b *book) report(v violation) {
	key := v.kind + strings.Join(v.pods, " ")
	if len(v.pods) > 0 {
		key = v.kind + " " + v.pods[0]
	}
	if len(v.pods) > 0 && b.known[key] {
		return
	}
	b.known[key] = true
	v.history = slices.Clone(v.history)
	b.violations = append(b.violations, v)
}

// violation returns a violation by the pod.
func (r *record) violation(kind, format string, a ...any) violation {
	return violation{kind: kind, pods: []string{r.name}, detail: fmt.Sprintf(format, a...), history: r.history}
}

// add adds a violation that is not about a state of a pod.
func (b *book) add(v violation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.report(v)
}

// maxHistory bounds the history of one pod.
const maxHistory = 20

func (r *record) note(revision int64, format string, a ...any) {
	if len(r.history) < maxHistory {
		r.history = append(r.history, fmt.Sprintf("%s revision %d: %s", time.Now().Format("15:04:05.000"), revision, fmt.Sprintf(format, a...)))
	}
}
