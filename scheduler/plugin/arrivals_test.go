package plugin

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"gnnsched/internal/cluster"
)

// A pod counts once from its creation on, and waits until it has a node or is gone. Pods of other schedulers do not count.
func TestArrivals(t *testing.T) {
	a := &arrivals{profile: "mine", waits: map[types.UID]cluster.Pod{}}
	pod := func(uid, node string) *v1.Pod {
		p := st.MakePod().Name(uid).UID(uid).SchedulerName("mine").Req(map[v1.ResourceName]string{v1.ResourceCPU: "1"}).Node(node).Obj()
		return p
	}
	check := func(what string, arrived, waiting float64) {
		t.Helper()
		var gotArrived, gotWaiting float64
		for _, k := range a.now().Kinds {
			gotArrived, gotWaiting = gotArrived+k.Arrived, gotWaiting+k.Waiting
		}
		if gotWaiting != waiting || gotArrived > arrived || gotArrived < arrived-0.1 {
			t.Errorf("%s: %v arrived and %v wait, want %v and %v", what, gotArrived, gotWaiting, arrived, waiting)
		}
	}
	a.change(nil, pod("a", ""))
	a.change(nil, pod("runs", "n1"))
	check("two pods", 2, 1)
	a.change(pod("a", ""), pod("a", ""))
	check("an update", 2, 1)
	a.change(pod("a", ""), pod("a", "n1"))
	check("bound", 2, 0)
	a.change(nil, pod("b", ""))
	a.change(pod("b", ""), nil)
	check("deleted before it had a node", 3, 0)
	other := pod("c", "")
	other.Spec.SchedulerName = "default-scheduler"
	a.change(nil, other)
	check("another scheduler's", 3, 0)
	d := pod("d", "")
	a.set(d, true, true)
	a.set(d, true, true)
	a.change(nil, d)
	check("attempts and the event of one pod", 4, 1)
	if (*arrivals)(nil).now() != nil {
		t.Error("without a count there is a demand")
	}
}
