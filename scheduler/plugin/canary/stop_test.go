package canary

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/scheduler/plugin/userconfig"
)

const profile = "default-scheduler"

// handle is what a profile gives its plugins, as far as a Split needs it.
type handle struct {
	fwk.Handle
	client *fake.Clientset
	events *events.FakeRecorder
}

func (h handle) ProfileName() string                       { return profile }
func (h handle) ClientSet() kubernetes.Interface           { return h.client }
func (h handle) EventRecorder() events.EventRecorderLogger { return h.events }
func (h handle) SharedInformerFactory() informers.SharedInformerFactory {
	return informers.NewSharedInformerFactory(h.client, 0)
}

// newSplit makes a canary of all pods that begins when active is closed.
func newSplit(t *testing.T, active <-chan struct{}, annotation string) (*Split, handle) {
	t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: userconfig.MarkOf(profile)}}
	if annotation != "" {
		lease.Annotations = map[string]string{StoppedAnnotation: annotation}
	}
	h := handle{client: fake.NewClientset(lease), events: events.NewFakeRecorder(10)}
	args := Args{Of: 1}
	if err := args.Default(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	s, err := New(ctx, args, h, active, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	return s, h
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begun := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatal("waited for " + what)
		}
	}
}

func annotation(t *testing.T, h handle) string {
	t.Helper()
	lease, err := h.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), userconfig.MarkOf(profile), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease.Annotations[StoppedAnnotation]
}

// A standby has no share until it schedules. Then it looks whether another process stopped the share, even if that
// was after the standby began.
func TestStandby(t *testing.T) {
	active := make(chan struct{})
	s, h := newSplit(t, active, "")
	p := pod("a", "Job", "b", "c")
	if g := s.GroupOf(p); g != Rest {
		t.Errorf("a pod of a standby is of the %s", g)
	}
	looked := make(chan struct{}, 10)
	h.client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		looked <- struct{}{}
		return true, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{StoppedAnnotation: "because"}}}, nil
	})
	close(active)
	<-looked
	until(t, "the stop to be found", func() bool { return len(h.events.Events) == 0 && stoppedBy(t, reasonEarlier) })
	if g := s.GroupOf(p); g != Rest {
		t.Errorf("a pod is of the %s though the share was stopped", g)
	}
}

// Pods that the kubelet evicts or refuses stop the share. The stop has an event, and is kept in the cluster though the
// first tries to do so fail.
func TestStopIsKept(t *testing.T) {
	s, h := newSplit(t, nil, "")
	p := pod("a", "Job", "b", "c")
	until(t, "the share to begin", func() bool { return s.GroupOf(p) == Learned })
	failing := 1
	h.client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		if failing--; failing >= 0 {
			return true, nil, errors.New("away")
		}
		return false, nil, nil
	})
	p.Spec.SchedulerName = profile
	change := func(scheduler, reason string) {
		failed := p.DeepCopy()
		failed.Spec.SchedulerName, failed.Status.Phase, failed.Status.Reason = scheduler, v1.PodFailed, reason
		s.updated(p, failed)
		s.updated(failed, failed)
	}
	for range 2 * leastFailures {
		change("another", "Evicted")
		change(profile, "")
		change(profile, "DeadlineExceeded")
	}
	for i := range leastFailures {
		if s.GroupOf(p) != Learned {
			t.Fatalf("it is stopped after %d", i)
		}
		change(profile, []string{"Evicted", "OutOfcpu", "NodeAffinity"}[i%3])
	}
	if s.GroupOf(p) != Rest || !stoppedBy(t, reasonFailures) {
		t.Error("it is not stopped")
	}
	until(t, "the annotation", func() bool { return annotation(t, h) != "" })
	event := <-h.events.Events
	if a := annotation(t, h); !strings.Contains(a, "failures: 5 of the canary's last 5 pods failed") || !strings.Contains(event, "ShareStopped 5 of the canary's") {
		t.Errorf("annotation %q, event %q", a, event)
	}
	s.Settled(Learned, Fallback) // a pod that was decided before: it stops nothing twice
}

// Attempts that take too long stop the share.
func TestSlowStops(t *testing.T) {
	s, h := newSplit(t, nil, "")
	p := pod("a", "Job", "b", "c")
	until(t, "the share to begin", func() bool { return s.GroupOf(p) == Learned })
	for range leastTimes {
		s.Attempted(p, time.Second)
	}
	if s.GroupOf(p) != Rest || !stoppedBy(t, reasonLatency) {
		t.Error("it is not stopped")
	}
	until(t, "the annotation", func() bool { return strings.Contains(annotation(t, h), fmt.Sprint("the limit is ", DefaultLatency)) })
}

// stoppedBy reports whether the metric says so.
func stoppedBy(t *testing.T, reason string) bool {
	t.Helper()
	v, err := testutil.GetGaugeMetricValue(stopped.WithLabelValues(profile, reason))
	if err != nil {
		t.Fatal(err)
	}
	return v == 1
}
