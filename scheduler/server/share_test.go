package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/kwok/nodepool"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/plugin/canary"
	"gnnsched/scheduler/plugin/userconfig"
)

func TestShare(t *testing.T) {
	l := newLab(t, []nodepool.Pool{pools()[0], pools()[1]})
	t.Run("network", l.testShare)
	t.Run("evictions", l.testShareIsStoppedByEvictions)
}

// A share of the default scheduler's namespaces is placed by the network, and the rest on nodes that are best by the
// default profile. When the network fails, the share stops, and stays stopped after a restart until a person says
// otherwise.
func (l *lab) testShare(t *testing.T) {
	p := Profile{SchedulerName: DefaultProfile, Args: Args{Variant: "gnn", Checkpoint: network(t, "gnn", nil), Deadline: metav1.Duration{Duration: patience},
		Canary: &canary.Args{Of: 0.5, By: canary.ByNamespace, Latency: metav1.Duration{Duration: patience}}}}
	book := decision.NewBook(1000, nil)
	stop := l.share(t, p, book)
	l.untilShare(t, 0.5)
	const namespaces, each = 8, 4
	l.place(t, "first", namespaces, each)
	groups := map[string]sets.Set[string]{}
	for _, r := range l.records(t, book, "first", namespaces*each) {
		if groups[r.Group] == nil {
			groups[r.Group] = sets.New[string]()
		}
		groups[r.Group].Insert(r.Namespace)
		if (r.Group == string(canary.Learned)) != (r.Fingerprint != "") || (r.Group == string(canary.Rest)) != (r.Policy == "") {
			t.Errorf("%s/%s of %q is decided by %q with weights %q", r.Namespace, r.Pod, r.Group, r.Policy, r.Fingerprint)
		}
		if r.RunnerUp != "" && r.Margin != nil && *r.Margin < 0 {
			t.Errorf("%s/%s of %q got %s, which is not a best node: %+v", r.Namespace, r.Pod, r.Group, r.Node, r.Best)
		}
	}
	learned, rest := groups[string(canary.Learned)], groups[string(canary.Rest)]
	if learned.Len() == 0 || rest.Len() == 0 || learned.Intersection(rest).Len() > 0 || learned.Union(rest).Len() != namespaces {
		t.Fatalf("the network places %v, the default profile %v", sets.List(learned), sets.List(rest))
	}
	for _, group := range []canary.Group{canary.Learned, canary.Rest} {
		if n := l.metrics(t).sum("gnnsched_share_attempt_duration_seconds_count", "group", string(group)); n == 0 {
			t.Errorf("no attempt of the %s is timed", group)
		}
	}
	stop()

	late := p
	late.Deadline.Duration = time.Nanosecond // which no decision keeps
	stop = l.share(t, late, book)
	l.place(t, "second", namespaces, each)
	l.untilShare(t, 0)
	if n := l.metrics(t).sum("gnnsched_share_stopped", "reason", "failures"); n != 1 {
		t.Errorf("gnnsched_share_stopped is %v", n)
	}
	fatal.Until(t, "the event", func() error {
		if len(l.events(t, metav1.NamespaceSystem, userconfig.ShareLeaseOf(DefaultProfile), "ShareStopped")) == 0 {
			return errors.New("there is none")
		}
		return nil
	})
	var why string
	fatal.Until(t, "the annotation", func() (err error) {
		if why = l.stoppedBecause(t); why == "" {
			err = errors.New("there is none")
		}
		return err
	})
	t.Log(why)
	if !strings.Contains(why, "failures: ") || !strings.Contains(why, "pods of the canary failed") {
		t.Errorf("the annotation says %q", why)
	}
	stop()

	stop = l.share(t, p, decision.NewBook(1, nil))
	fatal.Until(t, "the earlier stop to be found", func() error {
		if m := l.metrics(t); m.sum("gnnsched_share_stopped", "reason", "earlier") != 1 || m.sum("gnnsched_share") != 0 {
			return errors.New("it is not")
		}
		return nil
	})
	if again := l.stoppedBecause(t); again != why {
		t.Errorf("the mark of the process changed the annotation to %q", again)
	}
	stop()

	patch := []byte(fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, canary.StoppedAnnotation))
	fatal.Value(l.client.CoordinationV1().Leases(metav1.NamespaceSystem).Patch(t.Context(), userconfig.ShareLeaseOf(DefaultProfile),
		"application/merge-patch+json", patch, metav1.PatchOptions{}))(t)
	defer l.share(t, p, decision.NewBook(1, nil))()
	l.untilShare(t, 0.5)
}

// Pods that the kubelet evicts stop the share of the process that placed them. Pods that were placed before it began do
// not. The process keeps the stop though it ends at once.
func (l *lab) testShareIsStoppedByEvictions(t *testing.T) {
	p := Profile{SchedulerName: DefaultProfile,
		Args: Args{Policy: "best-fit", Canary: &canary.Args{Of: 1, Latency: metav1.Duration{Duration: patience}}}}
	stop := l.share(t, p, decision.NewBook(1, nil))
	l.untilShare(t, 1)
	old := l.place(t, "old", 1, 20)
	stop()
	stop = l.share(t, p, decision.NewBook(1, nil))
	l.untilShare(t, 1)
	l.evict(t, old, 20)
	counted := l.metrics(t).sum("gnnsched_share_pods_total", "result", "bound")
	fresh := l.place(t, "new", 1, 20)
	fatal.Until(t, "the bound pods to be counted", func() error { // after the API has the binding
		if n := l.metrics(t).sum("gnnsched_share_pods_total", "result", "bound") - counted; n != 20 {
			return fmt.Errorf("there are %v of 20", n)
		}
		return nil
	})
	if n := l.metrics(t).sum("gnnsched_share_pods_total", "result", "lost"); n != 0 {
		t.Errorf("%v pods of another process count as lost", n)
	}
	l.evict(t, fresh, 10) // seven of twenty are no proof yet
	l.untilShare(t, 0)
	stop()
	if why := l.stoppedBecause(t); !strings.Contains(why, "failures: 8 of the last 20 pods of the canary failed") {
		t.Errorf("the annotation says %q", why)
	}
}

// evict does to pods of a namespace what a kubelet does that evicts them.
func (l *lab) evict(t *testing.T, namespace string, number int) {
	t.Helper()
	for _, p := range l.pods(t, namespace)[:number] {
		patch := []byte(`{"status":{"phase":"Failed","reason":"Evicted"}}`)
		fatal.Value(l.client.CoreV1().Pods(namespace).Patch(t.Context(), p.Name, "application/merge-patch+json", patch, metav1.PatchOptions{},
			"status"))(t)
	}
}

// share runs the scheduler with one profile, whose decisions are recorded.
func (l *lab) share(t *testing.T, p Profile, book *decision.Book) (stop func()) {
	t.Helper()
	l.recording = plugin.Recording{Book: book}
	stop = l.schedule(t, p)
	l.untilReady(t)
	return stop
}

func (l *lab) untilShare(t *testing.T, want float64) {
	t.Helper()
	fatal.Until(t, fmt.Sprintf("the share to be %v", want), func() error {
		if is := l.metrics(t).sum("gnnsched_share", "profile", DefaultProfile); is != want {
			return fmt.Errorf("it is %v", is)
		}
		return nil
	})
}

// place makes namespaces with pods of the default scheduler, waits until all are bound, and returns the last namespace.
func (l *lab) place(t *testing.T, prefix string, namespaces, each int) (last string) {
	t.Helper()
	var all []string
	for i := range namespaces { // the names decide who is in the canary
		last = fmt.Sprint(prefix, "-", i)
		l.namespaceNamed(t, last)
		all = append(all, last)
		l.make(t, last, DefaultProfile, each)
	}
	for _, ns := range all {
		l.bound(t, ns, each)
	}
	return last
}

// records returns the records of the pods in namespaces with a prefix, once there are so many.
func (l *lab) records(t *testing.T, book *decision.Book, prefix string, want int) (out []decision.Record) {
	t.Helper()
	fatal.Until(t, "the records", func() error {
		out = nil
		for _, r := range book.Last(decision.Query{}) {
			if strings.HasPrefix(r.Namespace, prefix) {
				out = append(out, r)
			}
		}
		if len(out) != want {
			return fmt.Errorf("there are %d of %d", len(out), want)
		}
		return nil
	})
	return out
}

// stoppedBecause returns the annotation that keeps a stop.
func (l *lab) stoppedBecause(t *testing.T) string {
	t.Helper()
	lease, err := l.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(context.Background(), userconfig.ShareLeaseOf(DefaultProfile),
		metav1.GetOptions{})
	fatal.If(t, err)
	return lease.Annotations[canary.StoppedAnnotation]
}

// The lab has shareNodes nodes with shared GPUs, each with shareDevices devices of the model T4.
const (
	shareNodes   = 2
	shareDevices = 4
)

// sharePod returns a pod that requests GPUs on the nodes with shared GPUs.
func sharePod(name, scheduler string, r cluster.Resources, models ...string) *corev1.Pod {
	annotations, list := kube.GPUAnnotations(r, models), kube.GPUResourceList(r)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec: corev1.PodSpec{
			SchedulerName: scheduler,
			NodeSelector:  map[string]string{"shared": "yes"},
			Tolerations: []corev1.Toleration{{Key: "reserved", Operator: corev1.TolerationOpEqual, Value: "shared",
				Effect: corev1.TaintEffectNoSchedule}},
			Containers: []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10",
				Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}},
		},
	}
	p.Spec.Containers[0].Resources.Requests = list.DeepCopy()
	p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("10m")
	return p
}

func (l *lab) create(t *testing.T, namespace string, p *corev1.Pod) {
	t.Helper()
	fatal.Value(l.client.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{}))(t)
}

// devices checks the pods' annotations: every bound pod has as many devices as it requests, and no
// device is overcommitted. It returns the sum of what the pods have, in thousandths of a device.
func (l *lab) devices(t *testing.T, namespace string) (given int64) {
	t.Helper()
	used := map[string][]int64{}
	for _, p := range l.pods(t, namespace) {
		if p.Spec.NodeName == "" {
			continue
		}
		r := fatal.Value(kube.GPURequestOf(p.Annotations, kube.Requests(&p)))(t)
		on, milli := kube.Devices(p.Annotations), r.GPUMilli
		if r.GPU > 0 {
			milli = cluster.DeviceMilli
		}
		if int64(on.Len()) != max(r.GPU, 1) {
			t.Errorf("%s asks for %+v and is on %q of %s", p.Name, r, p.Annotations[kube.GPUIndexAnnotation], p.Spec.NodeName)
		}
		if used[p.Spec.NodeName] == nil {
			used[p.Spec.NodeName] = make([]int64, shareDevices)
		}
		for i := range used[p.Spec.NodeName] {
			if on.Has(i) {
				used[p.Spec.NodeName][i] += milli
				given += milli
			}
		}
	}
	for node, devices := range used {
		for i, x := range devices {
			if x > cluster.DeviceMilli {
				t.Errorf("device %d of %s is overcommitted: %v", i, node, devices)
			}
		}
	}
	return given
}

// Pods of several profiles share devices, and each pod gets its own. A restarted scheduler reads from
// the pods which devices are in use.
func (l *lab) testShares(t *testing.T) {
	ns := l.namespace(t, "shares")
	profiles := []Profile{
		{SchedulerName: DefaultProfile, Args: Args{Variant: DefaultProfile}}, {SchedulerName: "fgd", Args: Args{Policy: "fgd"}},
		{SchedulerName: "gpu-packing", Args: Args{Policy: "gpu-packing"}},
	}
	stop := l.schedule(t, profiles...)
	// Of eight devices five are taken whole. No two shares of 600 fit on one device.
	for i := range 5 {
		l.create(t, ns, sharePod(fmt.Sprint("whole-", i), profiles[i%len(profiles)].SchedulerName, cluster.Resources{GPU: 1}))
	}
	for i := range 2 {
		l.create(t, ns, sharePod(fmt.Sprint("share-", i), profiles[i%len(profiles)].SchedulerName, cluster.Resources{GPUMilli: 600}, "A10", "T4"))
	}
	l.bound(t, ns, 7)
	if given := l.devices(t, ns); given != 6200 {
		t.Errorf("%d thousandths are given", given)
	}
	stop()

	stop = l.schedule(t, profiles...)
	for i, p := range profiles { // one whole device is free, and 400 on two others
		l.create(t, ns, sharePod(fmt.Sprint("after-", i), p.SchedulerName, cluster.Resources{GPUMilli: 600}))
	}
	l.create(t, ns, sharePod("small", "fgd", cluster.Resources{GPUMilli: 400}))
	l.create(t, ns, sharePod("other-model", DefaultProfile, cluster.Resources{GPUMilli: 100}, "A10"))
	l.bound(t, ns, 9)
	l.refused(t, ns, "other-model", "no GPU of a model that the pod allows")
	fatal.Until(t, "two of the later pods to be refused", func() error {
		if n := len(l.events(t, ns, "", "FailedScheduling")); n < 3 {
			return fmt.Errorf("%d events", n)
		}
		return nil
	})
	if given := l.devices(t, ns); given != 7200 {
		t.Errorf("%d thousandths are given", given)
	}

	// Deleted pods make room for the refused ones.
	err := errors.Join(
		l.client.CoreV1().Pods(ns).Delete(t.Context(), "whole-0", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}),
		l.client.CoreV1().Pods(ns).Delete(t.Context(), "whole-1", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}),
	)
	fatal.If(t, err)
	fatal.Until(t, "the refused pods to get the room", func() error {
		n := each.Count(l.pods(t, ns), func(p corev1.Pod) bool { return p.Spec.NodeName != "" })
		if n != 9 { // two are deleted, two are new
			return fmt.Errorf("%d pods have a node", n)
		}
		return nil
	})

	// A pod with a wrong annotation is tried again as soon as it is corrected, not minutes later.
	mended := []byte(`{"metadata":{"annotations":{"` + kube.GPUModelAnnotation + `":"T4"}}}`)
	fatal.Value(l.client.CoreV1().Pods(ns).Patch(t.Context(), "other-model", types.MergePatchType, mended,
		metav1.PatchOptions{}))(t)
	l.bound(t, ns, 10)
	l.devices(t, ns)
	stop()
}
