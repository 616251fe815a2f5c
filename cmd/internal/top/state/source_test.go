package state

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func apiNode(name string, labels map[string]string) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status: v1.NodeStatus{
			Allocatable: v1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("256Gi"), "pods": resource.MustParse("110")},
			Conditions:  []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}
}

func apiPod(name, on string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}},
		Spec: v1.PodSpec{SchedulerName: "gnn", NodeName: on, Containers: []v1.Container{{
			Name:      "c",
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}},
		}}},
	}
}

func ended(name, on string, phase v1.PodPhase) *v1.Pod {
	p := apiPod(name, on)
	p.Status.Phase = phase
	return p
}

// eventually waits until a condition holds.
func eventually(t *testing.T, s *Source, what string, ok func(Frame) bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok(s.Frame(All)) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come about: %+v", what, s.Frame(All))
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// streams replaces the client's watches by watches that the test ends.
func streams(client *fake.Clientset, what string) chan *apiwatch.FakeWatcher {
	opened := make(chan *apiwatch.FakeWatcher, 100)
	client.PrependWatchReactor(what, func(ktesting.Action) (bool, apiwatch.Interface, error) {
		w := apiwatch.NewFakeWithOptions(apiwatch.FakeOptions{ChannelSize: 100})
		opened <- w
		return true, w, nil
	})
	return opened
}

func TestSourceFollows(t *testing.T) {
	client := fake.NewClientset(apiNode("a", nil), apiNode("b", nil), apiPod("p", "a"), apiPod("waits", ""), ended("gone", "a", v1.PodSucceeded))
	pods, nodes := streams(client, "pods"), streams(client, "nodes")
	s := fatal.Value(Start(context.Background(), Config{Client: client}))(t)
	defer s.Stop()
	f := s.Frame(All)
	if f.Totals.Nodes != 2 || f.Totals.Pods.Requested != 1 || f.PendingCount != 1 || f.Pending[0].Name != "waits" ||
		f.Totals.CPU != (Usage{Requested: 1000, Allocatable: 128_000}) || f.Lost != nil {
		t.Fatalf("first list: %+v", f)
	}
	podStream, nodeStream := <-pods, <-nodes
	podStream.Modify(apiPod("waits", "b"))
	eventually(t, s, "the binding", func(f Frame) bool {
		return f.PendingCount == 0 && f.Nodes[1].CPU.Requested == 1000 && f.Schedulers[0].Rate > 0
	})
	podStream.Modify(ended("waits", "b", v1.PodFailed))
	podStream.Delete(apiPod("p", "a"))
	eventually(t, s, "the end of both pods", func(f Frame) bool { return f.Totals.CPU.Requested == 0 })
	nodeStream.Add(apiNode("c", nil))
	nodeStream.Delete(apiNode("a", nil))
	eventually(t, s, "the change of nodes", func(f Frame) bool {
		return len(f.Nodes) == 2 && f.Nodes[0].Name == "b" && f.Nodes[1].Name == "c"
	})
}

// Slices and claims are followed too. Without the API or the right to read them, the rest is shown.
func TestDevicesAreFollowed(t *testing.T) {
	name := "a"
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "gpu.nvidia.com", NodeName: &name, Pool: resourceapi.ResourcePool{Name: "a", ResourceSliceCount: 1},
		Devices: []resourceapi.Device{{Name: "gpu-0"}, {Name: "gpu-1"}},
	}}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
	client := fake.NewClientset(apiNode("a", nil), slice, claim)
	claims := streams(client, "resourceclaims")
	s := fatal.Value(Start(context.Background(), Config{Client: client}))(t)
	defer s.Stop()
	if got := s.Frame(0).Totals.GPU; got != (Usage{Allocatable: 2000}) {
		t.Fatalf("first list: %+v", got)
	}
	stream, given := <-claims, claim.DeepCopy()
	given.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Driver: "gpu.nvidia.com", Pool: "a", Device: "gpu-1"}}}}
	stream.Modify(given)
	eventually(t, s, "the allocation", func(f Frame) bool { return f.Totals.GPU.Requested == 1000 && f.Nodes[0].Devices[1] == 1000 })
	stream.Delete(given)
	eventually(t, s, "the end of the claim", func(f Frame) bool { return f.Totals.GPU.Requested == 0 })

	for _, resource := range []string{"resourceslices", "resourceclaims"} {
		forbidden := fake.NewClientset(apiNode("a", nil), slice)
		forbidden.PrependReactor("list", resource, func(ktesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no"))
		})
		s := fatal.Value(Start(context.Background(), Config{Client: forbidden}))(t)
		if f := s.Frame(0); f.Lost != nil || len(f.Nodes) != 1 {
			t.Errorf("without %s: %+v", resource, f)
		}
		s.Stop()
		if f, err := List(context.Background(), Config{Client: forbidden}); err != nil || len(f.Nodes) != 1 {
			t.Errorf("without %s, once: %v, %+v", resource, err, f)
		}
	}
}

func TestSelectorChoosesNodes(t *testing.T) {
	client := fake.NewClientset(apiNode("a", map[string]string{"type": "kwok"}), apiNode("b", nil), apiPod("p", "a"), apiPod("q", "b"))
	cfg := Config{Client: client, Selector: "type=kwok"}
	once := fatal.Value(List(context.Background(), cfg))(t)
	s := fatal.Value(Start(context.Background(), cfg))(t)
	defer s.Stop()
	for _, f := range []Frame{once, s.Frame(0)} {
		if len(f.Nodes) != 1 || f.Nodes[0].Name != "a" || f.Totals.Pods.Requested != 1 || f.Schedulers[0].Bound != 2 {
			t.Errorf("got %+v", f)
		}
	}
}

func TestListReadsEveryPage(t *testing.T) {
	client := fake.NewClientset(apiNode("a", nil))
	const n, page = 25, 10
	client.PrependReactor("list", "pods", func(a ktesting.Action) (bool, runtime.Object, error) {
		opts := a.(ktesting.ListActionImpl).ListOptions
		if opts.Limit != pageSize || opts.FieldSelector != runningPods {
			return true, nil, fmt.Errorf("asked for %+v", opts)
		}
		from := 0
		if opts.Continue != "" {
			if _, err := fmt.Sscan(opts.Continue, &from); err != nil {
				return true, nil, err
			}
		}
		list := &v1.PodList{}
		for i := from; i < min(from+page, n); i++ {
			list.Items = append(list.Items, *apiPod(fmt.Sprint("p-", i), "a"))
		}
		if from+page < n {
			list.Continue = fmt.Sprint(from + page)
		}
		return true, list, nil
	})
	f, err := List(context.Background(), Config{Client: client})
	if err != nil || f.Totals.Pods.Requested != n {
		t.Errorf("%d pods, %v; want %d", f.Totals.Pods.Requested, err, n)
	}
}

var refused = &url.Error{
	Op: "Get", URL: "https://127.0.0.1:1/api/v1/nodes",
	Err: &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
}

func TestFirstFailureCarriesItsCode(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for _, c := range []struct {
		name string
		err  error
		want int
		hint string
	}{
		{"refused", refused, exit.Unreachable, "kwokcluster status"},
		{"forbidden", apierrors.NewForbidden(pods, "", errors.New("no")), exit.Kubeconfig, "may not list pods"},
		{"unauthorized", apierrors.NewUnauthorized("expired"), exit.Kubeconfig, "credentials"},
		{"server error", apierrors.NewInternalError(errors.New("boom")), exit.Internal, ""},
	} {
		for how, look := range map[string]func(context.Context, Config) error{
			"Start": func(ctx context.Context, cfg Config) error { _, err := Start(ctx, cfg); return err },
			"List":  func(ctx context.Context, cfg Config) error { _, err := List(ctx, cfg); return err },
		} {
			client := fake.NewClientset()
			client.PrependReactor("list", "pods", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, c.err })
			err := look(context.Background(), Config{Client: client})
			if exit.Code(err) != c.want || !errors.Is(err, c.err) {
				t.Errorf("%s, %s: code %d (%v), want %d", how, c.name, exit.Code(err), err, c.want)
			}
			var e *exit.Error
			if errors.As(err, &e) && (c.hint == "" || !strings.Contains(e.Hint, c.hint)) {
				t.Errorf("%s, %s: hint %q", how, c.name, e.Hint)
			}
		}
	}
}

func TestCancelledStart(t *testing.T) {
	client := fake.NewClientset()
	ctx, cancel := context.WithCancel(context.Background())
	client.PrependReactor("list", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
		cancel()
		return true, nil, ctx.Err()
	})
	if _, err := Start(ctx, Config{Client: client}); !errors.Is(err, context.Canceled) {
		t.Errorf("Start: %v", err)
	}
	if _, err := List(ctx, Config{Client: client}); exit.Code(err) != exit.Interrupted {
		t.Errorf("List: %v", err)
	}
}

// TestOutage: if the server stops answering, the frame says since when. After its return, the figures
// include what changed in between.
func TestOutage(t *testing.T) {
	client := fake.NewClientset(apiNode("a", nil), apiPod("p", "a"), apiPod("waits", ""))
	var down, forgetful atomic.Bool
	react := func(ktesting.Action) (bool, runtime.Object, error) {
		if down.Load() {
			return true, nil, refused
		}
		return false, nil, nil
	}
	client.PrependReactor("list", "*", react)
	opened := make(chan *apiwatch.FakeWatcher, 100)
	client.PrependWatchReactor("*", func(ktesting.Action) (bool, apiwatch.Interface, error) {
		if down.Load() {
			return true, nil, refused
		}
		w := apiwatch.NewFakeWithOptions(apiwatch.FakeOptions{ChannelSize: 10})
		if forgetful.Load() {
			w.Error(&apierrors.NewResourceExpired("too old").ErrStatus)
			return true, w, nil
		}
		opened <- w
		return true, w, nil
	})
	s := fatal.Value(Start(context.Background(), Config{Client: client, retry: time.Millisecond}))(t)
	defer s.Stop()
	before := time.Now()
	var all []*apiwatch.FakeWatcher // of nodes, pods, slices and claims
	for range 4 {
		all = append(all, <-opened)
	}
	down.Store(true)
	for _, w := range all {
		w.Stop()
	}
	eventually(t, s, "the outage", func(f Frame) bool { return f.Lost != nil })
	f := s.Frame(0)
	if f.Lost.Reason != "connection refused" || f.Lost.Since.Before(before) || f.Totals.Pods.Requested != 1 {
		t.Errorf("during the outage: %+v, %+v", f.Lost, f.Totals)
	}
	since := f.Lost.Since
	bound := apiPod("waits", "a")
	bound.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	fatal.If(t, client.Tracker().Update(v1.SchemeGroupVersion.WithResource("pods"), bound, "default"))
	if f := s.Frame(0); f.Lost == nil || !f.Lost.Since.Equal(since) {
		t.Errorf("the outage began at %v, now it says %+v", since, f.Lost)
	}
	// A fake has no events since the old version. A real server that no longer knows that version
	// answers "expired", and the source lists again.
	forgetful.Store(true)
	down.Store(false)
	eventually(t, s, "the recovery", func(f Frame) bool {
		return f.Lost == nil && f.PendingCount == 0 && f.Totals.Pods.Requested == 2 && f.Schedulers[0].Rate > 0
	})
}

func TestValidate(t *testing.T) {
	if _, err := Start(context.Background(), Config{}); err == nil {
		t.Error("no client: no error")
	}
	if err := (Config{Selector: "a==="}).Validate(); exit.Code(err) != exit.Usage {
		t.Errorf("selector: %v", err)
	}
	if err := (Config{retry: -1}).Validate(); err == nil {
		t.Error("negative pause: no error")
	}
}

// TestStrippingLosesNothing: an object gives the same sums whether it comes from a list or a watch.
func TestStrippingLosesNothing(t *testing.T) {
	p := apiPod("p", "a")
	want := podOf(p)
	once := fatal.Value(stripPod(p))(t)
	twice := fatal.Value(stripPod(once))(t)
	listed := stripList(&v1.PodList{Items: []v1.Pod{*p}}).Items[0]
	for _, got := range []Pod{once, twice, listed.(*strippedPod).Pod, listed.DeepCopyObject().(*strippedPod).Pod} {
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("-want +got\n%s", d)
		}
	}
	c := New()
	for _, s := range []cache.TransformingStore{nodeStore(c), podStore(c, time.Now), sliceStore(c), claimStore(c)} {
		if _, err := s.Transformer()("text"); err == nil || s.Update("text") == nil {
			t.Error("a text passed")
		}
	}
}
