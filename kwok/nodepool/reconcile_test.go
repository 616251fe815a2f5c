package nodepool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
	"pgregory.net/rapid"

	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
)

func poolGen() *rapid.Generator[[]Pool] {
	return rapid.Custom(func(t *rapid.T) []Pool {
		names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "gpu"}), 0, 3, rapid.ID).Draw(t, "names")
		pools := make([]Pool, len(names))
		for i, n := range names {
			pools[i] = Pool{
				Name: n, Count: rapid.IntRange(0, 4).Draw(t, "count"),
				Capacity: corev1.ResourceList{
					corev1.ResourceCPU:    *resource.NewQuantity(rapid.Int64Range(1, 3).Draw(t, "cpu"), resource.DecimalSI),
					corev1.ResourceMemory: resource.MustParse("1Gi"),
				},
				Labels: rapid.MapOfN(rapid.SampledFrom([]string{"x", "y"}), rapid.SampledFrom([]string{"", "1"}), 0, 2).Draw(t, "labels"),
				Zones:  rapid.SliceOfN(rapid.SampledFrom([]string{"z1", "z2"}), 0, 2).Draw(t, "zones"),
			}
			for _, k := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"t1", "t2"}), 0, 2, rapid.ID).Draw(t, "taints") {
				pools[i].Taints = append(pools[i].Taints, corev1.Taint{Key: k, Effect: corev1.TaintEffectNoSchedule})
			}
		}
		return pools
	})
}

// TestReconcileReachesThePools makes random changes of the pools. After each change, the nodes equal a new cluster's nodes, apart from
// foreign additions. A foreign node stays as it was, and a second Reconcile changes nothing.
func TestReconcileReachesThePools(t *testing.T) {
	foreignTaint := corev1.Taint{Key: "others/maintenance", Effect: corev1.TaintEffectNoSchedule}
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		foreign := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "c-0", Labels: map[string]string{"x": "theirs"}}}
		cs := fake.NewClientset(foreign)
		for range rapid.IntRange(1, 4).Draw(t, "steps") {
			pools := poolGen().Draw(t, "pools")
			fatal.Value(Reconcile(ctx, cs, pools))(t)
			again, err := Reconcile(ctx, cs, pools)
			if err != nil || again != (Result{Unchanged: Nodes(pools)}) {
				t.Fatalf("the second time it did %+v, %v", again, err)
			}
			list := fatal.Value(cs.CoreV1().Nodes().List(ctx, metav1.ListOptions{}))(t)
			got := map[string]*corev1.Node{}
			for i := range list.Items {
				got[list.Items[i].Name] = &list.Items[i]
			}
			if d := cmp.Diff(foreign, got["c-0"]); d != "" {
				t.Fatalf("the foreign node changed: %s", d)
			}
			delete(got, "c-0")
			for _, p := range pools {
				for i := range p.Count {
					n := got[p.NodeName(i)]
					delete(got, p.NodeName(i))
					checkNode(t, p.Node(i), n, foreignTaint)
					// Others add a label and a taint.
					n.Labels["others/label"] = "kept"
					n.Spec.Taints = append(n.Spec.Taints, foreignTaint)[:len(n.Spec.Taints)+1]
					fatal.Value(cs.CoreV1().Nodes().Update(ctx, dedupe(n), metav1.UpdateOptions{}))(t)
				}
			}
			if len(got) > 0 {
				t.Fatalf("surplus nodes are left: %v", maps.Keys(got))
			}
		}
	})
}

func dedupe(n *corev1.Node) *corev1.Node {
	seen := map[string]bool{}
	var out []corev1.Taint
	for _, t := range n.Spec.Taints {
		if !seen[t.Key] {
			out = append(out, t)
		}
		seen[t.Key] = true
	}
	n.Spec.Taints = out
	return n
}

func checkNode(t *rapid.T, want, got *corev1.Node, foreignTaint corev1.Taint) {
	if got == nil {
		t.Fatalf("node %s is missing", want.Name)
	}
	got = got.DeepCopy()
	delete(got.Labels, "others/label")
	taints := each.Filter(got.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key != foreignTaint.Key })
	for _, d := range []string{
		cmp.Diff(want.Labels, got.Labels), cmp.Diff(want.Annotations, got.Annotations),
		cmp.Diff(want.Spec.Taints, taints, cmpopts.EquateEmpty()),
		cmp.Diff(want.Status.Capacity, got.Status.Capacity, quantities), cmp.Diff(want.Status.Allocatable, got.Status.Allocatable, quantities),
	} {
		if d != "" {
			t.Fatalf("node %s: %s", want.Name, d)
		}
	}
}

func TestReconcileLeavesOthersNodesAlone(t *testing.T) {
	cs := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})
	_, err := Reconcile(context.Background(), cs, Default(3))
	if err == nil || !strings.Contains(err.Error(), "node-1") || !strings.Contains(err.Error(), "did not make it") {
		t.Fatalf("got %v", err)
	}
	n, err := cs.CoreV1().Nodes().Get(context.Background(), "node-1", metav1.GetOptions{})
	if err != nil || len(n.Labels) > 0 {
		t.Errorf("the node was changed: %v, %v", n.Labels, err)
	}
}

func TestReconcileRetriesConflicts(t *testing.T) {
	ctx := context.Background()
	cs := fake.NewClientset()
	fatal.Value(Reconcile(ctx, cs, Default(1)))(t)
	conflicts := 2
	cs.PrependReactor("update", "nodes", func(a kubetesting.Action) (bool, runtime.Object, error) {
		if conflicts == 0 {
			return false, nil, nil
		}
		conflicts--
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "node-0", errors.New("changed"))
	})
	pools := Default(1)
	pools[1].Labels = map[string]string{"new": "label"}
	res, err := Reconcile(ctx, cs, pools)
	if err != nil || res != (Result{Updated: 1, Unchanged: 1}) {
		t.Fatalf("%+v, %v", res, err)
	}
	n, err := cs.CoreV1().Nodes().Get(ctx, "node-0", metav1.GetOptions{})
	if err != nil || n.Labels["new"] != "label" || n.Labels["node-role.kubernetes.io/agent"] != "" && conflicts != 0 {
		t.Errorf("labels %v, %d conflicts left, %v", n.Labels, conflicts, err)
	}
}

func TestReconcileReportsFailures(t *testing.T) {
	for _, verb := range []string{"list", "create", "update", "delete"} {
		cs := fake.NewClientset()
		fatal.Value(Reconcile(context.Background(), cs, Default(2)))(t)
		cs.PrependReactor(verb, "nodes", func(kubetesting.Action) (bool, runtime.Object, error) {
			return true, nil, fmt.Errorf("no %s today", verb)
		})
		changed := []Pool{{Name: "new", Count: 1, Capacity: Default(0)[0].Capacity}, Default(1)[1]}
		changed[1].Zones = []string{"z"}
		if _, err := Reconcile(context.Background(), cs, changed); err == nil || !strings.Contains(err.Error(), "no "+verb+" today") {
			t.Errorf("%s: got %v", verb, err)
		}
	}
}

func TestZonesTakeTurns(t *testing.T) {
	p := Pool{Name: "n", Count: 5, Capacity: Default(1)[0].Capacity, Zones: []string{"a", "b"}}
	got := ""
	for i := range p.Count {
		got += p.Node(i).Labels[corev1.LabelTopologyZone]
	}
	if got != "ababa" {
		t.Errorf("zones %s", got)
	}
}

func devicePools() *rapid.Generator[[]Pool] {
	return rapid.Custom(func(t *rapid.T) []Pool {
		p := Pool{Name: "p", Count: rapid.IntRange(0, 3).Draw(t, "nodes"), Capacity: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"),
		}}
		for range rapid.IntRange(0, 3).Draw(t, "kinds") {
			d := Devices{
				Driver: rapid.SampledFrom([]string{"", "gpu.example.com"}).Draw(t, "driver"), Count: rapid.IntRange(1, 10).Draw(t, "devices"),
			}
			switch rapid.IntRange(0, 2).Draw(t, "how") {
			case 1:
				d.Shares = 1000
			case 2:
				d.Memory, d.MIG = resource.MustParse("80Gi"), []string{"1g.10gb", "1g.20gb", "3g.40gb"}
			}
			p.Devices = append(p.Devices, d)
		}
		fatal.If(t, Validate([]Pool{p}))
		return []Pool{p}
	})
}

// TestPublishReachesThePools makes random changes of the pools. After each, every pool of devices is
// complete, in one generation that never falls, and a second Publish writes nothing.
func TestPublishReachesThePools(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx, cs := context.Background(), fake.NewClientset(&resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}})
		latest := map[string]int64{}
		for range rapid.IntRange(1, 3).Draw(t, "steps") {
			pools := devicePools().Draw(t, "pools")
			fatal.Value(Reconcile(ctx, cs, pools))(t)
			fatal.Value(Publish(ctx, cs, pools))(t)
			again, err := Publish(ctx, cs, pools)
			if err != nil || again.Created+again.Updated+again.Deleted != 0 {
				t.Fatalf("again: %+v, %v", again, err)
			}
			want := 1 // theirs
			for i := range pools {
				for n := range pools[i].Count {
					want += len(pools[i].resourceSlices(pools[i].NodeName(n)))
				}
			}
			checkPools(t, cs, want, latest)
		}
	})
}

// checkPools checks that all pools are complete and their generations no older than the latest seen.
func checkPools(t *rapid.T, cs kubernetes.Interface, want int, latest map[string]int64) {
	list, err := cs.ResourceV1().ResourceSlices().List(context.Background(), metav1.ListOptions{})
	if err != nil || len(list.Items) != want {
		t.Fatalf("%d slices, want %d: %v", len(list.Items), want, err)
	}
	slices, devices := map[string]int64{}, map[string]bool{}
	for _, s := range list.Items {
		if s.Name == "theirs" {
			continue
		}
		key := s.Spec.Driver + "/" + s.Spec.Pool.Name
		slices[key]++
		if slices[key] > 1 && s.Spec.Pool.Generation != latest[key] || s.Spec.Pool.Generation < latest[key] {
			t.Fatalf("%s has generation %d after %d", s.Name, s.Spec.Pool.Generation, latest[key])
		}
		latest[key] = s.Spec.Pool.Generation
		for _, d := range s.Spec.Devices {
			if devices[key+d.Name] {
				t.Fatalf("device %s is twice in %s", d.Name, key)
			}
			devices[key+d.Name] = true
		}
	}
	for _, s := range list.Items {
		if key := s.Spec.Driver + "/" + s.Spec.Pool.Name; s.Name != "theirs" && slices[key] != s.Spec.Pool.ResourceSliceCount {
			t.Fatalf("pool %s says %d slices and has %d", key, s.Spec.Pool.ResourceSliceCount, slices[key])
		}
	}
}

// A foreign class is left alone, and the error names it.
func TestPublishLeavesForeignClasses(t *testing.T) {
	theirs := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: DefaultDriver}}
	cs := fake.NewClientset(theirs)
	_, err := Publish(context.Background(), cs, []Pool{{Name: "p", Devices: []Devices{{Count: 1}}}})
	if err == nil || !strings.HasPrefix(err.Error(), "device class gpu.nvidia.com already exists without the label") {
		t.Error(err)
	}
	have, err := cs.ResourceV1().DeviceClasses().Get(context.Background(), DefaultDriver, metav1.GetOptions{})
	if err != nil || len(have.Spec.Selectors) > 0 {
		t.Errorf("%v, %v", have, err)
	}
}

// Two partitions of a device that upstream could allocate together never take more than the device has, and partitions that NVIDIA allows
// together fit.
func TestPartitionsShareCounters(t *testing.T) {
	d := Devices{Count: 1, Memory: resource.MustParse("40Gi"), MIG: []string{"1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"}}
	fits := func(names ...string) bool {
		left := allCounters()
		specs := d.publish(nil, 0)
		for _, name := range names {
			found := false
			for _, device := range specs[1].Devices {
				if device.Name != name {
					continue
				}
				found = true
				for key, c := range device.ConsumesCounters[0].Counters {
					l := left[key]
					l.Value.Sub(c.Value)
					if left[key] = l; l.Value.Sign() < 0 {
						return false
					}
				}
			}
			if !found {
				t.Fatalf("no device %s", name)
			}
		}
		return true
	}
	for _, c := range []struct {
		names string
		want  bool
	}{
		{"gpu-0", true},
		{"gpu-0 gpu-0-mig-1g5gb-6", false},
		{"gpu-0-mig-3g20gb-0 gpu-0-mig-3g20gb-4", true},
		{"gpu-0-mig-4g20gb-0 gpu-0-mig-3g20gb-4", true},
		{"gpu-0-mig-4g20gb-0 gpu-0-mig-3g20gb-0", false},
		{"gpu-0-mig-2g10gb-0 gpu-0-mig-2g10gb-2 gpu-0-mig-2g10gb-4 gpu-0-mig-1g5gb-6", true},
		{"gpu-0-mig-2g10gb-0 gpu-0-mig-1g5gb-1", false},
		{"gpu-0-mig-7g40gb-0 gpu-0-mig-1g5gb-0", false},
	} {
		if got := fits(strings.Fields(c.names)...); got != c.want {
			t.Errorf("%s: %v", c.names, got)
		}
	}
}

// A node of 20 devices with partitions needs several slices of counters, none over the API's limits.
func TestSlicesKeepLimits(t *testing.T) {
	p := Pool{Devices: []Devices{
		{Count: 20, Memory: resource.MustParse("80Gi"), MIG: []string{"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}},
		{Count: 44},
	}}
	counters := 0
	for _, s := range p.resourceSlices("n") {
		counters += len(s.Spec.SharedCounters)
		if len(s.Spec.SharedCounters) > resourceapi.ResourceSliceMaxCounterSets || len(s.Spec.Devices) > 64 ||
			(len(s.Spec.Devices) > 0) == (len(s.Spec.SharedCounters) > 0) {
			t.Errorf("%s has %d sets of counters and %d devices", s.Name, len(s.Spec.SharedCounters), len(s.Spec.Devices))
		}
	}
	if counters != 20 {
		t.Errorf("%d sets of counters", counters)
	}
}
