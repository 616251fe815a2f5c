package live

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/each"
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
	names   []string // of the offending pods and claims; empty if it is about a program
	detail  string
	history []string // of the first pod
}

// String names the violation with its pods and their history.
func (v violation) String() string {
	s := v.kind + ": "
	if len(v.names) > 0 {
		s += v.names[0] + ": "
	}
	s += v.detail
	if len(v.names) > 1 {
		s += fmt.Sprintf("; with %v", v.names[1:])
	}
	return strings.Join(append([]string{s}, v.history...), "\n    ")
}

// book is the independent count: the states of all pods and claims in the order in which etcd had them.
type book struct {
	capacity map[string]machine // of the nodes by name
	now      func() time.Time

	mu         sync.Mutex
	pods       map[string]*record // that exist, or that the soak creates, by name
	claims     map[string]*claimRecord
	rivals     map[string]bool // the rival's pods that exist or existed
	totals     totals
	violations []violation
	known      map[string]bool // violations and collisions by kind and first name, to count each once
}

// totals are counts of pods.
type totals struct {
	created       int // seen in etcd
	bound         int
	unschedulable int // pods that were reported as unschedulable at least once
	deleted       int // by the soak
	evicted       map[string]int
	states        int            // states of pods, deletions included, that etcd's history held
	allocated     int            // claims
	collisions    map[string]int // collisions of pods of both schedulers over a resource, by kind
	forgotten     int            // pods whose status lacked one of several claims when they were judged
}

// holder is a pod or a claim, and what it holds of its node's devices.
type holder struct {
	name, node string
	devices    cluster.DeviceSet
	milli      int64     // thousandths of each device
	placed     time.Time // when it was bound or allocated
	rival      bool      // the rival placed it
	collided   *holder   // with which it collided last
	left       time.Time // when it left etcd
}

// record is one pod.
type record struct {
	holder
	uid           types.UID
	requests      cluster.Resources
	claims        []string
	ours          bool // created by the soak, not by a ReplicaSet
	seen          bool // etcd had it
	deleting      bool // the soak wants it gone
	ended         bool
	tooLarge      bool   // it fits on no node
	evicted       string // reason of the condition DisruptionTarget
	unschedulable bool   // a scheduler reported that it fits nowhere
	forgotten     bool   // its status has some of its claims and lacks others
	history       []string
}

func newBook(capacity map[string]machine) *book {
	return &book{
		capacity: capacity, now: time.Now, pods: map[string]*record{}, claims: map[string]*claimRecord{}, rivals: map[string]bool{},
		known: map[string]bool{}, totals: totals{evicted: map[string]int{}, collisions: map[string]int{}},
	}
}

// record returns the record of a pod, which it makes if need be. The caller holds the lock.
func (b *book) record(name string) *record {
	r := b.pods[name]
	if r == nil {
		r = &record{holder: holder{name: name}}
		b.pods[name] = r
	}
	return r
}

// expect notes that the soak creates a pod.
func (b *book) expect(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.record(name).ours = true
}

// deleting notes that the soak is about to delete a pod, and reports false if it was so before or the pod is gone.
func (b *book) deleting(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.pods[name]
	if r == nil || r.deleting {
		return false
	}
	r.deleting = true
	b.totals.deleted++
	return true
}

// see counts a state of a pod. revision is etcd's.
func (b *book) see(revision int64, p *corev1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.states++
	r := b.record(p.Name)
	if !r.seen {
		r.seen, r.uid, r.tooLarge = true, p.UID, p.Labels[tooLargeLabel] != ""
		if r.rival = p.Spec.SchedulerName == rival; r.rival {
			b.rivals[p.Name] = true
		}
		b.totals.created++
	}
	if r.uid != p.UID {
		b.report(r.violation(miscounted, "its UID changed from %s to %s", r.uid, p.UID))
	}
	has := len(kube.ClaimNames(p))
	r.forgotten = has > 0 && has < len(p.Spec.ResourceClaims)
	b.conditions(r, revision, p)
	b.place(r, revision, p)
	if kube.Finished(p) && !r.ended {
		r.ended = true // it uses nothing any more
		r.note(revision, "ended: %s", p.Status.Phase)
	}
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
		r.milli = r.requests.GPUMilli + cluster.DeviceMilli*min(r.requests.GPU, 1)
		r.placed = b.now()
		r.note(revision, "bound to %s by %s, devices %q", node, p.Spec.SchedulerName, kube.FormatDevices(r.devices))
		b.totals.bound++
		b.check(r)
		b.checkClaims(r, p)
	case node != r.node:
		r.note(revision, "bound to %q", node)
		b.report(r.violation(boundTwice, "first to %s, then to %q", r.node, node))
		if r.node = node; node != "" {
			b.check(r)
		}
	default:
		r.note(revision, "devices %q", kube.FormatDevices(running.Devices))
		b.report(r.violation(deviceTwice, "its devices changed while it ran"))
		r.devices = running.Devices
		b.check(r)
	}
}

// check compares the use of a node by its pods with its capacity, after r came to it.
func (b *book) check(r *record) {
	has, known := b.capacity[r.node]
	if !known {
		b.report(r.violation(overcommitted, "%s is no node for pods", r.node))
		return
	}
	var sum cluster.Resources
	var all []*holder
	for _, o := range b.pods {
		if o.node == r.node && !o.ended {
			sum = sum.Plus(o.requests)
			all = append(all, &o.holder)
		}
	}
	// A collision may have left too much of another resource on the node.
	gpus := r.milli > 0 && sum.TotalGPUMilli() > has.TotalGPUMilli()
	if sum.MilliCPU > has.MilliCPU || sum.Memory > has.Memory || sum.Pods > has.Pods || gpus {
		b.tooMuch(r.violation(overcommitted, "pods on %s request %+v of %+v", r.node, sum, has.Resources), &r.holder, all)
	}
	if r.milli == 0 {
		return
	}
	if want := max(int(r.requests.GPU), 1); r.devices.Len() != want || r.devices>>has.GPU != 0 {
		b.report(r.violation(noDevice, "it has devices %q of %d on %s and needs %d", kube.FormatDevices(r.devices), has.GPU, r.node, want))
	}
	b.checkUse(&r.holder, r.history)
}

// checkUse reports each of h's devices of which pods and claims take more than all.
func (b *book) checkUse(h *holder, history []string) {
	for i := range cluster.MaxDevices {
		if !h.devices.Has(i) {
			continue
		}
		var all []*holder
		for _, r := range b.pods {
			if r.node == h.node && !r.ended && r.devices.Has(i) {
				all = append(all, &r.holder)
			}
		}
		for _, c := range b.claims {
			if c.node == h.node && c.devices.Has(i) {
				all = append(all, &c.holder)
			}
		}
		milli := each.Sum(all, func(o *holder) int64 { return o.milli })
		if milli > cluster.DeviceMilli {
			v := violation{kind: deviceTwice, names: []string{h.name}, history: history}
			v.detail = fmt.Sprintf("%d thousandths of device %d on %s", milli, i, h.node)
			b.tooMuch(v, h, all)
		}
	}
}

// meanwhile is the time for which a scheduler may not know another one's placements: its watch is late, or starts again.
const meanwhile = 10 * time.Second

// tooMuch reports that pods and claims, of which last came last, together take too much. It only counts a collision if the rival placed
// the last one and the others' leader another one, or the other way round: neither could know of the other. GPUShares counts one of the
// pods that collided over a device on other devices. So pods that come to the device while both are there belong to the collision.
func (b *book) tooMuch(v violation, last *holder, all []*holder) {
	slices.SortFunc(all, func(a, b *holder) int { return strings.Compare(a.name, b.name) })
	for _, o := range all {
		if o == last {
			continue
		}
		v.names = append(v.names, o.name)
		before := last.placed.Sub(o.placed).Abs()
		switch {
		case o.rival != last.rival && before < meanwhile, v.kind == deviceTwice && b.there(o.collided):
			if key := "collision " + v.kind + last.name; !b.known[key] {
				b.known[key] = true
				b.totals.collisions[v.kind]++
			}
			if o.rival != last.rival {
				last.collided, o.collided = o, last
			}
			return
		case o.rival != last.rival:
			v.detail += fmt.Sprintf("; the other scheduler placed %s %v before", o.name, before.Round(time.Second))
		}
	}
	b.report(v)
}

// there reports whether a pod or a claim that has collided exists, as far as a scheduler may know.
func (b *book) there(h *holder) bool {
	return h != nil && (h.left.IsZero() || b.now().Sub(h.left) < meanwhile)
}

// gone counts that a pod left etcd.
func (b *book) gone(revision int64, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.states++
	r := b.pods[name]
	if r == nil {
		b.report(violation{kind: miscounted, names: []string{name}, detail: "it left etcd without ever having been there"})
		return
	}
	delete(b.pods, name)
	r.left, r.collided = b.now(), nil
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
	if len(v.names) > 0 {
		key := v.kind + " " + v.names[0]
		if b.known[key] {
			return
		}
		b.known[key] = true
	}
	v.history = slices.Clone(v.history)
	b.violations = append(b.violations, v)
}

// violation returns a violation by the pod.
func (r *record) violation(kind, format string, a ...any) violation {
	return violation{kind: kind, names: []string{r.name}, detail: fmt.Sprintf(format, a...), history: r.history}
}

// add adds violations that are not about a state of a pod.
func (b *book) add(all ...violation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, v := range all {
		b.report(v)
	}
}

// about returns a violation that is about no single pod.
func about(kind, format string, a ...any) violation {
	return violation{kind: kind, detail: fmt.Sprintf(format, a...)}
}

// maxHistory bounds the history of one pod.
const maxHistory = 20

func (r *record) note(revision int64, format string, a ...any) {
	if len(r.history) < maxHistory {
		r.history = append(r.history, fmt.Sprintf("%s revision %d: %s", time.Now().Format("15:04:05.000"), revision, fmt.Sprintf(format, a...)))
	}
}

// census is the state of the book at one time.
type census struct {
	totals
	live, waiting int // pods
	violations    []violation
}

func (b *book) census() census {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := census{totals: b.totals, live: len(b.pods), violations: slices.Clone(b.violations)}
	c.evicted, c.collisions = maps.Clone(c.evicted), maps.Clone(c.collisions)
	for _, r := range b.pods {
		if r.waits() {
			c.waiting++
		}
	}
	return c
}

// waits reports whether a pod has no node and is to get one.
func (r *record) waits() bool { return r.node == "" && !r.deleting }

// names returns the names of the pods for which is returns true, in order.
func (b *book) names(is func(*record) bool) (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, r := range b.pods {
		if is(r) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// settled reports whether every pod that waits for a node fits on none and was reported as unschedulable.
func (b *book) settled() bool {
	return len(b.names(func(r *record) bool { return r.waits() && !(r.tooLarge && r.unschedulable) })) == 0
}

// judgeUnbound reports the lost pods, once the cluster has only pods without a node.
func (b *book) judgeUnbound() {
	waiting := b.names((*record).waits)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range waiting {
		switch r := b.pods[name]; {
		case r == nil || r.seen && r.tooLarge && r.unschedulable:
		case !r.seen:
			b.report(r.violation(lost, "the API server accepted it, but etcd never had it"))
		case r.tooLarge:
			b.report(r.violation(lost, "it fits nowhere, and no scheduler reported that"))
		case r.forgotten: // see checkClaims; no scheduler can place it
			b.totals.forgotten++
		default:
			b.report(r.violation(lost, "it has no node although the cluster is empty"))
		}
	}
}

// leftovers reports what is there although nothing should be: pods of the API server's list, pods and claims by etcd's history.
func (b *book) leftovers(list []corev1.Pod) (out []violation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	listed := map[string]bool{}
	for _, p := range list {
		listed[p.Name] = true
		detail := "the API server accepted its deletion, and it still exists"
		if r := b.pods[p.Name]; r == nil || !r.seen {
			detail = "the API server lists it, but by etcd's history it does not exist"
		}
		out = append(out, violation{kind: miscounted, names: []string{p.Name}, detail: detail})
	}
	for _, name := range slices.Sorted(maps.Keys(b.pods)) {
		if !listed[name] {
			out = append(out, b.pods[name].violation(lost, "the API server accepted it and does not list it"))
		}
	}
	if claims := slices.Sorted(maps.Keys(b.claims)); len(list) == 0 && len(claims) > 0 {
		out = append(out, about(claimLeft, "no pod exists, and these claims do: %v", claims))
	}
	return out
}

// claimPrefix distinguishes names of claims from names of pods.
const claimPrefix = "claim "

// claimRecord is one claim. Its name as a holder has claimPrefix.
type claimRecord struct {
	holder          // without an allocation, it has no node
	pods   []string // for which it is reserved
}

// seeClaim counts a state of a claim. revision is etcd's.
func (b *book) seeClaim(revision int64, c *resourceapi.ResourceClaim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.claims[c.Name]
	if was == nil {
		was = &claimRecord{holder: holder{name: claimPrefix + c.Name}}
		b.claims[c.Name] = was
	}
	was.pods = was.pods[:0]
	for _, r := range c.Status.ReservedFor {
		was.pods = append(was.pods, r.Name)
	}
	if c.Status.Allocation == nil {
		b.freed(revision, c.Name, was)
		was.node, was.devices, was.milli = "", 0, 0
		return
	}
	v := violation{kind: noDevice, names: []string{was.name}}
	now, err := kube.ReadClaimed(c)
	held := kube.Claimed{Pool: was.node, Devices: was.devices, Milli: was.milli}
	switch {
	case err != nil:
		v.detail = err.Error()
		b.report(v)
		return
	case now == held:
		return
	case was.node != "":
		b.report(violation{kind: deviceTwice, names: v.names, detail: fmt.Sprintf("its allocation changed from %+v to %+v", held, now)})
	default:
		b.totals.allocated++
	}
	was.node, was.devices, was.milli, was.placed = now.Pool, now.Devices, now.Milli, b.now()
	was.rival = slices.ContainsFunc(was.pods, func(pod string) bool { return b.rivals[pod] })
	if v.detail = b.wrong(c, now); v.detail != "" {
		b.report(v)
	}
	b.checkUse(&was.holder, nil)
}

// wrong describes how an allocation falls short of its claim's request; empty if it does not.
func (b *book) wrong(c *resourceapi.ResourceClaim, held kube.Claimed) string {
	devices, milli := int64(0), int64(cluster.DeviceMilli)
	for _, r := range c.Spec.Devices.Requests {
		if r.Exactly == nil {
			return "it has alternatives, which no pod of the soak asks for"
		}
		devices += r.Exactly.Count
		if r.Exactly.Capacity != nil {
			q := r.Exactly.Capacity.Requests[kube.GPUSharesCapacity]
			milli = q.Value()
		}
	}
	if has := b.capacity[held.Pool].slices; int64(held.Devices.Len()) != devices || held.Milli != milli || held.Devices>>has != 0 {
		return fmt.Sprintf("it has devices %q of %d on %s, %d thousandths of each, and asks for %d and %d thousandths",
			kube.FormatDevices(held.Devices), has, held.Pool, held.Milli, devices, milli)
	}
	return ""
}

// goneClaim counts that a claim left etcd.
func (b *book) goneClaim(revision int64, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.claims[name]; c != nil {
		b.freed(revision, name, c)
		delete(b.claims, name)
		c.left, c.collided = b.now(), nil
	}
}

// freed reports the pods that run with the devices of a claim which has lost them.
func (b *book) freed(revision int64, name string, c *claimRecord) {
	for _, r := range b.pods {
		if r.node == c.node && !r.ended && slices.Contains(r.claims, name) {
			r.note(revision, "claim %s has no devices any more", name)
			b.report(r.violation(noDevice, "claim %s lost its devices while it ran", name))
		}
	}
}

// checkClaims checks that all claims of a pod which was bound are allocated to it on its node.
func (b *book) checkClaims(r *record, p *corev1.Pod) {
	r.claims = kube.ClaimNames(p)
	want := len(p.Spec.ResourceClaims)
	if p.Status.ExtendedResourceClaimStatus != nil {
		want++
	}
	if r.forgotten { // by Kubernetes 1.36.3: kubernetes#138407
		b.totals.forgotten++
		r.claims = r.claims[:0]
		for _, name := range slices.Sorted(maps.Keys(b.claims)) {
			if slices.Contains(b.claims[name].pods, r.name) {
				r.claims = append(r.claims, name)
			}
		}
	}
	if len(r.claims) != want {
		b.report(r.violation(noDevice, "it asks by %d claims and has %v", want, r.claims))
	}
	for _, name := range r.claims {
		c := b.claims[name]
		switch {
		case c == nil:
			b.report(r.violation(claimElse, "claim %s does not exist", name))
		case c.node != r.node || !slices.Contains(c.pods, r.name):
			b.report(r.violation(claimElse, "claim %s is allocated on %q, for %v, and the pod is on %s", name, c.node, c.pods, r.node))
		default:
			r.note(0, "claim %s: devices %q, %d thousandths", name, kube.FormatDevices(c.devices), c.milli)
		}
	}
}
