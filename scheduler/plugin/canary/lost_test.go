package canary

import (
	"fmt"
	"sync"
	"testing"

	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics/testutil"
)

// The watch is of failed pods of the scheduler name only: pods of others, and of those that run, are many.
func TestWatchIsNarrow(t *testing.T) {
	h := newHandle("")
	newSplit(t, h, nil)
	until(t, "the watch", func() bool {
		for _, a := range h.client.Actions() {
			if w, is := a.(clienttesting.WatchAction); is && a.GetResource().Resource == "pods" {
				f := w.GetWatchRestrictions().Fields.String()
				if f != "spec.schedulerName="+profile+",status.phase=Failed" && f != "status.phase=Failed,spec.schedulerName="+profile {
					t.Errorf("it watches the pods with %q", f)
				}
				return true
			}
		}
		return false
	})
}

// Lost pods count for the group whose scores placed them, once. Others do not count: pods that this process did not
// place, or that had one feasible node, and pods that failed by themselves.
func TestWhoseLosses(t *testing.T) {
	h := newHandle("")
	s := newSplit(t, h, nil)
	until(t, "the share to begin", func() bool { return s.GroupOf(pod("a", "Job", "b", "c")) == Learned })
	before := lostPods(t)
	for i := range 2 * leastFailures {
		uid := fmt.Sprint("unchosen-", i)
		s.failed(fail(uid, "Evicted"))
		s.Settled(Placement{Pod: pod("a", "", "", uid), Group: Learned, Result: Bound})
		s.failed(fail(uid, "Evicted"))
		uid = fmt.Sprint("ended-", i)
		place(s, uid)
		s.failed(fail(uid, "DeadlineExceeded"))
		s.failed(fail(uid, ""))
		s.failed(uid)
	}
	place(s, "one")
	s.failed(fail("one", "Evicted"))
	s.failed(fail("one", "Evicted"))
	s.Settled(Placement{Pod: pod("a", "", "", "two"), Group: Rest, Result: Bound, Chosen: true})
	s.failed(fail("two", "Evicted"))
	after := lostPods(t)
	if learned, rest := after[0]-before[0], after[1]-before[1]; learned != 1 || rest != 1 {
		t.Errorf("lost are %v of the canary and %v of the rest, want one of each", learned, rest)
	}
	if s.GroupOf(pod("a", "Job", "b", "c")) != Learned {
		t.Error("the share is stopped")
	}
}

// lostPods returns the metric of the canary and of the rest.
func lostPods(t *testing.T) (out [2]float64) {
	t.Helper()
	for i, g := range []Group{Learned, Rest} {
		var err error
		if out[i], err = testutil.GetCounterMetricValue(pods.WithLabelValues(profile, string(g), string(lost))); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// What a canary remembers of its pods is bounded. Both groups are forgotten alike.
func TestPlacementsAreBounded(t *testing.T) {
	s := newSplit(t, newHandle(""), make(chan struct{}))
	for i := range placements + 10 {
		place(s, fmt.Sprint(i))
	}
	if s.placed.Len() != placements || known(s, "9") || !known(s, "10") {
		t.Errorf("%d pods are remembered", s.placed.Len())
	}
}

// A kubelet can refuse a pod before its PostBind, because the API has the binding by then. The pod counts as lost once,
// whichever comes first.
func TestLostBeforePostBind(t *testing.T) {
	s := newSplit(t, newHandle(""), make(chan struct{}))
	before := lostPods(t)
	s.failed(fail("early", "OutOfcpu"))
	place(s, "early")
	for range 2 {
		if n := lostPods(t)[0] - before[0]; n != 1 {
			t.Errorf("a pod that was refused before its PostBind counts %v times", n)
		}
		s.failed(fail("early", "OutOfcpu")) // a later change of the pod
	}
	const many = 1000
	var both sync.WaitGroup
	for i := range many {
		uid := fmt.Sprint("either-", i)
		both.Go(func() { place(s, uid) })
		both.Go(func() { s.failed(fail(uid, "OutOfcpu")) })
	}
	both.Wait()
	if n := lostPods(t)[0] - before[0]; n != 1+many {
		t.Errorf("%v of %d pods are lost", n, 1+many)
	}
}

// The memory of pods that failed is bounded too: most failed pods of a cluster are of earlier processes.
func TestEarlyFailuresAreBounded(t *testing.T) {
	s := newSplit(t, newHandle(""), make(chan struct{}))
	for i := range placements + 10 {
		s.failed(fail(fmt.Sprint(i), "Evicted"))
	}
	if n := s.early.Len(); n != placements {
		t.Errorf("%d pods are remembered", n)
	}
}
