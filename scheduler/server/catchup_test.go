package server

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler"

	"gnnsched/internal/kuberelease"
)

// A standby that gets the lease while its watch is behind waits for the bindings of the previous leader.
func TestNewLeaderKnowsTheLatestBindings(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client := fake.NewClientset()
	behind := make(chan struct{})
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	client.PrependWatchReactor("pods", func(a clienttesting.Action) (bool, watch.Interface, error) {
		w, err := client.Tracker().Watch(pods, a.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		return true, watch.Filter(w, func(e watch.Event) (watch.Event, bool) { <-behind; return e, true }), nil
	})
	i := &instance{synced: make(chan struct{}), active: make(chan struct{}), ctx: ctx, end: cancel}
	i.informers = kuberelease.Informers(client)
	var err error
	i.sched, err = scheduler.New(ctx, client, i.informers, nil, func(string) events.EventRecorderLogger { return &events.FakeRecorder{} })
	if err != nil {
		t.Fatal(err)
	}
	i.informers.Start(ctx.Done())
	i.informers.WaitForCacheSync(ctx.Done())
	i.catchUp(ctx, client) // nothing is bound

	p := &corev1.Pod{}
	p.Name, p.Namespace, p.UID, p.Spec.NodeName = "p", "default", "uid", "n"
	if err := client.Tracker().Add(p); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); i.catchUp(ctx, client) }()
	select {
	case <-done:
		t.Error("the new leader did not wait for a binding that its watch does not show yet")
	case <-time.After(5 * catchUpPause):
	}
	close(behind)
	<-done
	if _, err := i.sched.Cache.GetPod(p); err != nil {
		t.Error(err)
	}
}
