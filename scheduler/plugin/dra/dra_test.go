package dra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/cards"
	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/fatal"
)

const driver = "gpu.example.com"

// sliceOf returns a slice of node n with shared devices of 1000 shares.
func sliceOf(name string, count int64, devices ...string) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceSliceSpec{
		Driver: driver, NodeName: ptr.To("n"), Pool: resourceapi.ResourcePool{Name: "n", Generation: 1, ResourceSliceCount: count},
	}}
	for _, d := range devices {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{
			Name: d, AllowMultipleAllocations: ptr.To(true),
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"shares": {Value: resource.MustParse("1000")}},
		})
	}
	return s
}

func noState() *structured.AllocatedState {
	return &structured.AllocatedState{AllocatedDevices: sets.New[structured.DeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection()}
}

func use(state *structured.AllocatedState, device, shares string) {
	state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(structured.MakeDeviceID(driver, "n", device),
		map[resourceapi.QualifiedName]resource.Quantity{"shares": resource.MustParse(shares)}))
}

type classes struct{ *resourceapi.DeviceClass }

func (c classes) Get(string) (*resourceapi.DeviceClass, error) { return c.DeviceClass, nil }
func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	return []*resourceapi.DeviceClass{c.DeviceClass}, nil
}

// allocate returns the devices that upstream's allocator takes for a number of devices with 100 shares each.
func allocate(t fatal.TB, in []*resourceapi.ResourceSlice, state *structured.AllocatedState, count int64) (out []string) {
	class := classes{&resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}}
	a := fatal.Value(structured.NewAllocator(context.Background(),
		structured.Features{ConsumableCapacity: true, PartitionableDevices: true, DeviceTaints: true, PrioritizedList: true},
		*state, class, in, cel.NewCache(10, cel.Features{EnableConsumableCapacity: true})))(t)
	claim := &resourceapi.ResourceClaim{}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
		Capacity: &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"shares": resource.MustParse("100")}},
	}}}
	results := fatal.Value(a.Allocate(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
		[]*resourceapi.ResourceClaim{claim}))(t)
	for _, r := range results {
		for _, d := range r.Devices.Results {
			out = append(out, d.Device)
		}
	}
	slices.Sort(out)
	return out
}

// However devices are spread over slices, upstream's allocator takes the chosen ones, and changes nothing for the
// pods that do not fit there.
func TestChoiceComesFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.IntRange(1, 3).Draw(t, "slices")
		var in []*resourceapi.ResourceSlice
		for i := range parts {
			var devices []string
			for j := range rapid.IntRange(1, 4).Draw(t, "devices") {
				devices = append(devices, fmt.Sprintf("gpu-%d", 10*i+j))
			}
			in = append(in, sliceOf(fmt.Sprint("s-", rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"), i), int64(parts), devices...))
		}
		node := newNode(newShape(slices.Clone(in)), noState())
		on := cluster.DeviceSet(rapid.Uint64Range(1, 1<<len(node.used)-1).Draw(t, "chosen"))
		c := &choice{node: node, name: "n", on: on}
		var want []string
		for i, card := range node.shape.Cards {
			if on.Has(i) {
				want = append(want, card.Name)
			}
		}
		slices.Sort(want)
		if got := allocate(t, c.arrange(in), noState(), int64(len(want))); !slices.Equal(got, want) {
			t.Fatalf("took %v, want %v", got, want)
		}
		full := noState()
		for _, name := range want {
			use(full, name, "950")
		}
		rest := int64(len(node.used) - len(want))
		if got := allocate(t, c.arrange(in), full, max(rest, 1)); int64(len(got)) != rest {
			t.Fatalf("took %v where the chosen ones are full", got)
		}
	})
}

// The chosen partition comes first, then the others of its card, and then those of other cards.
func TestPartitionComesFirst(t *testing.T) {
	shape := &shape{Set: &cards.Set{Cards: []cards.Card{{Driver: driver, Pool: "n", Name: "gpu-0", MIG: true},
		{Driver: driver, Pool: "n", Name: "gpu-1", MIG: true}}}}
	in := sliceOf("a", 1)
	for card := range 2 {
		for _, start := range []int{0, 2, 4} {
			d := resourceapi.Device{Name: fmt.Sprintf("gpu-%d-%d", card, start)}
			in.Spec.Devices = append(in.Spec.Devices, d)
			shape.Devices = append(shape.Devices, cards.Device{Device: &d, Driver: driver, Card: card, Profile: mig.Two, Slices: mig.Two.On(start)})
		}
	}
	c := &choice{node: &Node{shape: shape}, name: "n", on: cluster.Device(1), at: mig.Two.On(4)}
	var got []string
	for _, s := range c.arrange([]*resourceapi.ResourceSlice{in}) {
		for _, d := range s.Spec.Devices {
			got = append(got, d.Name)
		}
		if s.Spec.Pool.ResourceSliceCount != 3 {
			t.Errorf("the pool has %d slices", s.Spec.Pool.ResourceSliceCount)
		}
	}
	if want := []string{"gpu-1-4", "gpu-1-0", "gpu-1-2", "gpu-0-0", "gpu-0-2", "gpu-0-4"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A pool whose slices contradict each other, or are not all there, has no devices for policies, as for upstream.
func TestContradictions(t *testing.T) {
	old := sliceOf("old", 1, "gpu-9")
	old.Spec.Pool.Generation = 0
	foreign := sliceOf("f", 1, "gpu-0")
	foreign.Spec.Pool.Name = "other"
	for _, c := range []struct {
		name string
		in   []*resourceapi.ResourceSlice
		want string
	}{
		{"complete", []*resourceapi.ResourceSlice{sliceOf("a", 2, "gpu-10", "gpu-2"), sliceOf("b", 2, "gpu-0")}, "gpu-0 gpu-2 gpu-10 "},
		{"one is missing", []*resourceapi.ResourceSlice{sliceOf("a", 2, "gpu-0")}, ""},
		{"one too many", []*resourceapi.ResourceSlice{sliceOf("a", 1, "gpu-0"), sliceOf("b", 1, "gpu-1")}, ""},
		{"a device twice", []*resourceapi.ResourceSlice{sliceOf("a", 2, "gpu-0"), sliceOf("b", 2, "gpu-0")}, ""},
		{"an older generation", []*resourceapi.ResourceSlice{old, sliceOf("a", 1, "gpu-0")}, "gpu-0 "},
		{"another pool is complete", []*resourceapi.ResourceSlice{sliceOf("a", 2, "gpu-0"), foreign}, "gpu-0 "},
	} {
		slices.SortFunc(c.in, cards.Compare)
		got := ""
		if s := newShape(c.in); s != nil {
			for _, card := range s.Cards {
				got += card.Name + " "
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	var many []string
	for i := range cluster.MaxDevices + 1 {
		many = append(many, fmt.Sprint("gpu-", i))
	}
	if s := newShape([]*resourceapi.ResourceSlice{sliceOf("a", 1, many...)}); s != nil {
		t.Errorf("a node of %d cards is known", len(s.Cards))
	}
}

// What pods without claims use is not offered to claims, and the given slices stay as they are.
func TestHide(t *testing.T) {
	in := []*resourceapi.ResourceSlice{sliceOf("a", 1, "gpu-0", "gpu-1", "gpu-2")}
	node := newNode(newShape(in), noState())
	view := &View{nodes: map[string]*Node{"n": node}}
	out := hide(in, view, map[string][]int64{"n": {1000, 950, 0}})
	if got := allocate(t, out, noState(), 1); !slices.Equal(got, []string{"gpu-2"}) {
		t.Errorf("took %v", got)
	}
	if got := allocate(t, in, noState(), 3); len(got) != 3 {
		t.Errorf("the slices have changed: %v", got)
	}
	if used := node.Others([]int64{1000, 300, 0}); !slices.Equal(used, []int64{1000, 300, 0}) {
		t.Errorf("others use %v", used)
	}
}

// known is a manager that knows some claims.
type known struct {
	fwk.SharedDRAManager
	fwk.ResourceClaimTracker
	claims  map[string]*resourceapi.ResourceClaim
	pending map[types.UID]*resourceapi.AllocationResult
}

func (k known) ResourceClaims() fwk.ResourceClaimTracker { return k }

func (k known) Get(_, name string) (*resourceapi.ResourceClaim, error) {
	if c, has := k.claims[name]; has {
		return c, nil
	}
	return nil, errors.New("no such claim")
}

func (k known) GetPendingAllocation(uid types.UID) *resourceapi.AllocationResult {
	return k.pending[uid]
}

// A pod on a node counts the cards of its claims, those in flight included, and claims that no pod holds count on the
// node. A second pod with the same claim adds nothing, and neither does a claim of somebody else that a pod names.
func TestPlacedPods(t *testing.T) {
	share := func(device, amount string) *resourceapi.AllocationResult {
		return &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{
			Driver: driver, Pool: "n", Device: device, ShareID: ptr.To(types.UID("s")),
			ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{"shares": resource.MustParse(amount)},
		}}}}
	}
	claim := func(uid string, a *resourceapi.AllocationResult) *resourceapi.ResourceClaim {
		return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid)},
			Status: resourceapi.ResourceClaimStatus{Allocation: a}}
	}
	theirs := claim("theirs", share("gpu-0", "500"))
	theirs.OwnerReferences = []metav1.OwnerReference{{UID: "somebody", Controller: ptr.To(true)}}
	manager := known{
		claims:  map[string]*resourceapi.ResourceClaim{"a": claim("a", share("gpu-0", "500")), "flies": claim("flies", nil), "theirs": theirs},
		pending: map[types.UID]*resourceapi.AllocationResult{"flies": share("gpu-1", "1000")},
	}
	state := noState()
	for device, amount := range map[string]string{"gpu-0": "500", "gpu-1": "1000", "gpu-2": "100"} {
		use(state, device, amount)
	}
	in := []*resourceapi.ResourceSlice{sliceOf("a", 1, "gpu-0", "gpu-1", "gpu-2")}
	view := &View{ledger: &Ledger{manager: manager}, nodes: map[string]*Node{"n": newNode(newShape(in), state)}}
	pod := func(names ...string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "p"}, Spec: corev1.PodSpec{NodeName: "n"}}
		for _, name := range names {
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimName: &name})
			if name == "theirs" { // by a status that the kubelet's user could write
				p.Spec.ResourceClaims[len(p.Spec.ResourceClaims)-1] = corev1.PodResourceClaim{Name: name, ResourceClaimTemplateName: ptr.To("t")}
				p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: name, ResourceClaimName: ptr.To("theirs")}}
			}
		}
		return p
	}
	for _, c := range []struct {
		pod  *corev1.Pod
		want cluster.Resources
	}{
		{pod("a"), cluster.Resources{GPUMilli: 500}},
		{pod("flies"), cluster.Resources{GPU: 1}},
		{pod("a", "flies"), cluster.Resources{GPU: 2}},
		{pod("missing"), cluster.Resources{}},
		{pod("theirs"), cluster.Resources{}},
	} {
		if got := view.Requests(c.pod, cluster.Resources{}); got != c.want {
			t.Errorf("%v requests %+v, want %+v", c.pod.Spec.ResourceClaims, got, c.want)
		}
	}
	n := &cluster.Node{Name: "n"}
	placer := view.Placer(n)
	for _, p := range []*corev1.Pod{pod("a"), pod("a"), pod("flies"), pod("theirs")} {
		if !placer.Has(p) {
			t.Error("a pod with claims is not the placer's")
		}
		placer.Place(n, p, cluster.Resources{MilliCPU: 100})
	}
	placer.Rest(n)
	if !slices.Equal(n.GPUs, []int64{500, 1000, 100}) || n.Requested != (cluster.Resources{MilliCPU: 400, GPU: 1, GPUMilli: 500, Pods: 4}) {
		t.Errorf("devices %v, requested %+v", n.GPUs, n.Requested)
	}
}

// Partitions take of their card what they take of its counters, and a card is busy where a partition overlaps.
func TestPartitions(t *testing.T) {
	counter := func(n int64) map[string]resourceapi.Counter {
		return map[string]resourceapi.Counter{"memory": {Value: *resource.NewQuantity(n, resource.DecimalSI)}}
	}
	part := func(name string, n int64) resourceapi.Device {
		return resourceapi.Device{Name: name, ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: "gpu-0",
			Counters: counter(n)}}}
	}
	sets, devices := sliceOf("a", 2), sliceOf("b", 2)
	sets.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "gpu-0", Counters: counter(8)}}
	devices.Spec.Devices = []resourceapi.Device{part("gpu-0", 8), part("half-0", 4), part("half-1", 4), part("third", 3)}
	s := newShape([]*resourceapi.ResourceSlice{sets, devices})
	if s == nil || len(s.Cards) != 1 || s.Devices[0].Milli != 1000 || s.Devices[1].Milli != 500 || s.Devices[3].Milli != 375 {
		t.Fatalf("%+v", s)
	}
	state := noState()
	state.AllocatedDevices.Insert(s.ids[1])
	n := newNode(s, state)
	for i, free := range []bool{false, false, true, true} {
		if got := n.takes(i, s.partsOf(capacity{}).at(i)); got != free {
			t.Errorf("room for %s: %v", s.Devices[i].Name, got)
		}
	}
	if n.used[0] != 500 {
		t.Errorf("%d thousandths are used", n.used[0])
	}
}

// Partitions that several claims can use, as AMD's and NVIDIA's drivers offer them: the first share takes the counters, so that other
// partitions of the card are not to be had, and further shares take none.
func TestSharedPartitions(t *testing.T) {
	one := map[string]resourceapi.Counter{"partition-mode": {Value: resource.MustParse("1")}}
	sets, devices := sliceOf("a", 2), sliceOf("b", 2, "eighths", "halves")
	sets.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "gpu-0-mutex", Counters: one}}
	for i, n := range []string{"8", "2"} {
		d := &devices.Spec.Devices[i]
		d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "gpu-0-mutex", Counters: one}}
		d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"shares": {
			Value: resource.MustParse(n), RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: ptr.To(resource.MustParse("1"))},
		}}
	}
	devices.Spec.Devices = append(devices.Spec.Devices,
		resourceapi.Device{Name: "whole", ConsumesCounters: devices.Spec.Devices[0].ConsumesCounters})
	in := []*resourceapi.ResourceSlice{sets, devices}
	s := newShape(in)
	for _, c := range []struct {
		shares string // in use, of eighths
		used   int64  // of the card
		free   []bool
	}{
		{"", 0, []bool{true, true, true}},
		{"1", 125, []bool{true, false, false}},
		{"8", 1000, []bool{false, false, false}},
	} {
		state := noState()
		if c.shares != "" {
			use(state, "eighths", c.shares)
		}
		n := newNode(s, state)
		if n.used[0] != c.used {
			t.Errorf("%q shares: %d thousandths are used, want %d", c.shares, n.used[0], c.used)
		}
		for i, free := range c.free {
			if got := n.takes(i, s.partsOf(capacity{}).at(i)); got != free {
				t.Errorf("%q shares: room on %s: %v", c.shares, s.Devices[i].Name, got)
			}
		}
	}
	view := &View{nodes: map[string]*Node{"n": newNode(s, noState())}}
	if out := hide(in, view, map[string][]int64{"n": {300}}); len(out[1].Spec.Devices) != 0 {
		t.Errorf("pods with annotations use the card, and claims are offered %v", out[1].Spec.Devices)
	}
}
