package server

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler"

	"gnnsched/internal/fatal"
	"gnnsched/internal/kuberelease"
)

// A standby that gets the lease while a watch is behind waits for the bindings and allocations of the previous leader.
func TestNewLeaderKnowsTheLatestBindings(t *testing.T) {
	p := &corev1.Pod{}
	p.Name, p.Namespace, p.UID, p.Spec.NodeName = "p", "default", "uid", "n"
	c := &resourceapi.ResourceClaim{}
	c.Name, c.Namespace, c.UID, c.Status.Allocation = "c", "default", "uid", &resourceapi.AllocationResult{}
	for resource, object := range map[schema.GroupVersionResource]runtime.Object{
		corev1.SchemeGroupVersion.WithResource("pods"):                p,
		resourceapi.SchemeGroupVersion.WithResource("resourceclaims"): c,
	} {
		t.Run(resource.Resource, func(t *testing.T) { checkCatchesUp(t, resource, object) })
	}
}

// checkCatchesUp adds an object that a watch shows late.
func checkCatchesUp(t *testing.T, resource schema.GroupVersionResource, object runtime.Object) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client := fake.NewClientset()
	behind := make(chan struct{})
	client.PrependWatchReactor(resource.Resource, func(a clienttesting.Action) (bool, watch.Interface, error) {
		w, err := client.Tracker().Watch(resource, a.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		return true, watch.Filter(w, func(e watch.Event) (watch.Event, bool) { <-behind; return e, true }), nil
	})
	i := &instance{synced: make(chan struct{}), active: make(chan struct{}), ctx: ctx, end: cancel}
	i.informers = kuberelease.Informers(client)
	var err error
	i.sched, err = scheduler.New(ctx, client, i.informers, nil, func(string) events.EventRecorderLogger { return &events.FakeRecorder{} })
	fatal.If(t, err)
	i.informers.Start(ctx.Done())
	i.informers.WaitForCacheSync(ctx.Done())
	i.catchUp(ctx, client) // nothing is bound or allocated
	fatal.If(t, client.Tracker().Add(object))
	done := make(chan struct{})
	go func() { defer close(done); i.catchUp(ctx, client) }()
	select {
	case <-done:
		t.Error("the new leader did not wait for what its watch does not show yet")
	case <-time.After(5 * catchUpPause):
	}
	close(behind)
	<-done
}
