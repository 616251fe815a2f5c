// Package defrag moves the pods of a cluster as a plan says: it evicts a pod, waits until its owner's new pod runs, and goes on. [Look]
// lists the cluster for package plan; [Mover] moves.
package defrag

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/kuberelease"
	"gnnsched/internal/metric"
	"gnnsched/scheduler/memcluster"
	"gnnsched/scheduler/plan"
	"gnnsched/scheduler/plugin/nodereservation"
	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
	"gnnsched/workload/record/live"
	"gnnsched/workload/record/observe"
)

// Look lists the nodes, pods, namespaces, budgets, Jobs and devices of a cluster once. Without the right to see Jobs or devices, their pods
// stay. A note names nodes that a run cordoned which has ended, or is at work.
func Look(ctx context.Context, c kubernetes.Interface, now time.Time) (replay.Source, error) {
	seen := &collector{}
	f := observe.NewFollower(observe.Config{Out: seen, Now: func() int64 { return now.UnixMilli() }})
	all := metav1.ListOptions{}
	claims, unknown := c.ResourceV1().ResourceClaims("").List(ctx, all) // before the pods: a claim whose pod is gone is free
	nodes, err := c.CoreV1().Nodes().List(ctx, all)
	if err != nil {
		return replay.Source{}, fmt.Errorf("list nodes: %w", err)
	}
	for i := range nodes.Items {
		f.Node(&nodes.Items[i])
	}
	if left := Left(nodes.Items); len(left) > 0 {
		seen.Notes = append(seen.Notes, fmt.Sprintf("%d nodes are cordoned by a run of gnnsched defrag that was killed, or is at work: %s",
			len(left), strings.Join(left, " ")))
	}
	pods, err := c.CoreV1().Pods("").List(ctx, all)
	if err != nil {
		return replay.Source{}, fmt.Errorf("list pods: %w", err)
	}
	for i := range pods.Items {
		f.Pod(&pods.Items[i], false)
	}
	budgets, err := c.PolicyV1().PodDisruptionBudgets("").List(ctx, all)
	if err != nil {
		return replay.Source{}, fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	for i := range budgets.Items {
		f.Object(observe.Budget(&budgets.Items[i]))
	}
	namespaces, err := c.CoreV1().Namespaces().List(ctx, all)
	if err != nil {
		return replay.Source{}, fmt.Errorf("list namespaces: %w", err)
	}
	for i := range namespaces.Items {
		f.Object(observe.Namespace(&namespaces.Items[i]))
	}
	jobs, err := c.BatchV1().Jobs("").List(ctx, all)
	if err != nil { // pods of Jobs stay
		seen.Notes = append(seen.Notes, fmt.Sprintf("pods of Jobs stay: %v", err))
	} else {
		for i := range jobs.Items {
			f.Object(observe.Job(&jobs.Items[i]))
		}
	}
	if unknown == nil && len(claims.Items) > 0 {
		seen.Devices, unknown = devices(ctx, c, claims.Items, pods.Items)
	}
	if unknown != nil && !apierrors.IsNotFound(unknown) {
		seen.Notes = append(seen.Notes, fmt.Sprintf("pods with ResourceClaims stay: %v", unknown))
	}
	return seen.source(now.UnixMilli()), context.Cause(ctx)
}

// Left returns the names of the nodes that a run cordoned which has ended, or is at work.
func Left(nodes []v1.Node) (names []string) {
	for i := range nodes {
		if _, is := nodereservation.Cordoned(&nodes[i]); is {
			names = append(names, nodes[i].Name)
		}
	}
	return names
}

// devices lists the devices of a cluster with some claims and pods. The error says why they are not known.
func devices(ctx context.Context, c kubernetes.Interface, claims []resourceapi.ResourceClaim, pods []v1.Pod) (*memcluster.Devices, error) {
	all, api := metav1.ListOptions{}, c.ResourceV1()
	slices, err := api.ResourceSlices().List(ctx, all)
	var classes *resourceapi.DeviceClassList
	if err == nil {
		classes, err = api.DeviceClasses().List(ctx, all)
	}
	var taints int
	if err == nil {
		taints, err = kuberelease.DeviceTaintRules(ctx, c)
	}
	switch {
	case err != nil:
		return nil, err
	case taints > 0:
		return nil, fmt.Errorf("the %d DeviceTaintRules are not understood", taints)
	}
	return memcluster.NewDevices(pointers(slices.Items), pointers(classes.Items), pointers(claims), pointers(pods)), nil
}

func pointers[T any](all []T) []*T {
	out := make([]*T, len(all))
	for i := range all {
		out[i] = &all[i]
	}
	return out
}

// collector holds the rows, each of which comes once. It implements observe.Sink.
type collector struct{ replay.Source }

// Pod implements observe.Sink.
func (s *collector) Pod(p record.Pod) { s.Pods = append(s.Pods, p) }

// Node implements observe.Sink.
func (s *collector) Node(n record.Node) { s.Nodes = append(s.Nodes, n) }

// Object implements observe.Sink.
func (s *collector) Object(o record.Object) { s.Objects = append(s.Objects, o) }

// source returns the rows as the state at a time, or, if the API server's clock is ahead, at the time of the newest row.
func (s *collector) source(at int64) replay.Source {
	slices.SortFunc(s.Pods, func(a, b record.Pod) int {
		return cmp.Or(cmp.Compare(a.Arrived, b.Arrived), cmp.Compare(a.UID, b.UID))
	})
	for _, p := range s.Pods {
		at = max(at, p.Arrived, p.Bound, p.HealthSince)
	}
	for _, n := range s.Nodes {
		at = max(at, n.From)
	}
	s.From, s.To = at, at+1
	s.LeaveUnoffered()
	return s.Source
}

// RBAC returns the ClusterRole that a look at a cluster needs, as YAML, or, with apply, the moves.
func RBAC(apply bool) ([]byte, error) {
	rules := live.Rules(false)
	rules = append(rules, rbacv1.PolicyRule{
		APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims", "resourceslices", "deviceclasses", "devicetaintrules"},
		Verbs: []string{"list"},
	})
	rule := func(group, resource string, verbs ...string) {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs})
	}
	if apply {
		rule("", "pods", "get")
		rule("", "pods/eviction", "create")
		rule("", "pods/status", "patch")
		rule("", "nodes", "get", "patch")
		rule("", "events", "create")
		rule("coordination.k8s.io", "leases", "create")
		rule("coordination.k8s.io", "leases", "get", "update")
		rules[len(rules)-1].ResourceNames = []string{leaseName}
	}
	return yaml.Marshal(rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: "gnnsched-defrag"}, Rules: rules,
	})
}

var (
	measured metric.Set
	moved    = measured.Counters("defrag_pods_total",
		"Pods of plans, by what became of them: planned (they run on the planned node), elsewhere, or stayed.", "result")
	underWay = measured.Gauge("defrag_pods_under_way", "Pods that were evicted, and do not run again yet.")
)

// say counts a pod that is back, and leaves an event on it that tells why it is there. Without the right to write events there is none.
func (x *run) say(ctx context.Context, d due, m Moved) {
	result := "planned"
	if m.elsewhere() {
		result = "elsewhere"
	}
	moved.WithLabelValues(result).Inc()
	why := "to make room"
	if slices.Contains(x.plan.Freed, m.From) {
		why = "so that the node becomes empty"
	} else if l := x.plan.Lower; l != nil {
		why = "to lower " + l.Objective
	}
	now := metav1.NewTime(x.Clock.Now())
	_, err := x.Client.CoreV1().Events(d.pod.Namespace).Create(ctx, &v1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: "gnnsched-defrag-", Namespace: d.pod.Namespace},
		InvolvedObject: v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: d.pod.Namespace, Name: d.pod.Name, UID: d.pod.UID},
		Type:           v1.EventTypeNormal, Reason: "Moved", Source: v1.EventSource{Component: "gnnsched-defrag"},
		Message:        fmt.Sprintf("%s was evicted from %s %s; this pod took its place on %s (planned: %s)", m.Pod, m.From, why, m.Node, m.To),
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, metav1.CreateOptions{})
	if err != nil {
		x.report("no event on " + m.New + ": " + err.Error())
	}
}

// WriteText writes the outcome for people.
func (o Outcome) WriteText(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "\n%d pods moved, %d of them to other nodes than planned; %d stay.\n", len(o.Moved), o.elsewhere(), len(o.Stayed))
	if len(o.Emptied) > 0 {
		fmt.Fprintf(&b, "empty and cordoned: %s\nTo use them again: kubectl uncordon %[1]s\n", strings.Join(o.Emptied, " "))
	}
	for _, n := range o.Used {
		fmt.Fprintf(&b, "not empty: %s, because %s\n", n.Node, n.Why)
	}
	if o.Room != nil {
		fmt.Fprintf(&b, "%s has its place on %s\n", o.Room.Pod, o.Room.Node)
	}
	var rows [][]string
	for _, m := range o.Moved {
		if m.elsewhere() {
			rows = append(rows, []string{m.New, m.From, plan.OnGPUs(m.To, m.GPUs), plan.OnGPUs(m.Node, m.NewGPUs)})
		}
	}
	if err := plan.Table(&b, []string{"elsewhere", "from", "planned", "runs on"}, rows); err != nil {
		return err
	}
	rows = nil
	for _, s := range o.Stayed {
		rows = append(rows, []string{s.Pod, s.From, s.Why})
	}
	if err := plan.Table(&b, []string{"stays", "on", "because"}, rows); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// due is a moved pod, for which its owner makes another one.
type due struct {
	move      plan.Move
	old       *v1.Pod
	pod       *v1.Pod // the other one; nil before it exists
	nominated bool
}

// back reports whether the new pod runs.
func (d *due) back() bool {
	if d.pod == nil {
		return false
	}
	return d.pod.Status.Phase == v1.PodSucceeded || slices.ContainsFunc(d.pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	})
}

// bigger reports whether the new pod requests more than the old one, so that the plan does not hold for it.
func (d *due) bigger() bool {
	was, _ := kube.Pod(d.old)
	is, _ := kube.Pod(d.pod)
	return !is.Requests.Within(was.Requests)
}

// returns follows the pods of a cluster, and finds those that come back.
type returns struct {
	client  kubernetes.Interface
	pods    cache.Store
	changed chan struct{} // something has

	mu   sync.Mutex
	seen map[types.UID]bool // pods that are not a moved pod's new one
	due  []*due
	ends map[types.UID]bool // evicted pods that are still there
}

// follow begins to follow the pods; ctx ends it. It returns when all present pods are known.
func follow(ctx context.Context, c kubernetes.Interface) (*returns, error) {
	r := &returns{client: c, changed: make(chan struct{}, 1), seen: map[types.UID]bool{}, ends: map[types.UID]bool{}}
	shared := informers.NewSharedInformerFactory(c, 0)
	pods := shared.Core().V1().Pods().Informer()
	handle, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { r.is(o.(*v1.Pod)) },
		UpdateFunc: func(_, o any) { r.is(o.(*v1.Pod)) },
		DeleteFunc: r.gone,
	})
	if err != nil {
		return nil, fmt.Errorf("follow the pods: %w", err)
	}
	r.pods = pods.GetStore()
	shared.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), handle.HasSynced) {
		return nil, context.Cause(ctx)
	}
	return r, nil
}

// is takes a pod's state. A new pod is the return of the first due pod of the same owner.
func (r *returns) is(p *v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.due {
		if d.pod != nil && d.pod.UID == p.UID {
			d.pod = p
			r.signal()
			return
		}
	}
	if r.seen[p.UID] {
		return
	}
	r.seen[p.UID] = true
	for _, d := range r.due {
		if d.pod == nil && d.old.Namespace == p.Namespace && ownerOf(d.old) == ownerOf(p) {
			d.pod = p
			r.signal()
			return
		}
	}
}

// gone takes a pod's end. A new pod that ends before it runs is due again.
func (r *returns) gone(o any) {
	if last, is := o.(cache.DeletedFinalStateUnknown); is {
		o = last.Obj
	}
	p, is := o.(*v1.Pod)
	if !is {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, p.UID)
	if r.ends[p.UID] {
		delete(r.ends, p.UID)
		r.signal()
	}
	for _, d := range r.due {
		if d.pod != nil && d.pod.UID == p.UID && !d.back() {
			d.pod = nil
		}
	}
}

func (r *returns) signal() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// ownerOf returns the UID of a pod's controller; "" if it has none.
func ownerOf(p *v1.Pod) types.UID {
	if o := metav1.GetControllerOf(p); o != nil {
		return o.UID
	}
	return ""
}

// on returns how many pods of an owner a node has.
func (r *returns) on(node string, owner types.UID) (n int) {
	for _, o := range r.pods.List() {
		if p := o.(*v1.Pod); p.Spec.NodeName == node && ownerOf(p) == owner && p.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// expect notes that a pod will come back. cancel takes that back.
func (r *returns) expect(m plan.Move, old *v1.Pod) (cancel func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := &due{move: m, old: old}
	r.due = append(r.due, d)
	r.ends[old.UID] = true
	underWay.Inc()
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		underWay.Dec()
		delete(r.ends, old.UID)
		r.due = slices.DeleteFunc(r.due, func(x *due) bool { return x == d })
	}
}

// ending returns the number of evicted pods that are still there.
func (r *returns) ending() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ends)
}

// away reports whether a pod of an owner, other than that of a move, is evicted and not back yet.
func (r *returns) away(m plan.Move, owner types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.due, func(d *due) bool { return d.move.UID != m.UID && ownerOf(d.old) == owner })
}

// take returns the pods that are back, and forgets them. missing are the others. It asks the scheduler to try the plan's node
// first for new pods that wait.
func (r *returns) take(ctx context.Context) (back, missing []due, err error) {
	r.mu.Lock()
	var wait []*due
	for _, d := range r.due {
		switch {
		case d.back():
			back = append(back, *d)
			continue
		case d.pod != nil && d.pod.Spec.NodeName == "" && !d.nominated:
			d.nominated = true
			wait = append(wait, &due{move: d.move, pod: d.pod})
		}
		missing = append(missing, *d)
	}
	r.due = slices.DeleteFunc(r.due, (*due).back)
	r.mu.Unlock()
	for _, d := range wait {
		if err := nominate(ctx, r.client, d.pod, d.move.To); err != nil {
			return back, missing, err
		}
	}
	return back, missing, nil
}

// nominate names the node that a waiting pod shall get, which kube-scheduler tries first. A pod
// that it has placed at once stays where it is.
func nominate(ctx context.Context, c kubernetes.Interface, p *v1.Pod, node string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": map[string]any{"nominatedNodeName": node}})
	if err != nil {
		return err
	}
	_, err = c.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if passes(err) {
		return nil
	}
	return err
}
