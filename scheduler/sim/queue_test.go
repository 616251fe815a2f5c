package sim

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

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

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
)

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
	env, err := New(c)
	fatal.If(t, err)
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
