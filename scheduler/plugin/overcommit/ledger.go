package overcommit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/clock"

	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/metric"
	"gnnsched/internal/watched"
)

// holder is a pod that has a node, or is announced for one.
type holder struct {
	name    string
	by      string // its scheduler
	node    string
	bound   bool
	at      int64 // the resource version with which it was first seen to have the node
	newest  int64 // the last one
	since   time.Time
	amounts kube.Quantities
}

// flight is a pod of this scheduler that has a node in its cache, and is not yet seen to be bound.
type flight struct {
	uid     types.UID
	node    string
	number  int                // of the flights before
	known   map[types.UID]bool // pods of other schedulers that counted when the node was chosen
	told    bool               // it is announced, or soon will be
	amounts kube.Quantities
}

const (
	// recent is how long after a pod of another scheduler was pending or got a node the pods of this one are announced.
	recent = time.Minute
	// fresh is how long an announcement counts. Whoever announced the pod looks again before it binds.
	fresh = 10 * time.Second
)

// ledger follows the pods of all schedulers. Its methods may be called from several goroutines.
type ledger struct {
	own   map[string]bool // scheduler names of this process
	nodes corelisters.NodeLister
	clock clock.PassiveClock
	log   klog.Logger

	mu      sync.Mutex
	pods    map[types.UID]*holder
	on      map[string]map[types.UID]*holder // by node
	waiting watched.Waits
	flights map[types.UID]*flight
	number  int
	foreign time.Time // when a pod of another scheduler was last pending or got a node
}

func newLedger(own map[string]bool, nodes corelisters.NodeLister, c clock.PassiveClock, log klog.Logger) *ledger {
	return &ledger{
		own: own, nodes: nodes, clock: c, log: log, pods: map[types.UID]*holder{}, on: map[string]map[types.UID]*holder{},
		waiting: watched.Waits{}, flights: map[types.UID]*flight{},
	}
}

// handler returns what has to hear of the pods.
func (l *ledger) handler() cache.ResourceEventHandler {
	return watched.Handler(func(was, is *v1.Pod, listed bool) {
		if was != nil && (is == nil || is.UID != was.UID) {
			l.drop(was.UID)
		}
		if is != nil {
			l.set(is, listed)
		}
	})
}

// set notes a pod. listed says that it was there when the ledger began.
func (l *ledger) set(p *v1.Pod, listed bool) {
	if kube.Finished(p) {
		l.drop(p.UID)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h := &holder{
		name: p.Namespace + "/" + p.Name, by: p.Spec.SchedulerName, node: p.Spec.NodeName, bound: p.Spec.NodeName != "",
		at: watched.Version(p), newest: watched.Version(p),
		since: l.clock.Now(), amounts: kube.QuantitiesOf(p),
	}
	if !h.bound {
		h.node = p.Status.NominatedNodeName
	}
	old := l.pods[p.UID]
	if old != nil && old.node == h.node {
		h.at, h.since = old.at, old.since
	}
	l.remove(p.UID)
	l.pods[p.UID] = h
	if h.node != "" {
		if l.on[h.node] == nil {
			l.on[h.node] = map[types.UID]*holder{}
		}
		l.on[h.node][p.UID] = h
	}
	if h.bound {
		delete(l.flights, p.UID)
	}
	came := h.bound && !listed && (old == nil || !old.bound)
	if !l.own[h.by] && (!h.bound || came) {
		l.foreign = l.clock.Now()
	}
	l.waiting.Seen(p.UID, h.newest)
	if came {
		l.count(h)
	}
}

// count counts a pod that was bound beyond its node's room. The caller holds the lock.
func (l *ledger) count(h *holder) {
	sum := kube.Quantities{}
	for _, o := range l.on[h.node] {
		if o.bound {
			sum.Add(o.amounts, 1)
		}
	}
	if name := l.short(h.node, sum, h.amounts); name != "" {
		overcommits.Inc()
		l.log.Info("A pod was bound to a node without room for it", "pod", h.name, "node", h.node, "scheduler", h.by, "resource", name,
			"requested", sum[name], "thisScheduler", l.own[h.by])
	}
}

// short returns a resource in asked whose sum exceeds the node's allocatable amount, or "". Resources that the node does not list
// have no limit, since ResourceClaims may serve them.
func (l *ledger) short(node string, sum, asked kube.Quantities) v1.ResourceName {
	n, err := l.nodes.Get(node)
	if err != nil {
		return ""
	}
	has := kube.QuantitiesIn(n.Status.Allocatable)
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if most, limited := has[name]; limited && asked[name] > 0 && sum[name] > most {
			return name
		}
	}
	return ""
}

func (l *ledger) drop(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(uid)
	delete(l.flights, uid)
}

// remove takes a pod out of the books. The caller holds the lock.
func (l *ledger) remove(uid types.UID) {
	h := l.pods[uid]
	if h == nil {
		return
	}
	delete(l.pods, uid)
	delete(l.on[h.node], uid)
	if len(l.on[h.node]) == 0 {
		delete(l.on, h.node)
	}
}

// shared reports whether another scheduler works on the cluster.
func (l *ledger) shared() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.foreign.IsZero() && l.clock.Since(l.foreign) < recent
}

// begin notes that a pod was given a node on which pods of other schedulers count already.
func (l *ledger) begin(p *v1.Pod, node string, known map[types.UID]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number++
	l.flights[p.UID] = &flight{uid: p.UID, node: node, number: l.number, known: known, amounts: kube.QuantitiesOf(p)}
}

// announced notes that a pod is going to be announced.
func (l *ledger) announced(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.flights[uid]; f != nil {
		f.told = true
	}
}

// end notes that a pod has lost its node before it was bound. told says whether it may be announced.
func (l *ledger) end(uid types.UID) (told bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.flights[uid]
	delete(l.flights, uid)
	return f != nil && f.told
}

// seen returns a channel that is closed as soon as the ledger has a pod in a resource version or a later one.
func (l *ledger) seen(uid types.UID, version int64) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := int64(-1)
	if h := l.pods[uid]; h != nil {
		seen = h.newest
	}
	return l.waiting.For(uid, version, seen)
}

// forget ends the wait for a pod that never came.
func (l *ledger) forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, uid)
}

// lacks returns the resource that other schedulers have left too little of for a flight, though there was enough when its node was chosen;
// "" if there is none.
func (l *ledger) lacks(uid types.UID) v1.ResourceName {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.flights[uid]
	if f == nil {
		return ""
	}
	at := int64(math.MaxInt64) // others do not count on an announcement that is missing or old
	if h := l.pods[uid]; h != nil && h.node == f.node && l.clock.Since(h.since) < fresh/2 {
		at = h.at
	}
	sum, late := maps.Clone(f.amounts), kube.Quantities{}
	for other, h := range l.on[f.node] {
		if other == uid || !h.bound && (h.at > at || !l.counts(other, h)) {
			continue
		}
		sum.Add(h.amounts, 1)
		if !l.own[h.by] && !f.known[other] {
			late.Add(h.amounts, 1)
		}
	}
	for _, o := range l.flights { // the rest of those that have the node in this scheduler's cache
		if o.node == f.node && o.number < f.number && l.on[f.node][o.uid] == nil {
			sum.Add(o.amounts, 1)
		}
	}
	asked := kube.Quantities{}
	for name, n := range f.amounts {
		asked[name] = min(n, late[name]) // what nobody took late is not short because of others
	}
	return l.short(f.node, sum, asked)
}

// counts reports whether the announcement of a pod counts that is not bound: of this scheduler as long as the pod is on its way, of others
// while it is fresh. The caller holds the lock.
func (l *ledger) counts(uid types.UID, h *holder) bool {
	if l.own[h.by] {
		f := l.flights[uid]
		return f != nil && f.node == h.node
	}
	return l.clock.Since(h.since) < fresh
}

// Guard makes the profiles of a scheduler leave nodes to other schedulers that were first. It must be called before the informers start.
// Profiles that do not filter by resources are left as they are.
func Guard(ctx context.Context, s *scheduler.Scheduler, c clock.PassiveClock) error {
	set.Register()
	own := map[string]bool{}
	for name := range s.Profiles {
		own[name] = true
	}
	var l *ledger
	for name, profile := range s.Profiles {
		if !slices.ContainsFunc(profile.ListPlugins().Filter.Enabled, func(p config.Plugin) bool { return p.Name == names.NodeResourcesFit }) {
			continue
		}
		if l == nil {
			core := profile.SharedInformerFactory().Core().V1()
			l = newLedger(own, core.Nodes().Lister(), c, klog.FromContext(ctx))
			if _, err := core.Pods().Informer().AddEventHandler(l.handler()); err != nil {
				return fmt.Errorf("follow the pods: %w", err)
			}
		}
		s.Profiles[name] = &guarded{profile, l}
	}
	return nil
}

// guarded is a profile whose pods give way to those of other schedulers.
type guarded struct {
	framework.Framework
	ledger *ledger
}

// RunReservePluginsReserve implements framework.Framework. It notes which pods of other schedulers counted on the node.
func (g *guarded) RunReservePluginsReserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	known := map[types.UID]bool{}
	if info, err := g.SnapshotSharedLister().NodeInfos().Get(node); err == nil {
		for _, p := range info.GetPods() {
			if p := p.GetPod(); !g.ledger.own[p.Spec.SchedulerName] {
				known[p.UID] = true
			}
		}
	}
	g.ledger.begin(pod, node, known)
	return g.Framework.RunReservePluginsReserve(ctx, state, pod, node) // if it fails, Unreserve follows
}

// RunReservePluginsUnreserve implements framework.Framework. It takes the announcement back before the pod can try again. Upstream does
// so, too, but later, when the pod may be announced anew.
func (g *guarded) RunReservePluginsUnreserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	if g.ledger.end(pod.UID) {
		if err := g.announce(ctx, pod, nil); err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) {
			klog.FromContext(ctx).Error(err, "A pod stays announced for a node that it does not get", "pod", klog.KObj(pod), "node", node)
		}
	}
	g.Framework.RunReservePluginsUnreserve(ctx, state, pod, node)
}

// RunPreBindPlugins implements framework.Framework. Beside other schedulers, it announces the pod first.
func (g *guarded) RunPreBindPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if g.ledger.shared() {
		g.ledger.announced(pod.UID)
		if err := g.announce(ctx, pod, &node); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Other schedulers do not know of a pod before it is bound", "pod", klog.KObj(pod), "node", node)
		}
	}
	if s := g.look(ctx, pod, node); !s.IsSuccess() {
		return s
	}
	return g.Framework.RunPreBindPlugins(ctx, state, pod, node)
}

// RunBindPlugins implements framework.Framework.
func (g *guarded) RunBindPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if s := g.look(ctx, pod, node); !s.IsSuccess() {
		return s
	}
	return g.Framework.RunBindPlugins(ctx, state, pod, node)
}

// look returns an error if another scheduler was first. The pod then tries again.
func (g *guarded) look(ctx context.Context, pod *v1.Pod, node string) *fwk.Status {
	lacks := g.ledger.lacks(pod.UID)
	if lacks == "" {
		return nil
	}
	conflicts.WithLabelValues(g.ProfileName()).Inc()
	klog.FromContext(ctx).Info("Another scheduler was first: the pod is not bound and tries again", "pod", klog.KObj(pod), "node", node,
		"lacks", lacks)
	return fwk.AsStatus(fmt.Errorf("another scheduler took the room of node %s, too: insufficient %s", node, lacks))
}

// seeWithin is how long a pod waits for the watch to show its announcement.
const seeWithin = 10 * time.Second

// announce writes the pod's node, or that it has none, into its status. It waits until the ledger has seen that, and so what others wrote
// before.
func (g *guarded) announce(ctx context.Context, pod *v1.Pod, node *string) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{"nominatedNodeName": node},
	})
	if err != nil {
		return err
	}
	is, err := g.ClientSet().CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("announce the node: %w", err)
	}
	within, cancel := context.WithTimeout(ctx, seeWithin)
	defer cancel()
	select {
	case <-g.ledger.seen(pod.UID, watched.Version(is)):
		return nil
	case <-within.Done():
		g.ledger.forget(pod.UID)
		return errors.New("the watch of the pods is late")
	}
}

var set metric.Set

// conflicts counts the pods that gave way.
var conflicts = set.Counters("node_conflicts_total",
	"Pods that were not bound to their node, because another scheduler had taken its room at the same time. They try again.", "profile")

// overcommits counts pods that did not.
var overcommits = set.Counter("node_overcommits_total",
	"Pods, of any scheduler, that were bound to a node whose pods then requested more than it has.")
