package canary

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics/testutil"

	"gnnsched/internal/fatal"
)

// The watch is of failed pods of the scheduler name only: pods of others, and of those that run, are many.
func TestWatchIsNarrow(t *testing.T) {
	h := newHandle("")
	newSplit(t, h, nil)
	fatal.UntilTrue(t, "the watch", func() bool {
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
	fatal.UntilTrue(t, "the share to begin", func() bool { return s.GroupOf(pod("a", "Job", "b", "c")) == Learned })
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

// ran returns a canary that has seen pods, of which every bad-th failed, and attempts.
func ran(pods, bad int) *Split {
	c := &Split{profile: "default-scheduler", args: Args{Of: 0.05, By: ByOwner}, ended: make(chan string, 1)}
	c.seen = comparison{args: c.args}
	c.seen.args.Failures, c.seen.args.Latency.Duration = 0.9, time.Hour // nothing stops it
	c.share.Store(math.Float64bits(c.args.Of))
	c.totals.begun = true
	for i := range pods {
		for _, g := range []Group{Learned, Rest} {
			r := Bound
			if g == Learned && i%bad == 0 {
				r = Fallback
			}
			c.settled(member{g, uint64(i)*2 + 1}, r)
			c.attempted(g, uint64(i)*2+1, time.Duration(1+i%100)*time.Millisecond)
		}
	}
	c.settled(member{Rest, 1}, lost)
	return c
}

// The report says first how the share ended, and then how its pods fared beside the rest.
func TestReport(t *testing.T) {
	stopped := ran(200, 50)
	stopped.totals.ended = "4 of the last 200 pods of the canary failed"
	for name, c := range map[string]struct {
		split *Split
		says  []string
	}{
		"to the end": {ran(200, 50), []string{"default-scheduler with a share of 5 % of the pods, by owner\n\nNOT STOPPED",
			"placed or failed 200 200\n", "failed 4 (2.00 %) 1 (0.50 %)\n", "after a failure 4 0\n", "evicted by the kubelet 0 1\n", "median 5",
			"99 % 99"}},
		"few":       {ran(20, 50), []string{"TOO FEW PODS TO TELL: 20 of the share, want 100"}},
		"stopped":   {stopped, []string{"STOPPED: 4 of the last 200 pods of the canary failed"}},
		"not begun": {&Split{profile: "p", args: Args{Of: 1, By: ByOwner}}, []string{"NOT BEGUN", "99 % - -"}},
	} {
		var all Reports
		all.Add(c.split)
		var b strings.Builder
		fatal.If(t, all.WriteText(&b))
		text := b.String()
		for strings.Contains(text, "  ") {
			text = strings.ReplaceAll(text, "  ", " ")
		}
		for _, s := range c.says {
			if !strings.Contains(text, s) {
				t.Errorf("%s: the report lacks %q:\n%s", name, s, b.String())
			}
		}
	}
	var none *Reports
	none.Add(stopped)
}

// The load changes for both groups: nothing is wrong with the canary.
func TestLoadChanges(t *testing.T) {
	for _, of := range shares {
		for seed := range uint64(2) {
			random := rand.New(rand.NewPCG(seed, 2))
			x := comparisonOf(of)
			for i, n := 0, 0; n < 4000; i++ {
				g := Rest
				if random.Float64() < of {
					g = Learned
					n++
				}
				took := time.Duration(random.ExpFloat64() * float64(2*time.Millisecond))
				if n/900%2 == 1 { // a slow time
					took *= 100
				}
				if why := x.attempted(g, 1+random.Uint64N(50), took); why != "" {
					t.Errorf("share %v, seed %d: stopped after %d attempts of the canary: %s", of, seed, n, why)
					break
				}
			}
		}
	}
}

// One attempt in 200 is very slow in both groups, as while a machine is busy. Chance must not take that for a fault of
// the canary.
func TestRarelySlow(t *testing.T) {
	for _, of := range append(shares, 1) {
		for seed := range uint64(2) {
			random := rand.New(rand.NewPCG(seed, 3))
			x := comparisonOf(of)
			for n := 0; n < 5000; {
				g, took := Rest, time.Millisecond
				if random.Float64() < of {
					g = Learned
					n++
				}
				if random.IntN(200) == 0 {
					took = time.Second
				}
				if why := x.attempted(g, 1+random.Uint64N(50), took); why != "" {
					t.Errorf("share %v, seed %d: stopped after %d attempts of the canary: %s", of, seed, n, why)
					break
				}
			}
		}
	}
}

// slowWithin is how many attempts it takes at most to stop a canary of which one in ten became slow, by the share.
// docs/how-to/canary.md has it.
var slowWithin = [7]int{400, 400, 600, 1000, 1500, 3000, 6000}

// A canary that became slow stops, at every share.
func TestBecomesSlow(t *testing.T) {
	const good = 3000
	for i, of := range shares {
		for seed := range uint64(3) {
			random, x, stopped := rand.New(rand.NewPCG(seed, 4)), comparisonOf(of), 0
			n := 0
			for n < good+slowWithin[i] && stopped == 0 {
				g, took := Rest, time.Millisecond
				if random.Float64() < of {
					g = Learned
					n++
					if n > good && random.IntN(10) == 0 {
						took = 2 * DefaultLatency
					}
				}
				if x.attempted(g, 1+random.Uint64N(50), took) != "" {
					stopped = n
				}
			}
			t.Logf("share %v, seed %d: one attempt in ten is slow, and it is stopped after %d", of, seed, stopped-good)
			if stopped <= good {
				t.Errorf("share %v, seed %d: one attempt in ten is slow, and it is not stopped within %d attempts", of, seed, slowWithin[i])
			}
		}
	}
}

// A rest that is often slow, and has few attempts, tolerates a canary that is as slow.
func TestSlowRest(t *testing.T) {
	for _, of := range shares {
		for _, slow := range []float64{0.02, 0.05, 0.2, 0.5} {
			random, x := rand.New(rand.NewPCG(uint64(1000*slow), 6)), comparisonOf(of)
			for n := 0; n < 2000; {
				g, took := Rest, time.Millisecond
				if random.Float64() < of {
					g = Learned
					n++
				}
				if random.Float64() < slow {
					took = time.Duration(random.ExpFloat64() * float64(time.Second))
				}
				if why := x.attempted(g, 1+random.Uint64N(50), took); why != "" {
					t.Errorf("share %v, %v are slow: stopped after %d attempts of the canary: %s", of, slow, n, why)
					break
				}
			}
		}
	}
}

// An owner whose pods take long, as with many affinities, does not stop the canary by itself.
func TestSlowOwner(t *testing.T) {
	for _, bad := range []int{1, 2} {
		random, x, stopped := rand.New(rand.NewPCG(1, 8)), comparisonOf(0.2), false
		for n := 0; n < 3000 && !stopped; {
			g, took, owner := Rest, time.Millisecond, random.IntN(20)
			if random.Float64() < 0.2 {
				g = Learned
				n++
				if owner < bad {
					took = time.Second
				}
			}
			stopped = x.attempted(g, uint64(1+owner), took) != ""
		}
		if stopped != (bad > 1) {
			t.Errorf("%d slow owners: stopped is %v", bad, stopped)
		}
	}
}
