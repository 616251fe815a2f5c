package plugin

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"pgregory.net/rapid"

	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/plugin/dra"
)

// versions gives each claim that is written a newer version, as an API server does.
func versions(client *fake.Clientset) {
	var last atomic.Int64
	last.Store(1)
	client.PrependReactor("update", "resourceclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
		a.(clienttesting.UpdateAction).GetObject().(*resourceapi.ResourceClaim).ResourceVersion = strconv.FormatInt(last.Add(1), 10)
		return false, nil, nil
	})
}

// Another scheduler writes an allocation of the same shares after this one has decided and before it writes its own. The pod that was
// second gives its devices back before it is bound. In the next attempt it gets others.
func TestAnotherSchedulerWasFirst(t *testing.T) {
	client := fake.NewClientset(append(claimObjects(), claimOf("foreign", "", ""))...)
	versions(client)
	const profile = "devices"
	bed := claimBed(t, client, []string{defaultProfile, profile, "gpu-gnn"})
	pod := pendingPod(t, bed)
	pod.Spec.SchedulerName = profile
	f, node, claims := bed.sched.Profiles[profile], "n0", client.ResourceV1().ResourceClaims("default")
	pending := func() *resourceapi.ResourceClaim {
		t.Helper()
		c, err := claims.Get(t.Context(), "pending", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	attempt := func(between func(on string)) string {
		t.Helper()
		if _, err := bed.decide(profile, pod.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		_, state := bed.filter(t, profile, pod)
		if s := f.RunReservePluginsReserve(t.Context(), state, pod, node); !s.IsSuccess() {
			t.Fatal(s)
		}
		on := dra.ReservedDevices(state)[0].Name
		between(on)
		s := f.RunPreBindPlugins(t.Context(), state, pod, node)
		if s.IsSuccess() {
			return on
		}
		f.RunReservePluginsUnreserve(t.Context(), state, pod, node)
		return s.Message()
	}
	var lost string
	why := attempt(func(on string) {
		lost = on
		foreign, rest := claimOf("foreign", node, on), claimOf("rest", node, on) // with 460 of 1000 shares each
		if _, err := claims.Update(t.Context(), foreign, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
		rest.ResourceVersion = "1"
		if _, err := claims.Create(t.Context(), rest, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
	if want := "another scheduler gave device " + claimDriver + "/" + node + "/" + lost + " away"; !strings.Contains(why, want) {
		t.Fatalf("%q, want %q", why, want)
	}
	if c := pending(); c.Status.Allocation != nil || len(c.Status.ReservedFor) > 0 {
		t.Errorf("the claim keeps %+v", c.Status)
	}
	until(t, func() bool {
		known, err := f.SharedDRAManager().ResourceClaims().Get("default", "pending")
		return err == nil && known.Status.Allocation == nil
	})
	on := attempt(func(string) {})
	if c := pending(); on == lost || c.Status.Allocation == nil || c.Status.Allocation.Devices.Results[0].Device != on ||
		len(c.Status.ReservedFor) != 1 {
		t.Errorf("then it has %q: %+v", on, c.Status)
	}
}

// In whatever order bindings end, every decision is sent once, in the order of the numbers, and says
// whether its pod was bound. Over the limit the oldest is sent as unbound.
func TestLedger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sent []decision.Decision
		l := &ledger{limit: rapid.IntRange(1, 5).Draw(t, "limit"), send: func(d decision.Decision) { sent = append(sent, d) }}
		var open []*entry
		bound := map[uint64]bool{}
		total := 0
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			if len(open) == 0 || rapid.Bool().Draw(t, "opens") {
				total++
				open = append(open, l.open(decision.Decision{}))
				continue
			}
			i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
			e, ok := open[i], rapid.Bool().Draw(t, "bound")
			late := e.settled
			l.settle(e, given{devices: 3}, ok)
			l.settle(e, given{devices: 5}, !ok) // a second call does not count
			bound[e.decision.Number] = ok && !late
			open = slices.Delete(open, i, i+1)
		}
		for _, e := range open {
			l.settle(e, given{}, false)
		}
		if len(sent) != total || len(l.queue) != 0 {
			t.Fatalf("%d of %d were sent, %d are open", len(sent), total, len(l.queue))
		}
		for i, d := range sent {
			if d.Number != uint64(i+1) || d.Bound != bound[d.Number] || d.Bound && d.Devices != 3 {
				t.Fatalf("%d was sent: %+v", i, d)
			}
		}
	})
}
