package canary

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/plugin/userconfig"
)

const profile = "default-scheduler"

// handle has the methods of fwk.Handle that a Split calls.
type handle struct {
	fwk.Handle
	client *fake.Clientset
	events *events.FakeRecorder
}

func (h handle) ProfileName() string                       { return profile }
func (h handle) ClientSet() kubernetes.Interface           { return h.client }
func (h handle) EventRecorder() events.EventRecorderLogger { return h.events }

// newHandle returns a handle of a cluster with the lease.
func newHandle(annotation string) handle {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: userconfig.ShareLeaseOf(profile)}}
	if annotation != "" {
		lease.Annotations = map[string]string{StoppedAnnotation: annotation}
	}
	return handle{client: fake.NewClientset(lease), events: events.NewFakeRecorder(10)}
}

// newSplit makes a canary of all pods that begins when active is closed, and is closed when the test ends.
func newSplit(t *testing.T, h handle, active <-chan struct{}) *Split {
	t.Helper()
	args := Args{Of: 1}
	fatal.If(t, args.Default())
	s := New(context.Background(), args, h, active, logr.Discard())
	t.Cleanup(s.Close)
	return s
}

func annotation(t *testing.T, h handle) string {
	t.Helper()
	lease, err := h.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), userconfig.ShareLeaseOf(profile), metav1.GetOptions{})
	fatal.If(t, err)
	return lease.Annotations[StoppedAnnotation]
}

// A standby has no share until it schedules, and watches no pods. Then it looks whether another process stopped the
// share, even if that was after the standby began.
func TestStandby(t *testing.T) {
	active := make(chan struct{})
	h := newHandle("")
	s := newSplit(t, h, active)
	p := pod("a", "Job", "b", "c")
	if g := s.GroupOf(p); g != Rest {
		t.Errorf("a pod of a standby is of the %s", g)
	}
	looked := make(chan struct{}, 10)
	h.client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		looked <- struct{}{}
		return true, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{StoppedAnnotation: "because"}}}, nil
	})
	if actions := h.client.Actions(); len(actions) > 0 {
		t.Errorf("a standby sends %v", actions)
	}
	close(active)
	<-looked
	fatal.UntilTrue(t, "the stop to be found", func() bool { return len(h.events.Events) == 0 && stoppedBy(t, reasonEarlier) })
	if g := s.GroupOf(p); g != Rest {
		t.Errorf("a pod is of the %s though the share was stopped", g)
	}
}

// fail returns a pod that failed for a reason.
func fail(uid, reason string) *v1.Pod {
	p := pod("a", "Job", "b", uid)
	p.Name, p.Spec.SchedulerName, p.Status.Phase, p.Status.Reason = uid, profile, v1.PodFailed, reason
	return p
}

// place lets a pod be placed among several nodes.
func place(s *Split, uid string) {
	s.Settled(Placement{Pod: pod("a", "", "", uid), Group: Learned, Result: Bound, Chosen: true})
}

// Pods that the kubelet evicts or refuses stop the share. The stop has an event, and is kept in the cluster though the
// first tries to do so fail.
func TestStopIsKept(t *testing.T) {
	h := newHandle("")
	failing := atomic.Int32{}
	h.client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		if failing.Add(-1) >= 0 {
			return true, nil, errors.New("away")
		}
		return false, nil, nil
	})
	s := newSplit(t, h, nil)
	p := pod("a", "Job", "b", "c")
	fatal.UntilTrue(t, "the share to begin", func() bool { return s.GroupOf(p) == Learned })
	failing.Store(1)
	for i := range leastFailures + 1 {
		if s.GroupOf(p) != Learned {
			t.Fatalf("it is stopped after %d", i)
		}
		uid := fmt.Sprint(i)
		place(s, uid)
		fatal.Value(h.client.CoreV1().Pods("a").Create(t.Context(), fail(uid, []string{"Evicted", "OutOfcpu", "NodeAffinity"}[i%3]),
			metav1.CreateOptions{}))(t)
		fatal.UntilTrue(t, "the lost pod to be counted", func() bool { return !known(s, uid) })
	}
	fatal.UntilTrue(t, "the stop", func() bool { return s.GroupOf(p) == Rest && stoppedBy(t, reasonFailures) })
	fatal.UntilTrue(t, "the annotation", func() bool { return annotation(t, h) != "" })
	event := <-h.events.Events
	if a := annotation(t, h); !strings.Contains(a, "failures: 6 of the last 6 pods of the canary failed") ||
		!strings.Contains(event, "ShareStopped 6 of the last 6") {
		t.Errorf("annotation %q, event %q", a, event)
	}
	s.Settled(Placement{Pod: pod("a", "", "", "x"), Group: Learned, Result: Fallback}) // a pod that was decided before: it stops nothing twice
}

func known(s *Split, uid string) bool {
	_, has := s.placed.Get(types.UID(uid))
	return has
}

// Attempts that take too long stop the share.
func TestSlowStops(t *testing.T) {
	h := newHandle("")
	s := newSplit(t, h, nil)
	p := pod("a", "Job", "b", "c")
	fatal.UntilTrue(t, "the share to begin", func() bool { return s.GroupOf(p) == Learned })
	slowDown(s)
	if s.GroupOf(p) != Rest || !stoppedBy(t, reasonLatency) {
		t.Error("it is not stopped")
	}
	fatal.UntilTrue(t, "the annotation", func() bool { return strings.Contains(annotation(t, h), fmt.Sprint("the limit is ", DefaultLatency)) })
}

// slowDown lets so many attempts of the canary take so long that it stops.
func slowDown(s *Split) {
	for range leastTimes {
		s.Attempted(pod("a", "Job", "b", "c"), time.Second)
	}
}

// breakDown lets so many pods of the canary fail that it stops.
func breakDown(s *Split) {
	for i := range leastFailures + 1 {
		s.Settled(Placement{Pod: pod("a", "", "", fmt.Sprint(i)), Group: Learned, Result: Fallback})
	}
}

// A process that ends just when the share is stopped keeps the stop before it ends, though the API server is away for
// a while. What fails after that stops nothing.
func TestCloseKeepsTheStop(t *testing.T) {
	for _, away := range []int{0, 1, 5} {
		synctest.Test(t, func(t *testing.T) {
			h, failing := newHandle(""), 0
			h.client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
				if failing--; failing >= 0 {
					return true, nil, errors.New("away")
				}
				return false, nil, nil
			})
			ctx, cancel := context.WithCancel(t.Context())
			args := Args{Of: 1}
			fatal.If(t, args.Default())
			s := New(ctx, args, h, nil, logr.Discard())
			synctest.Wait()
			failing = away
			breakDown(s)
			cancel() // as the process does, before it closes the plugins
			s.Close()
			if a := annotation(t, h); !strings.Contains(a, "failures: 6 of the last 6 pods of the canary") {
				t.Errorf("the server fails %d times: the annotation is %q", away, a)
			}
		})
	}
}

// The same while the process waits for an answer about the lease: then it sees the stop and its end at once, and either
// may come first.
func TestCloseKeepsTheStopThatItSeesLate(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			h, hold, looks := newHandle(""), make(chan struct{}), atomic.Bool{}
			h.client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
				if looks.Load() {
					<-hold
				}
				return false, nil, nil
			})
			s := newSplit(t, h, nil)
			synctest.Wait()
			looks.Store(true)
			time.Sleep(lookEach + time.Second)
			breakDown(s)
			s.close()
			looks.Store(false)
			close(hold)
			s.Close()
			if a := annotation(t, h); !strings.Contains(a, "failures: 6 of the last 6 pods of the canary") {
				t.Fatalf("the annotation is %q", a)
			}
		})
	}
}

func TestNothingStopsAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandle("")
		s := newSplit(t, h, nil)
		synctest.Wait()
		s.Close()
		breakDown(s)
		s.Close()
		if a := annotation(t, h); a != "" || len(h.events.Events) > 0 {
			t.Errorf("the annotation is %q", a)
		}
	})
}

// A process that cannot keep the stop ends all the same, and logs the command with which a person keeps it. A shell takes
// the command as the log shows it.
func TestCloseEnds(t *testing.T) {
	for reason, end := range map[string]func(*Split){
		"failures: 6 of the last 6 pods of the canary failed because ": breakDown,
		"latency: 200 of the last 200 attempts of the canary took ":    slowDown,
	} {
		log := &strings.Builder{}
		synctest.Test(t, func(t *testing.T) {
			h, away := newHandle(""), false
			h.client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
				return away, nil, errors.New("away")
			})
			args := Args{Of: 1}
			fatal.If(t, args.Default())
			s := New(t.Context(), args, h, nil, funcr.New(func(_, line string) { fmt.Fprintln(log, line) }, funcr.Options{}))
			synctest.Wait()
			away = true
			end(s)
			begun := time.Now()
			s.Close()
			if took := time.Since(begun); took > lateTime+retryEach {
				t.Errorf("it takes %v", took)
			}
		})
		_, command, _ := strings.Cut(log.String(), `"annotate"="`)
		command, _, _ = strings.Cut(command, "\"\n")
		out, err := exec.CommandContext(t.Context(), "sh", "-c", `kubectl() { printf '%s\n' "$@"; }; `+command).CombinedOutput()
		words := strings.Split(string(out), "\n")
		if err != nil || len(words) != 7 || strings.Join(words[:5], " ") != "-n kube-system annotate lease gnnsched-default-scheduler" {
			t.Fatalf("%v: %q of\n%s", err, words, log)
		}
		if key, why, _ := strings.Cut(words[5], "="); key != StoppedAnnotation || !strings.Contains(why, " "+reason) {
			t.Errorf("the command writes %q", words[5])
		}
	}
}

// A process that takes over waits until the one before has ended, and keeps what that says.
func TestTakeover(t *testing.T) {
	p := pod("a", "Job", "b", "c")
	synctest.Test(t, func(t *testing.T) { // the first ends cleanly, a while after it lost the lease
		h := newHandle("")
		first := newSplit(t, h, nil)
		synctest.Wait()
		second := newSplit(t, h, nil)
		time.Sleep(lateTime)
		if first.GroupOf(p) != Learned || second.GroupOf(p) != Rest {
			t.Fatal("both run the share, or none does")
		}
		first.Close()
		if time.Sleep(2 * retryEach); second.GroupOf(p) != Learned || annotation(t, h) != "" {
			t.Errorf("the second does not run the share: %q", annotation(t, h))
		}
	})
	synctest.Test(t, func(t *testing.T) { // the first stops the share then
		h := newHandle("")
		first := newSplit(t, h, nil)
		synctest.Wait()
		second := newSplit(t, h, nil)
		synctest.Wait()
		breakDown(first)
		synctest.Wait()
		said := annotation(t, h)
		if time.Sleep(2 * otherTime); second.GroupOf(p) != Rest || annotation(t, h) != said || !strings.Contains(said, "failures: ") {
			t.Errorf("the annotation was %q and is %q", said, annotation(t, h))
		}
	})
	synctest.Test(t, func(t *testing.T) { // the first does not end: nobody runs the share
		h := newHandle("")
		first := newSplit(t, h, nil)
		synctest.Wait()
		second := newSplit(t, h, nil)
		time.Sleep(otherTime + 2*lookEach)
		if first.GroupOf(p) != Rest || second.GroupOf(p) != Rest || !strings.Contains(annotation(t, h), " unclean: ") {
			t.Errorf("the share runs on: %q", annotation(t, h))
		}
	})
}

// A process is killed after it stopped the share, before the cluster has the stop; or at any other time. The next one
// cannot tell, and does not begin. Once a person has removed the annotation, it does.
func TestKilled(t *testing.T) {
	for what, before := range map[string]func(*Split){"after the stop": breakDown, "while the share runs": func(*Split) {}} {
		synctest.Test(t, func(t *testing.T) {
			h, killed := newHandle(""), false
			h.client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
				return killed, nil, errors.New("the process is dead")
			})
			first := newSplit(t, h, nil)
			synctest.Wait()
			p := pod("a", "Job", "b", "c")
			if first.GroupOf(p) != Learned {
				t.Fatal("the share does not begin")
			}
			killed = true
			before(first)
			synctest.Wait()
			leases := func(h handle) *coordinationv1.Lease {
				lease, err := h.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), userconfig.ShareLeaseOf(profile), metav1.GetOptions{})
				fatal.If(t, err)
				return lease
			}
			later := handle{client: fake.NewClientset(leases(h)), events: events.NewFakeRecorder(10)}
			second := newSplit(t, later, nil)
			for range 4 * int(otherTime/time.Second) {
				if second.GroupOf(p) != Rest {
					t.Fatalf("%s: the next process begins the share", what)
				}
				time.Sleep(time.Second)
			}
			if a := annotation(t, later); !strings.Contains(a, " unclean: ") || leases(later).Annotations[runningAnnotation] != "" {
				t.Errorf("%s: the annotations are %q", what, leases(later).Annotations)
			}
			second.Close()
			lease := leases(later)
			lease.Annotations = nil
			again := handle{client: fake.NewClientset(lease), events: events.NewFakeRecorder(10)}
			third := newSplit(t, again, nil)
			if synctest.Wait(); third.GroupOf(p) != Learned {
				t.Errorf("%s: the share does not begin again", what)
			}
		})
	}
}

// stoppedBy reports whether the metric says so.
func stoppedBy(t *testing.T, reason string) bool {
	t.Helper()
	v := fatal.Value(testutil.GetGaugeMetricValue(stopped.WithLabelValues(profile, reason)))(t)
	return v == 1
}
