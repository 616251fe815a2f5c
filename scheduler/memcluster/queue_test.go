package memcluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
)

// New pods are tried by priority, and among equals by their arrival.
func TestOrder(t *testing.T) {
	o, f := placements(t, "a")
	for _, p := range []*st.PodWrapper{pod("one", 1), pod("two", 1).Priority(5), pod("three", 1), pod("four", 1).Priority(9),
		pod("five", 1).Priority(5)} {
		o.Wait(p.Obj())
	}
	settle(t, o)
	equal(t, "told", f.told, []string{"placed four a", "placed two a", "placed five a", "placed one a"})
	equal(t, "waiting", names(o.Waiting), []string{"three"})
}

// After room was freed, all waiting pods have a turn again, and new ones join them in the order of priorities.
func TestFreedRoom(t *testing.T) {
	o, f := placements(t, "a")
	o.Fix(pod("old", 4).Node("a").Obj())
	for _, p := range []*st.PodWrapper{pod("low", 2), pod("high", 2).Priority(5)} {
		o.Wait(p.Obj())
	}
	settle(t, o)
	if len(f.told) != 0 || o.freed {
		t.Fatalf("%q, freed: %v", f.told, o.freed)
	}
	o.Remove("old")
	o.Wait(pod("higher", 1).Priority(9).Obj())
	settle(t, o)
	equal(t, "told", f.told, []string{"placed higher a", "placed high a"})
	equal(t, "waiting", names(o.Waiting), []string{"low"})
}

// A round ends after as many failures as given, and the next call goes on with it.
func TestFailures(t *testing.T) {
	o, f := placements(t, "a")
	o.Fix(pod("old", 3).Node("a").Obj())
	for i := range 3 {
		o.Wait(pod(fmt.Sprint("big-", i), 2).Obj())
	}
	o.Wait(pod("small", 1).Obj())
	for i, placed := range []int{0, 1} {
		if err := o.Retry(t.Context(), 2); err != nil || len(f.told) != placed {
			t.Errorf("call %d: %q, %v", i, f.told, err)
		}
	}
	if !o.settled() {
		t.Error("the round has not ended")
	}
}

// Pods that share their containers fail together, as one failure. Pods of DaemonSets do not.
func TestAlike(t *testing.T) {
	for _, c := range []struct {
		name string
		pods []*v1.Pod
		left int // turns after two failures
	}{
		{"replicas", replicas(pod("web", 3).Obj(), "web-1", "web-2", "web-3"), 0},
		{"two templates", append(replicas(pod("web", 3).Obj(), "web-1", "web-2", "web-3"), replicas(pod("db", 3).Obj(), "db-1", "db-2")...), 1},
		{"own containers", []*v1.Pod{pod("a-1", 3).Obj(), pod("b-1", 3).Obj(), pod("c-1", 3).Obj()}, 1},
		{"DaemonSet", replicas(daemonOf("agent", 3).Obj(), "agent-1", "agent-2", "agent-3"), 1},
	} {
		o, f := placements(t, "a")
		o.Fix(pod("old", 2).Node("a").Obj())
		for _, p := range c.pods {
			o.Wait(p)
		}
		if err := o.Retry(t.Context(), 2); err != nil || len(f.told) != 0 || len(o.round) != c.left {
			t.Errorf("%s: %d turns are left, %q, %v", c.name, len(o.round), f.told, err)
		}
	}
}

// A pod that the plugins cannot handle no longer waits, and the others are tried.
func TestRefused(t *testing.T) {
	o, f := placements(t, "a")
	odd := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}}
	o.Wait(pod("odd", 1).Priority(5).SpreadConstraint(1, v1.LabelHostname, v1.DoNotSchedule, odd, nil, nil, nil, nil).Obj())
	o.Wait(pod("good", 1).Obj())
	settle(t, o)
	equal(t, "told", f.told, []string{"refused odd ", "placed good a"})
	if len(o.Waiting) != 0 || o.Has("odd") || len(o.triggers) != 0 {
		t.Errorf("%q wait, %d triggers", names(o.Waiting), len(o.triggers))
	}
}

// Retry returns the error of its context, and the pod waits on.
func TestRetryInterrupted(t *testing.T) {
	o, _ := placements(t, "a")
	o.Wait(pod("one", 1).Obj())
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if err := o.Retry(ctx, 1); !errors.Is(err, why) || !o.Has("one") {
		t.Errorf("%v", err)
	}
}

// A pod that ended while it had a turn is skipped.
func TestEndedInRound(t *testing.T) {
	o, f := placements(t, "a")
	o.Wait(pod("one", 1).Obj())
	o.Wait(pod("two", 1).Obj())
	o.Remove("one")
	settle(t, o)
	equal(t, "told", f.told, []string{"placed two a"})
}

func labelled(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// A placed pod wakes the pods that must be near it or spread together with it, and no others.
func TestWakes(t *testing.T) {
	odd := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}}
	web := func() *st.PodWrapper { return pod("web", 1).Label("app", "web").Node("a") }
	for _, c := range []struct {
		name   string
		waits  *st.PodWrapper
		placed *st.PodWrapper
		wakes  bool
	}{
		{"nobody waits", nil, web(), false},
		{"no trigger", pod("x", 9), web(), false},
		{"affinity", pod("x", 9).PodAffinity(v1.LabelHostname, labelled("web"), st.PodAffinityWithRequiredReq), web(), true},
		{"affinity in another namespace", pod("x", 9).Namespace("other").PodAffinity(v1.LabelHostname, labelled("web"),
			st.PodAffinityWithRequiredReq), web(), true},
		{"affinity to others", pod("x", 9).PodAffinity(v1.LabelHostname, labelled("db"), st.PodAffinityWithRequiredReq), web(), false},
		{"preferred affinity", pod("x", 9).PodAffinity(v1.LabelHostname, labelled("web"), st.PodAffinityWithPreferredReq), web(), false},
		{"affinity without a selector", pod("x", 9).PodAffinity(v1.LabelHostname, nil, st.PodAffinityWithRequiredReq), web(), false},
		{"affinity to all", pod("x", 9).PodAffinity(v1.LabelHostname, &metav1.LabelSelector{}, st.PodAffinityWithRequiredReq), web(), true},
		{"affinity that cannot be read", pod("x", 9).PodAffinity(v1.LabelHostname, odd, st.PodAffinityWithRequiredReq), web(), false},
		{"anti-affinity", pod("x", 9).PodAntiAffinity(v1.LabelHostname, labelled("web"), st.PodAntiAffinityWithRequiredReq), web(), false},
		{"spreading", pod("x", 9).SpreadConstraint(1, v1.LabelHostname, v1.DoNotSchedule, labelled("web"), nil, nil, nil, nil), web(), true},
		{"spreading in another namespace", pod("x", 9).Namespace("other").SpreadConstraint(1, v1.LabelHostname, v1.DoNotSchedule,
			labelled("web"), nil, nil, nil, nil), web(), false},
		{"preferred spreading", pod("x", 9).SpreadConstraint(1, v1.LabelHostname, v1.ScheduleAnyway, labelled("web"), nil, nil, nil, nil),
			web(), false},
	} {
		o, _ := placements(t, "a", "b")
		if c.waits != nil {
			o.Wait(c.waits.Obj())
		}
		o.Fix(c.placed.Obj())
		if o.freed != c.wakes {
			t.Errorf("%s: freed is %v", c.name, o.freed)
		}
	}
}

// Replicas share one trigger, no matter how they come to wait. It goes with the last of them.
func TestTriggers(t *testing.T) {
	o, _ := placements(t, "a")
	near := pod("near", 1).PodAffinity(v1.LabelHostname, labelled("web"), st.PodAffinityWithRequiredReq).Obj()
	pods := replicas(near, "near-1", "near-2", "near-3")
	count := func(step string, triggers, waiting int) {
		t.Helper()
		pods := 0
		for _, t := range o.triggers {
			pods += t.pods
		}
		if len(o.triggers) != triggers || pods != waiting {
			t.Errorf("%s: %d triggers of %d pods, want %d of %d", step, len(o.triggers), pods, triggers, waiting)
		}
	}
	for _, p := range pods {
		o.Wait(p)
	}
	count("wait", 1, 3)
	o.Remove("near-1")
	count("remove", 1, 2)
	settle(t, o)
	o.Fix(pod("web", 1).Label("app", "web").Node("a").Obj())
	settle(t, o)
	count("placed", 0, 0)
	o.lose("a")
	count("lost", 1, 2)
	// The same pod with another selector, and with none.
	changed := pod("near-2", 1).PodAffinity(v1.LabelHostname, labelled("db"), st.PodAffinityWithRequiredReq).Obj()
	o.Update(changed)
	count("updated", 2, 2)
	if o.freed = false; o.wakes(pod("db", 1).Label("app", "db").Obj()) != true {
		t.Error("the new selector does not count")
	}
	o.Update(pod("near-2", 1).Obj())
	count("updated again", 1, 1)
	if o.wakes(pod("db", 1).Label("app", "db").Obj()) {
		t.Error("the old selector counts")
	}
	o.Remove("near-2")
	o.Remove("near-3")
	count("end", 0, 0)
}

// Pods without containers and pods of DaemonSets have triggers of their own.
func TestOwnTriggers(t *testing.T) {
	o, _ := placements(t, "a")
	bare := func(name string) *v1.Pod {
		p := pod(name, 1).PodAffinity(v1.LabelHostname, labelled("web"), st.PodAffinityWithRequiredReq).Obj()
		p.Spec.Containers = nil
		return p
	}
	o.Wait(bare("one"))
	o.Wait(bare("two"))
	for _, p := range replicas(daemonOf("agent", 1).PodAffinity(v1.LabelHostname, labelled("web"), st.PodAffinityWithRequiredReq).Obj(),
		"agent-1", "agent-2") {
		o.Wait(p)
	}
	if len(o.triggers) != 4 {
		t.Errorf("%d triggers", len(o.triggers))
	}
	o.Remove("one")
	if len(o.triggers) != 3 || !slices.Equal(names(o.Waiting), []string{"two", "agent-1", "agent-2"}) {
		t.Errorf("%d triggers, %q", len(o.triggers), names(o.Waiting))
	}
}
