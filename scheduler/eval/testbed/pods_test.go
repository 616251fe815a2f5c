package testbed

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod that is seen in all of its states is counted in each of them.
func TestPods(t *testing.T) {
	l := &Pods{changed: make(chan struct{}, 1), pods: map[string]*SeenPod{}}
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	pod := func(name, node string, refused bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node}}
		if refused {
			p.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			}}
		}
		return p
	}
	check := func(step string, seen, existing, pending int) {
		t.Helper()
		if c := l.Counts(); c.Seen != seen || c.Existing != existing || c.Pending != pending {
			t.Errorf("%s: %+v; want %d seen, %d existing, %d pending", step, c, seen, existing, pending)
		}
	}
	l.see(pod("a", "", false), at(1))
	l.see(pod("b", "", false), at(2))
	l.see(pod("c", "", false), at(2))
	check("created", 3, 3, 3)
	l.see(pod("a", "", true), at(3))
	check("refused", 3, 3, 2)
	if n := l.Counts().Waiting; n != 3 {
		t.Errorf("%d pods wait, want 3", n)
	}
	l.see(pod("a", "n", false), at(4))
	l.see(pod("a", "n", false), at(5))
	l.see(pod("b", "n", false), at(6))
	check("bound", 3, 3, 1)
	if d := cmp.Diff(map[string]time.Time{"a": at(4), "b": at(6)}, l.TakeBound()); d != "" || l.TakeBound() != nil {
		t.Error(d)
	}
	l.gone(pod("c", "", false), at(7))
	l.gone(pod("a", "n", false), at(8))
	check("gone", 3, 1, 0)
	if c := l.Counts(); c.Waiting != 0 || c.Placed != 2 {
		t.Errorf("%+v", c)
	}
	if s := l.Seen("a"); s.Refused == nil || s.Appeared != at(1) || s.Bound != at(4) || s.Left != at(8) {
		t.Errorf("%+v", s)
	}
	if l.Seen("d") != nil {
		t.Error("an unknown pod was seen")
	}
}
