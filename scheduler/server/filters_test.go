package server

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"gnnsched/internal/kuberelease"
)

// filters is the default scheduler with a cluster in its cache and no clients. It checks whether its
// filters would let a pod onto the pod's node.
type filters struct {
	ctx   context.Context
	sched *scheduler.Scheduler
	pods  map[string][]*corev1.Pod // by node
}

func newFilters(t *testing.T, nodes []corev1.Node, pods []corev1.Pod) *filters {
	t.Helper()
	ctx := klog.NewContext(t.Context(), logr.Discard())
	client := fake.NewClientset()
	s, err := scheduler.New(ctx, client, kuberelease.Informers(client), nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} })
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		s.Cache.AddNode(logr.Discard(), &nodes[i])
	}
	f := &filters{ctx: ctx, sched: s, pods: map[string][]*corev1.Pod{}}
	for i := range pods {
		if on := pods[i].Spec.NodeName; on != "" {
			f.pods[on] = append(f.pods[on], &pods[i])
		}
	}
	for on := range f.pods {
		if err := f.fill(on, nil); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// fill adds a node's pods to the cache, except one.
func (f *filters) fill(node string, but *corev1.Pod) error {
	for _, p := range f.pods[node] {
		if p == but {
			continue
		}
		if err := f.sched.Cache.AddPod(logr.Discard(), p); err != nil {
			return err
		}
	}
	return nil
}

// clear removes a node's pods from the cache, except one. Removing one of two pods with the same host port
// would remove the port, so all must be removed and added again.
func (f *filters) clear(node string, but *corev1.Pod) error {
	for _, p := range f.pods[node] {
		if p == but {
			continue
		}
		if err := f.sched.Cache.RemovePod(logr.Discard(), p); err != nil {
			return err
		}
	}
	return nil
}

// allow returns an error that names the filter if the default profile would not let the pod onto its node.
func (f *filters) allow(pod *corev1.Pod) error {
	on := pod.Spec.NodeName
	if err := errors.Join(f.clear(on, nil), f.fill(on, pod)); err != nil {
		return err
	}
	refused := f.refuse(pod)
	return errors.Join(refused, f.clear(on, pod), f.fill(on, nil))
}

func (f *filters) refuse(pod *corev1.Pod) error {
	profile := f.sched.Profiles[DefaultProfile]
	snapshot := profile.SnapshotSharedLister().(*cache.Snapshot)
	if err := f.sched.Cache.UpdateSnapshot(logr.Discard(), snapshot); err != nil {
		return err
	}
	waiting, state := pod.DeepCopy(), framework.NewCycleState()
	waiting.Spec.NodeName = ""
	node, err := snapshot.Get(pod.Spec.NodeName)
	if err != nil {
		return err
	}
	if _, status, _ := profile.RunPreFilterPlugins(f.ctx, state, waiting); !status.IsSuccess() {
		return fmt.Errorf("pod %s: %w", pod.Name, status.AsError())
	}
	if status := profile.RunFilterPlugins(f.ctx, state, waiting, node); !status.IsSuccess() {
		return fmt.Errorf("pod %s on %s: %w", pod.Name, pod.Spec.NodeName, status.AsError())
	}
	return nil
}

// allowed fails the test if a pod of the namespace is on a node that the default scheduler's filters
// refuse.
func (l *lab) allowed(t *testing.T, namespace string) {
	t.Helper()
	nodes, err := l.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := l.pods(t, metav1.NamespaceAll)
	f := newFilters(t, nodes.Items, all)
	for i := range all {
		if p := &all[i]; p.Namespace == namespace && p.Spec.NodeName != "" {
			if err := f.allow(p); err != nil {
				t.Error(err)
			}
		}
	}
}

// The check above can fail: each of these pods is on a node that a filter refuses.
func TestFiltersRefuse(t *testing.T) {
	small := map[corev1.ResourceName]string{corev1.ResourceCPU: "1", corev1.ResourceMemory: "1Gi", corev1.ResourcePods: "10"}
	node := func(name string) *st.NodeWrapper {
		return st.MakeNode().Name(name).Capacity(small).Label(corev1.LabelHostname, name).Label(corev1.LabelTopologyZone, name)
	}
	nodes := []corev1.Node{
		*node("a").Obj(), *node("b").Obj(),
		*node("tainted").Taints([]corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}).Obj(),
	}
	app := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	pod := func(name, on string) *st.PodWrapper {
		return st.MakePod().Namespace("default").Name(name).UID(name).Node(on).Label("app", "x")
	}
	for name, c := range map[string][]*st.PodWrapper{
		"resources":     {pod("p", "a").Req(map[corev1.ResourceName]string{corev1.ResourceCPU: "2"})},
		"selector":      {pod("p", "a").NodeSelector(map[string]string{"disk": "ssd"})},
		"node affinity": {pod("p", "a").NodeAffinityIn("disk", []string{"ssd"}, st.NodeSelectorTypeMatchExpressions)},
		"taint":         {pod("p", "tainted")},
		"pod affinity": {pod("p", "a").PodAffinity(corev1.LabelHostname, &metav1.LabelSelector{MatchLabels: map[string]string{"app": "y"}},
			st.PodAffinityWithRequiredReq)},
		"anti-affinity": {pod("p", "a").PodAntiAffinity(corev1.LabelHostname, app, st.PodAntiAffinityWithRequiredReq), pod("q", "a")},
		"spread": {pod("p", "a").SpreadConstraint(1, corev1.LabelTopologyZone, corev1.DoNotSchedule, app, nil, nil, nil, nil),
			pod("q", "a"), pod("r", "a")},
		"host port": {pod("p", "a").HostPort(80), pod("q", "a").HostPort(80)},
	} {
		t.Run(name, func(t *testing.T) {
			var pods []corev1.Pod
			for _, p := range c {
				pods = append(pods, *p.Obj())
			}
			if err := newFilters(t, nodes, pods).allow(&pods[0]); err == nil {
				t.Error("allowed")
			}
			pods = []corev1.Pod{*pod("fine", "b").Obj()}
			if err := newFilters(t, nodes, pods).allow(&pods[0]); err != nil {
				t.Error(err)
			}
		})
	}
}
