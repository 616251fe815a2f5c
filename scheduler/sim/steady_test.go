package sim

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gonum.org/v1/gonum/stat"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	clocktest "k8s.io/utils/clock/testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
)

func steadyConfig(t testing.TB, load float64) Config {
	c := openbConfig(t, 0)
	c.OpenB.Steady = &Steady{Load: load, WarmUp: 200, Duration: 2000}
	return c
}

// record is when a pod got its node.
type record struct{ at, until float64 }

// playSteady plays an episode with the first candidates. Whenever a pod is placed, no pod of those that wait before it
// may fit. It returns when each arrival got a node.
func playSteady(t *testing.T, e *Env, seed uint64) map[int]record {
	t.Helper()
	fatal.If(t, e.Reset(seed))
	plan, out := e.Plan(), map[int]record{}
	for !e.Done() {
		pod := e.Next()
		for _, w := range e.waiting[:e.at] {
			if len(e.snapshot.Feasible(plan[w].Pod, nil)) > 0 {
				t.Fatalf("at %v pod %d is tried, but %d before it fits", e.now, pod, w)
			}
		}
		if _, again := out[pod]; again {
			t.Fatalf("pod %d is placed twice", pod)
		}
		out[pod] = record{e.now, max(e.now, float64(e.arrivals.fill)) + plan[pod].Lifetime}
		e.Step(0)
	}
	return out
}

// The figures of an episode are those that follow from when each pod got its node. Pods rejected at the start
// never get one, and the cluster never holds more than it has.
func TestSteadyOutcome(t *testing.T) {
	for _, load := range []float64{0.6, 1.3} {
		e := fatal.Value(New(steadyConfig(t, load)))(t)
		for seed := range uint64(5) {
			placed := playSteady(t, e, seed)
			o, plan, fill := e.Outcome(), e.Plan(), e.arrivals.fill
			from, end := float64(fill)+200, float64(fill)+2200
			overlap := func(a, b float64) float64 { return max(min(b, end)-max(a, from), 0) }
			want := SteadyOutcome{}
			var waits []float64
			for i, p := range plan {
				r, ok := placed[i]
				gpus := float64(p.Pod.Requests.TotalGPUMilli()) / cluster.DeviceMilli
				if ok {
					want.Allocation += gpus * overlap(r.at, r.until) / 2000 / 7
				} else {
					r.at = end
				}
				if i < fill {
					if !ok {
						want.Rejected++
					}
					continue
				}
				want.Waiting += overlap(p.At, r.at) / 2000
				want.GPUHours += gpus * overlap(p.At, r.at) / 3600
				if p.At >= from && p.Pod.Requests.GPUMilli > 0 {
					waits = append(waits, r.at-p.At)
				}
			}
			got := *o.Steady
			share := got.Classes[classShare]
			got.Classes = want.Classes
			if d := cmp.Diff(want, got, cmpopts.EquateApprox(1e-6, 1e-9)); d != "" {
				t.Errorf("load %v, seed %d: %s", load, seed, d)
			}
			slices.Sort(waits)
			if share.Pods != len(waits) || math.Abs(share.P95-waits[int(math.Ceil(0.95*float64(len(waits))))-1]) > 1e-9 {
				t.Errorf("load %v, seed %d: %+v of %d waits", load, seed, share, len(waits))
			}
			hours, unfinished := 0.0, 0
			for c, w := range o.Steady.Classes {
				if c != classNamed {
					hours, unfinished = hours+w.GPUHours, unfinished+w.Unfinished
				}
			}
			if math.Abs(hours-o.Steady.GPUHours) > 1e-6 || unfinished+o.Steady.Rejected != o.Unscheduled {
				t.Errorf("load %v, seed %d: the classes have %v GPU hours and %d pods in the end, all pods %+v and %d", load, seed, hours, unfinished,
					o.Steady, o.Unscheduled)
			}
			if load == 1.3 && (o.Steady.Waiting == 0 || o.Waited == 0) {
				t.Errorf("seed %d: nothing waits at %v", seed, load)
			}
		}
	}
}

// Typical pods that are counted by the time for which they run are those that run long.
func TestTypicalRunning(t *testing.T) {
	c := steadyConfig(t, 1)
	c.OpenB.Pods[4].Deleted = 1e6 // two devices
	e := fatal.Value(New(c))(t)
	if pods := e.TypicalRunning().Pods(); len(pods) != 1 || pods[0].Devices != 2 {
		t.Errorf("the pods that run are %+v", pods)
	}
	if pods := e.Typical().Pods(); len(pods) != len(c.OpenB.Pods) {
		t.Errorf("the pods that arrive are %+v", pods)
	}
}

// The seed alone decides on arrivals, and a copy made on the way ends like its original.
func TestSteadyRepeats(t *testing.T) {
	e := fatal.Value(New(steadyConfig(t, 1.1)))(t)
	playSteady(t, e, 3)
	want := e.Outcome()
	if e.FixedWorkload() {
		t.Error("the workload is the same on every seed")
	}
	var c Env
	for _, steps := range []int{0, 5, 60} {
		fatal.If(t, e.Reset(3))
		for range steps {
			e.Step(0)
		}
		e.CopyTo(&c)
		for range 20 {
			c.Step(len(c.Candidates()) - 1)
		}
		e.CopyTo(&c)
		for _, x := range []*Env{e, &c} {
			for !x.Done() {
				x.Step(0)
			}
			if d := cmp.Diff(want, x.Outcome(), cmpopts.EquateApprox(1e-9, 1e-12)); d != "" {
				t.Errorf("after %d steps: %s", steps, d)
			}
		}
	}
}

// timesOf draws the times of many deployments of three pods, in four fills.
func timesOf(a Arrivals, seed uint64) (times []float64) {
	const n, fills = 6000, 4
	replicas := make([]int, n)
	begin := make([]int, fills)
	for i := range replicas {
		replicas[i] = 3
	}
	for i := range begin {
		begin[i] = i * n / fills
	}
	return a.process().times(rand.New(rand.NewPCG(seed, 2)), a, furtherDeployments{replicas, begin, 3 * n / fills})
}

// gaps returns the gaps between groups that arrive together, and the sizes of the groups.
func gaps(times []float64) (gaps, together []float64) {
	last, n := 0.0, 0.0
	for i, t := range times {
		if i > 0 && t == last {
			n++
			continue
		}
		if i > 0 {
			together = append(together, n)
		}
		gaps = append(gaps, t-last)
		last, n = t, 1
	}
	return gaps, append(together, n)
}

// Every process brings one pod per unit of time, its times ascend, and a seed gives the same times.
func TestArrivalRates(t *testing.T) {
	for _, a := range []Arrivals{{Process: poisson}, {Process: bursts}, {Process: bursts, Size: 0.01}, {Process: diurnal},
		{Process: diurnal, Period: 0.2, Amplitude: 1}, {Process: atOnce}} {
		var rate float64
		const seeds = 20
		for seed := range uint64(seeds) {
			times := timesOf(a, seed)
			for i := range times[1:] {
				if times[i+1] < times[i] {
					t.Fatalf("%+v: %v comes after %v", a, times[i+1], times[i])
				}
			}
			rate += 18000 / times[len(times)-1] / seeds
			if d := cmp.Diff(times, timesOf(a, seed)); d != "" {
				t.Fatalf("%+v: the same seed again: %s", a, d)
			}
		}
		if rate < 0.93 || rate > 1.12 {
			t.Errorf("%+v: %.3f pods a unit of time", a, rate)
		}
	}
}

// The gaps of a Poisson process are exponential: their standard deviation is their mean.
func TestArrivalPatterns(t *testing.T) {
	single, one := gaps(timesOf(Arrivals{Process: poisson}, 1))
	if m, s := stat.MeanStdDev(single, nil); math.Abs(m-3) > 0.15 || math.Abs(s/m-1) > 0.05 || stat.Mean(one, nil) != 1 {
		t.Errorf("poisson: gaps of %.2f ± %.2f", m, s)
	}
	// A tenth of a fill of 4500 pods is 150 deployments of three.
	if _, together := gaps(timesOf(Arrivals{Process: bursts}, 1)); together[0] != 150 || len(together) != 40 {
		t.Errorf("bursts of %v", together)
	}
	if g, together := gaps(timesOf(Arrivals{Process: atOnce}, 1)); !cmp.Equal(g, []float64{4500, 4500, 4500, 4500}) || together[0] != 1500 {
		t.Errorf("at once: %v after %v", together, g)
	}
	// The integral of 1 + A·sin over the first half of a period is 1/2 + A/π of the whole integral.
	var first, all float64
	for seed := range uint64(10) {
		for _, x := range timesOf(Arrivals{Process: diurnal, Amplitude: 0.8}, seed) {
			if x < 3*4500 {
				all++
				if math.Mod(x, 4500) < 2250 {
					first++
				}
			}
		}
	}
	if got, want := first/all, 0.5+0.8/math.Pi; math.Abs(got-want) > 0.02 {
		t.Errorf("diurnal: %.3f of the pods come by day, want %.3f", got, want)
	}
}

// Lifetimes have the configured mean, and residual lifetimes follow renewal theory: their mean is
// E[X²] / 2E[X], and their distribution at x is ∫₀ˣ P(X > s) ds / E[X].
func TestLifetimes(t *testing.T) {
	const n, mean = 200_000, 50
	for _, c := range []struct {
		l         Lifetimes
		tolerance float64
		left      float64 // mean residual lifetime; 0: infinite
	}{
		{Lifetimes{}, 0.01, 50},
		{Lifetimes{Distribution: exponentialEnd, Mean: 2}, 0.01, 100},
		{Lifetimes{Distribution: paretoEnd, Alpha: 4}, 0.01, 50 * 9 / 16.0 * 4 / 2 / 2},
		{Lifetimes{Distribution: paretoEnd, Alpha: 2.5}, 0.03, 0},
		{Lifetimes{Distribution: logNormalEnd, Sigma: 0.5}, 0.01, 25 * math.Exp(0.25)},
		{Lifetimes{Distribution: logNormalEnd}, 0.06, 0},
	} {
		rng := rand.New(rand.NewPCG(5, 5))
		var sum, left, before, below float64
		x := mean / 2.0
		for range n {
			whole := c.l.draw(rng, mean, false)
			sum += whole / n
			below += min(whole, x) / n // E[min(X, x)] = ∫₀ˣ P(X > s) ds
			rest := c.l.draw(rng, mean, true)
			left += rest / n
			if rest <= x {
				before += 1.0 / n
			}
		}
		want := float64(mean)
		if c.l.Mean != 0 {
			want *= c.l.Mean
		}
		if math.Abs(sum/want-1) > c.tolerance {
			t.Errorf("%+v: mean %.2f, want %.2f", c.l, sum, want)
		}
		if c.left != 0 && math.Abs(left/c.left-1) > 0.03 {
			t.Errorf("%+v: %.2f left on average, want %.2f", c.l, left, c.left)
		}
		if want := below / want; math.Abs(before-want) > 0.01 {
			t.Errorf("%+v: of what is left, %.3f is up to %v, want %.3f", c.l, before, x, want)
		}
	}
}

// kube is kube-scheduler's queue with a clock of its own.
type kube struct {
	t     *testing.T
	clock *clocktest.FakeClock
	queue *upstream.PriorityQueue
}

// fits is the plugin that refuses pods.
const fits = "fits"

func newKube(t *testing.T) *kube {
	metrics.Register()
	clock := clocktest.NewFakeClock(time.Unix(1_000_000, 0))
	less := (&queuesort.PrioritySort{}).Less
	deleted := map[fwk.ClusterEvent][]*upstream.QueueingHintFunction{framework.EventAssignedPodDelete: {{
		PluginName:     fits,
		QueueingHintFn: func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) { return fwk.Queue, nil },
	}}}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	q := upstream.NewTestQueue(ctx, less, upstream.WithClock(clock),
		upstream.WithQueueingHintMapPerProfile(upstream.QueueingHintMapPerProfile{"": deleted}))
	return &kube{t, clock, q}
}

func (k *kube) arrive(pod int32) {
	name := fmt.Sprint(pod)
	k.queue.Add(k.t.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}})
}

// try takes the next pod, and puts it back unless it gets a node.
func (k *kube) try(placed bool) (pod int32) {
	k.t.Helper()
	is, err := k.queue.Pop(klog.Background())
	if err != nil {
		k.t.Fatal(err)
	}
	p := any(is).(*framework.QueuedPodInfo) // in Kubernetes 1.37 it could be a group
	if _, err := fmt.Sscan(p.Pod.Name, &pod); err != nil {
		k.t.Fatal(err)
	}
	if placed {
		k.queue.Done(p.Pod.UID)
		return pod
	}
	p.UnschedulablePlugins.Insert(fits)
	if err := k.putBack()(klog.Background(), p, k.queue.SchedulingCycle()); err != nil {
		k.t.Fatal(err)
	}
	k.clock.Step(time.Nanosecond) // so that times of failures differ
	return pod
}

// putBack returns the method that takes a pod that got no node. Kubernetes 1.37 has another name for it.
func (k *kube) putBack() func(klog.Logger, *framework.QueuedPodInfo, int64) error {
	switch q := any(k.queue).(type) {
	case interface {
		AddUnschedulablePodIfNotPresent(klog.Logger, *framework.QueuedPodInfo, int64) error
	}:
		return q.AddUnschedulablePodIfNotPresent
	case interface {
		AddUnschedulableIfNotPresent(klog.Logger, *framework.QueuedPodInfo, int64) error
	}:
		return q.AddUnschedulableIfNotPresent
	}
	k.t.Fatal("the queue takes no pod back")
	return nil
}

// Pods that arrive and that wait are tried in the order of kube-scheduler's own queue, whenever pods are deleted and
// whichever of them then get a node.
func TestOrderIsKubeSchedulers(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		k := newKube(t)
		const pods = 60
		var o Order
		o.Reset(pods)
		var waiting []int32
		begin := k.clock.Now()
		now := func() float64 { return k.clock.Since(begin).Seconds() }
		for next := int32(0); next < pods; {
			k.clock.Step(time.Duration(rng.ExpFloat64() * 2 * float64(time.Second)))
			if rng.IntN(2) == 0 {
				k.arrive(next)
				if got := k.try(false); got != next {
					t.Fatalf("seed %d: pod %d is tried, want %d that has arrived", seed, got, next)
				}
				o.Fail(next, now())
				waiting = append(waiting, next)
				next++
				continue
			}
			o.Sort(waiting, now())
			k.queue.MoveAllToActiveOrBackoffQueue(klog.Background(), framework.EventAssignedPodDelete, &v1.Pod{}, nil, nil)
			var left []int32
			for i, want := range waiting {
				placed := rng.IntN(10) == 0
				if got := k.try(placed); got != want {
					t.Fatalf("seed %d, at %v: try %d is of pod %d, want %d of %v", seed, now(), i, got, want, waiting)
				}
				if !placed {
					o.Fail(want, now())
					left = append(left, want)
				}
			}
			waiting = left
		}
	}
}

func TestCopyTo(t *testing.T) {
	var a, b Order
	a.Reset(2)
	a.Fail(1, 3)
	a.CopyTo(&b)
	a.Fail(1, 4)
	waiting := []int32{1, 0}
	if b.Sort(waiting, 3.5); waiting[0] != 0 { // pod 1 has a backoff until 4
		t.Errorf("the copy sorts %v", waiting)
	}
	if b.Sort(waiting, 5.5); waiting[0] != 0 {
		t.Errorf("without backoffs the order changes to %v", waiting)
	}
	if b.backoff(1) != 1 || a.backoff(1) != 2 {
		t.Errorf("backoffs are %v and %v", b.backoff(1), a.backoff(1))
	}
}

// The waiting share is what the waiting pods request, at every decision, also after nodes are lost.
func TestWaitingShare(t *testing.T) {
	c := scarce()
	c.Load, c.Lose = FloatRange{0.9, 0.95}, 0.2
	var err error
	c.Objective, err = objective.Parse("waiting=2,balance")
	fatal.If(t, err)
	env := fatal.Value(New(c))(t)
	waited := 0
	for seed := range uint64(6) {
		fatal.If(t, env.Reset(seed))
		for !env.Done() {
			env.Step(len(env.Candidates()) - 1)
			var refused []int                                       // the others of the waiting pods are tried at this moment
			for _, pod := range append(env.Waiting(), env.Next()) { // the pod that gets a node now has waited until now
				if pod >= 0 && env.queue.waits[pod] {
					refused = append(refused, pod)
				}
			}
			want := env.WaitingCost(refused)
			if got := 2 * env.queue.share; math.Abs(got-want) > 1e-9 {
				t.Fatalf("seed %d at %v: the queue costs %v, its pods %v", seed, env.Now(), got, want)
			}
			if want > 0 {
				waited++
			}
		}
		rest := env.Outcome().Cost - env.WaitingCost(env.Waiting())
		if balance := (objective.Balance{}).Cost(env.Nodes()); math.Abs(rest-balance) > 1e-9 {
			t.Errorf("seed %d: without waiting the cost is %v, balance %v", seed, rest, balance)
		}
	}
	if waited == 0 {
		t.Error("no pod waited")
	}
}
