package plugin

import (
	"errors"
	"sync"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics/legacyregistry"
	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/plugin/dra"
)

// unanswered is an API server that writes the allocation of a claim and is killed before it answers.
type unanswered struct {
	mu      sync.Mutex
	away    bool
	written *resourceapi.ResourceClaim
}

func (u *unanswered) update(a clienttesting.Action) (bool, runtime.Object, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if a.GetSubresource() != "status" {
		return false, nil, nil
	}
	u.away, u.written = true, a.(clienttesting.UpdateAction).GetObject().(*resourceapi.ResourceClaim)
	return true, nil, errors.New("connection reset by peer")
}

func (u *unanswered) get(clienttesting.Action) (bool, runtime.Object, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.away {
		return true, nil, errors.New("connection refused")
	}
	return u.written != nil, u.written.DeepCopy(), nil
}

// An allocation whose write was not answered takes its device until the cache of claims shows what was written. The pod waits so long,
// and the device is never free in between.
func TestUnansweredAllocation(t *testing.T) {
	client, server := fake.NewClientset(claimObjects()...), &unanswered{}
	client.PrependReactor("update", "resourceclaims", server.update)
	client.PrependReactor("get", "resourceclaims", server.get)
	const profile = "devices"
	bed := claimBed(t, client, []string{defaultProfile, profile, "gpu-gnn"})
	pod := pendingPod(t, bed)
	pod.Spec.SchedulerName = profile
	if _, err := bed.decide(profile, pod); err != nil {
		t.Fatal(err)
	}
	f, node := bed.sched.Profiles[profile], "n0"
	feasible, state := bed.filter(t, profile, pod)
	if len(feasible) != claimNodes {
		t.Fatalf("%d nodes are feasible", len(feasible))
	}
	ledger := dra.LedgerOf(t.Context(), f)
	used := func() int64 {
		view, err := ledger.View(t.Context())
		fatal.If(t, err)
		n := cluster.Node{Name: node}
		view.Placer(&n).Rest(&n)
		return n.GPUs[0]
	}
	if s := f.RunReservePluginsReserve(t.Context(), state, pod, node); !s.IsSuccess() || used() != 460 {
		t.Fatalf("%v, %d thousandths are used", s, used())
	}
	done := make(chan *fwk.Status, 1)
	go func() { done <- f.RunPreBindPlugins(t.Context(), state, pod, node) }()
	until(t, func() bool { server.mu.Lock(); defer server.mu.Unlock(); return server.away })
	waiting := func() float64 {
		families, err := legacyregistry.DefaultGatherer.Gather()
		fatal.If(t, err)
		for _, f := range families {
			for _, m := range f.Metric {
				if f.GetName() == "gnnsched_claims_unconfirmed" && m.Label[0].GetValue() == profile {
					return m.GetGauge().GetValue()
				}
			}
		}
		return -1
	}
	stays := func(when string) {
		t.Helper()
		if n := waiting(); n != 1 {
			t.Errorf("%s, %v claims are unconfirmed by the metric", when, n)
		}
		for range 50 {
			select {
			case s := <-done:
				t.Fatalf("%s, the pod is given up: %v", when, s)
			case <-time.After(10 * time.Millisecond):
			}
			if used() != 460 {
				t.Fatalf("%s, %d thousandths are used", when, used())
			}
		}
	}
	until(t, func() bool { return waiting() == 1 })
	stays("while the API server is away")
	server.mu.Lock()
	server.away = false
	server.mu.Unlock()
	stays("before the cache shows the claim")
	newer := server.written.DeepCopy()
	newer.ResourceVersion = "2" // the cache takes newer versions only
	fatal.If(t, client.Tracker().Update(resourceapi.SchemeGroupVersion.WithResource("resourceclaims"), newer, "default"))
	select {
	case s := <-done:
		if s.IsSuccess() || used() != 460 || waiting() != 0 {
			t.Errorf("%v, %d thousandths are used, %v claims are unconfirmed", s, used(), waiting())
		}
	case <-time.After(time.Minute):
		t.Fatal("the pod waits although the cache shows the claim")
	}
	f.RunReservePluginsUnreserve(t.Context(), state, pod, node)
	if used() != 460 {
		t.Errorf("afterwards %d thousandths are used", used())
	}
}

func until(t *testing.T, is func() bool) {
	t.Helper()
	for range 6000 { // a minute
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("waited in vain")
}
