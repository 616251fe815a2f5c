package overcommit

import (
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/testutil"
	clocktesting "k8s.io/utils/clock/testing"

	"gnnsched/internal/fatal"
)

// bed returns a ledger of a node n with 4 cores, 2 devices and 3 pods, for the scheduler ours.
func bed(t *testing.T) (*ledger, *clocktesting.FakePassiveClock) {
	t.Helper()
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	n.Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"),
		"pods": resource.MustParse("3"), "example.com/device": resource.MustParse("2")}
	fatal.If(t, nodes.Add(n))
	c := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	return newLedger(map[string]bool{"ours": true}, corelisters.NewNodeLister(nodes), c, logr.Discard()), c
}

// pod makes a pod of a scheduler in a resource version. Its requests are pairs of a name and an amount.
func pod(name, by string, version int, requests ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: types.UID(name), ResourceVersion: strconv.Itoa(version)}}
	list := v1.ResourceList{}
	for i := 0; i < len(requests); i += 2 {
		list[v1.ResourceName(requests[i])] = resource.MustParse(requests[i+1])
	}
	p.Spec = v1.PodSpec{SchedulerName: by, Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: list}}}}
	return p
}

func bound(p *v1.Pod) *v1.Pod {
	p.Spec.NodeName = "n"
	return p
}

func announced(p *v1.Pod) *v1.Pod {
	p.Status.NominatedNodeName = "n"
	return p
}

// Who gives way, and for want of what.
func TestWhoGivesWay(t *testing.T) {
	for _, c := range []struct {
		name  string
		known []*v1.Pod // when the node is chosen
		late  []*v1.Pod
		asks  *v1.Pod // announced in version 10, if it has that
		wait  time.Duration
		want  v1.ResourceName
	}{
		{"alone", nil, nil, announced(pod("p", "ours", 10, "cpu", "4")), 0, ""},
		{"room for both", nil, []*v1.Pod{bound(pod("f", "other", 5, "cpu", "2"))}, announced(pod("p", "ours", 10, "cpu", "2")), 0, ""},
		{"the other is bound", nil, []*v1.Pod{bound(pod("f", "other", 20, "cpu", "3"))}, announced(pod("p", "ours", 10, "cpu", "2")), 0, "cpu"},
		{"the other was announced before", nil, []*v1.Pod{announced(pod("f", "other", 9, "cpu", "3"))},
			announced(pod("p", "ours", 10, "cpu", "2")), 0, "cpu"},
		{"the other was announced later", nil, []*v1.Pod{announced(pod("f", "other", 11, "cpu", "3"))},
			announced(pod("p", "ours", 10, "cpu", "2")), 0, ""},
		{"the other was announced long ago", nil, []*v1.Pod{announced(pod("f", "other", 9, "cpu", "3"))},
			announced(pod("p", "ours", 10, "cpu", "2")), time.Minute, ""},
		{"both were announced long ago", nil, []*v1.Pod{bound(pod("f", "other", 11, "cpu", "3"))}, announced(pod("p", "ours", 10, "cpu", "2")),
			time.Minute, "cpu"},
		{"this one is not announced", nil, []*v1.Pod{announced(pod("f", "other", 11, "cpu", "3"))}, pod("p", "ours", 10, "cpu", "2"), 0, "cpu"},
		{"the filters knew the other", []*v1.Pod{bound(pod("f", "other", 5, "cpu", "3"))}, nil, announced(pod("p", "ours", 10, "cpu", "2")), 0,
			""},
		{"a pod of this scheduler fills the node", nil, []*v1.Pod{bound(pod("f", "ours", 5, "cpu", "3"))},
			announced(pod("p", "ours", 10, "cpu", "2")), 0, ""},
		{"the other takes something else", nil, []*v1.Pod{bound(pod("f", "other", 5, "memory", "9Gi"))},
			announced(pod("p", "ours", 10, "cpu", "2")), 0, ""},
		{"memory", nil, []*v1.Pod{bound(pod("f", "other", 5, "memory", "5Gi"))}, announced(pod("p", "ours", 10, "memory", "4Gi")), 0, "memory"},
		{"devices", nil, []*v1.Pod{bound(pod("f", "other", 5, "example.com/device", "1"))},
			announced(pod("p", "ours", 10, "example.com/device", "2")), 0, "example.com/device"},
		{"devices that claims serve", nil, []*v1.Pod{bound(pod("f", "other", 5, "example.com/claimed", "1"))},
			announced(pod("p", "ours", 10, "example.com/claimed", "1")), 0, ""},
		{"pods", []*v1.Pod{bound(pod("a", "other", 4)), bound(pod("b", "ours", 4))}, []*v1.Pod{bound(pod("f", "other", 5))},
			announced(pod("p", "ours", 10)), 0, "pods"},
		{"the other is finished", nil, []*v1.Pod{func() *v1.Pod {
			p := bound(pod("f", "other", 5, "cpu", "3"))
			p.Status.Phase = v1.PodSucceeded
			return p
		}()}, announced(pod("p", "ours", 10, "cpu", "2")), 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, clock := bed(t)
			known := map[types.UID]bool{}
			for _, p := range c.known {
				l.set(p, true)
				known[p.UID] = true
			}
			l.begin(c.asks, "n", known)
			for _, p := range c.late {
				l.set(p, false)
			}
			l.set(c.asks, false)
			clock.SetTime(clock.Now().Add(c.wait))
			if got := l.lacks(c.asks.UID); got != c.want {
				t.Errorf("lacks %q, want %q", got, c.want)
			}
			l.end(c.asks.UID)
			if got := l.lacks(c.asks.UID); got != "" {
				t.Errorf("a pod that has lost its node lacks %q", got)
			}
		})
	}
}

// Of two pods of this scheduler that are on their way, only the one that was announced later gives way, whichever got its node first.
func TestOnItsWay(t *testing.T) {
	l, _ := bed(t)
	first, second := announced(pod("a", "ours", 10, "cpu", "2")), announced(pod("b", "ours", 11, "cpu", "2"))
	l.begin(second, "n", nil)
	l.begin(first, "n", nil)
	l.set(first, false)
	l.set(second, false)
	l.set(bound(pod("f", "other", 12, "cpu", "2")), false)
	if a, b := l.lacks("a"), l.lacks("b"); a != "" || b != "cpu" {
		t.Errorf("the first lacks %q, the second %q", a, b)
	}
	l.set(bound(pod("a", "ours", 13, "cpu", "2")), false)
	if len(l.flights) != 1 || l.lacks("b") != "cpu" {
		t.Errorf("after the first is bound: %+v", l.flights)
	}
	l.drop("f")
	if got := l.lacks("b"); got != "" {
		t.Errorf("after the other pod is gone it lacks %q", got)
	}
}

// A pod whose announcement is getting old gives way to later ones, whose schedulers may count on it no longer.
func TestOldAnnouncement(t *testing.T) {
	l, clock := bed(t)
	p := announced(pod("p", "ours", 10, "cpu", "2"))
	l.begin(p, "n", nil)
	l.set(p, false)
	clock.SetTime(clock.Now().Add(fresh * 2 / 3))
	l.set(announced(pod("f", "other", 11, "cpu", "3")), false)
	if got := l.lacks("p"); got != "cpu" {
		t.Errorf("it lacks %q", got)
	}
}

// Pods are announced while another scheduler has pods, and for a while after.
func TestShared(t *testing.T) {
	l, clock := bed(t)
	l.set(bound(pod("daemon", "other", 1)), true)
	l.set(pod("mine", "ours", 2), false)
	if l.shared() {
		t.Error("what was there at the beginning is no sign of another scheduler")
	}
	l.set(pod("f", "other", 3), false)
	if !l.shared() {
		t.Error("a pending pod of another scheduler is a sign")
	}
	clock.SetTime(clock.Now().Add(recent))
	if l.shared() {
		t.Error("the sign is old")
	}
	l.set(bound(pod("f", "other", 4)), false)
	if !l.shared() {
		t.Error("a pod that another scheduler bound is a sign")
	}
}

// A wait ends with the version that is waited for, and not before.
func TestSeen(t *testing.T) {
	l, _ := bed(t)
	over := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	l.set(pod("p", "ours", 5), false)
	if !over(l.seen("p", 5)) {
		t.Error("version 5 was seen")
	}
	c := l.seen("p", 7)
	l.set(pod("p", "ours", 6), false)
	if over(c) {
		t.Error("version 7 was not seen")
	}
	l.set(pod("p", "ours", 8), false)
	if !over(c) || len(l.waiting) > 0 {
		t.Error("version 8 is later than 7")
	}
	l.seen("q", 1)
	l.forget("q")
	if len(l.waiting) > 0 {
		t.Error("it still waits")
	}
}

// Pods beyond a node's room count once, when they are bound.
func TestOvercommitsCount(t *testing.T) {
	l, _ := bed(t)
	set.Register()
	before := fatal.Value(testutil.GetCounterMetricValue(overcommits))(t)
	l.set(bound(pod("a", "other", 1, "cpu", "3")), true)
	l.set(bound(pod("b", "other", 2, "memory", "1Gi")), false)
	l.set(bound(pod("c", "ours", 3, "cpu", "2")), false)
	l.set(bound(pod("c", "ours", 4, "cpu", "2")), false)
	if after, err := testutil.GetCounterMetricValue(overcommits); err != nil || after-before != 1 {
		t.Errorf("%v overcommits, want 1 (%v)", after-before, err)
	}
}
