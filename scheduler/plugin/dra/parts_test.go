package dra

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/cards"
	"gnnsched/internal/fatal"
)

// takesDirectly computes whether a request can still get device i of a node: from the slices and the allocations alone, with nothing
// remembered.
func takesDirectly(n *Node, i int, asked *resourceapi.CapacityRequirements) bool {
	d := &n.shape.Devices[i]
	if d.Shared() {
		if n.shares[i]+cards.Consumed(d.Device, asked) > cluster.DeviceMilli {
			return false
		}
	} else if n.busy[i] || lacks(d.Device, asked) {
		return false
	}
	whole := n.shape.Cards[d.Card].Counters
	if whole == nil || n.busy[i] {
		return true
	}
	taken := cards.Counters(d.ConsumesCounters[0].Counters)
	for j, other := range n.shape.Devices {
		if other.Card == d.Card && n.busy[j] {
			for name, c := range other.ConsumesCounters[0].Counters {
				taken[name] += c.Value.MilliValue()
			}
		}
	}
	for name, t := range taken {
		if t > whole[name] {
			return false
		}
	}
	return true
}

// lacks reports whether a device that is not shared has less than a request asks for.
func lacks(d *resourceapi.Device, asked *resourceapi.CapacityRequirements) bool {
	for _, name := range []resourceapi.QualifiedName{"shares", "memory", "other"} {
		if asked == nil {
			return false
		}
		amount, asks := asked.Requests[name]
		capacity, has := d.Capacity[name]
		if asks && (!has || amount.Cmp(capacity.Value) > 0) {
			return true
		}
	}
	return false
}

// sizeDirectly computes which part of its card a device gives to a request.
func sizeDirectly(d *cards.Device, asked *resourceapi.CapacityRequirements) int64 {
	if d.Shared() {
		return d.OfCard(cards.Consumed(d.Device, asked))
	}
	return d.Milli
}

func drawQuantity(t *rapid.T, label string) resource.Quantity {
	amount := strconv.Itoa(rapid.IntRange(0, 1200).Draw(t, label))
	return resource.MustParse(amount + rapid.SampledFrom([]string{"", "", "m", "k", "Ki", "Mi"}).Draw(t, label+" unit"))
}

func drawPolicy(t *rapid.T) *resourceapi.CapacityRequestPolicy {
	switch rapid.IntRange(0, 3).Draw(t, "policy") {
	case 1:
		return &resourceapi.CapacityRequestPolicy{Default: ptr.To(drawQuantity(t, "default"))}
	case 2:
		return &resourceapi.CapacityRequestPolicy{Default: ptr.To(drawQuantity(t, "default")),
			ValidValues: []resource.Quantity{resource.MustParse("100"), drawQuantity(t, "valid")}}
	case 3:
		return &resourceapi.CapacityRequestPolicy{ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: ptr.To(drawQuantity(t, "least")),
			Step: ptr.To(resource.MustParse("50"))}}
	}
	return nil
}

// drawSlices draws a pool of whole devices, shared devices, partitions and partitions that are shared.
func drawSlices(t *rapid.T) []*resourceapi.ResourceSlice {
	sets, devices := sliceOf("a", 2), sliceOf("b", 2)
	counters := func(label string, most int) map[string]resourceapi.Counter {
		out := map[string]resourceapi.Counter{}
		for _, name := range []string{"memory", "links"} {
			out[name] = resourceapi.Counter{Value: *resource.NewQuantity(int64(rapid.IntRange(0, most).Draw(t, label)), resource.DecimalSI)}
		}
		return out
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "sets") {
		sets.Spec.SharedCounters = append(sets.Spec.SharedCounters,
			resourceapi.CounterSet{Name: fmt.Sprint("set-", i), Counters: counters("whole", 9)})
	}
	for i := range rapid.IntRange(1, 9).Draw(t, "devices") {
		d := resourceapi.Device{Name: fmt.Sprint("gpu-", i)}
		if n := len(sets.Spec.SharedCounters); n > 0 && rapid.Bool().Draw(t, "partition") {
			set := sets.Spec.SharedCounters[rapid.IntRange(0, n-1).Draw(t, "set")].Name
			d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: set, Counters: counters("takes", 5)}}
		}
		shared := rapid.Bool().Draw(t, "shared")
		if shared {
			d.AllowMultipleAllocations = ptr.To(true)
		}
		if shared || rapid.Bool().Draw(t, "has capacities") {
			d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}
			for _, name := range []resourceapi.QualifiedName{"shares", "memory"}[:rapid.IntRange(1, 2).Draw(t, "capacities")] {
				d.Capacity[name] = resourceapi.DeviceCapacity{Value: drawQuantity(t, "capacity"), RequestPolicy: drawPolicy(t)}
			}
		}
		devices.Spec.Devices = append(devices.Spec.Devices, d)
	}
	return []*resourceapi.ResourceSlice{sets, devices}
}

func drawAsked(t *rapid.T) *resourceapi.CapacityRequirements {
	if rapid.IntRange(0, 4).Draw(t, "asked") == 0 {
		return nil
	}
	r := &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{}}
	for _, name := range []resourceapi.QualifiedName{"shares", "memory", "other"} {
		if rapid.Bool().Draw(t, "asks") {
			r.Requests[name] = drawQuantity(t, string(name))
		}
	}
	return r
}

// However claims and allocations follow each other on the same slices, what a shape and its nodes remember is what they would compute.
func TestRememberedRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newShape(drawSlices(t))
		if s == nil {
			t.Skip("no cards")
		}
		var asked []*resourceapi.CapacityRequirements
		for range rapid.IntRange(1, 5).Draw(t, "requests") {
			asked = append(asked, drawAsked(t))
		}
		for range rapid.IntRange(1, 4).Draw(t, "states") {
			n := newNode(s, drawState(t, s))
			for range rapid.IntRange(1, 6).Draw(t, "pods") {
				r := rapid.SampledFrom(asked).Draw(t, "request")
				parts := s.partsOf(capacityOf(r))
				for i := range s.Devices {
					if got, want := n.takes(i, parts.at(i)), takesDirectly(n, i, r); got != want {
						t.Fatalf("room for %+v on %s: %v, want %v", r, s.Devices[i].Name, got, want)
					}
					if got, want := sizeOf(&s.Devices[i], parts.at(i)), sizeDirectly(&s.Devices[i], r); got != want {
						t.Fatalf("%+v takes %d of %s, want %d", r, got, s.Devices[i].Name, want)
					}
				}
			}
		}
	})
}

// drawState draws allocations of the devices: whole, or shares of them.
func drawState(t *rapid.T, s *shape) *structured.AllocatedState {
	state := noState()
	for i := range s.Devices {
		switch {
		case !rapid.Bool().Draw(t, "busy"):
		case s.Devices[i].Shared():
			use(state, s.Devices[i].Name, fmt.Sprint(rapid.IntRange(0, 1000).Draw(t, "used")))
		default:
			state.AllocatedDevices.Insert(s.ids[i])
		}
	}
	return state
}

// Requests with the same amounts have one key, and others have others. A shape remembers a bounded number of them, and stays right.
func TestManyCapacities(t *testing.T) {
	s := newShape([]*resourceapi.ResourceSlice{sliceOf("a", 1, "gpu-0", "gpu-1")})
	asked := func(amount int) *resourceapi.CapacityRequirements {
		return &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"shares": *resource.NewQuantity(int64(amount), resource.DecimalSI)}}
	}
	if a, b := capacityOf(asked(7)), capacityOf(asked(7)); a.key != b.key || a.key == capacityOf(asked(8)).key ||
		a.key == capacityOf(nil).key {
		t.Errorf("keys %q and %q", a.key, b.key)
	}
	for i := range 3 * maxSizes {
		amount := i%(2*maxSizes) + 1
		if got := s.partsOf(capacityOf(asked(amount))); !slices.Equal(got, partSizes{int16(amount), int16(amount)}) {
			t.Fatalf("%d shares take %v", amount, got)
		}
		if len(s.sizes) > maxSizes {
			t.Fatalf("%d capacities are remembered", len(s.sizes))
		}
	}
}

// staleHost is a profile whose only DeviceClass serves example.com/gpu.
type staleHost struct {
	fwk.Handle
	client kubernetes.Interface
}

func (h staleHost) ClientSet() kubernetes.Interface { return h.client }
func (h staleHost) ProfileName() string             { return "stale" }

// staleClasses are its classes.
type staleClasses struct{ fwk.SharedDRAManager }

func (c staleClasses) DeviceClassResolver() fwk.DeviceClassResolver { return c }
func (staleClasses) GetDeviceClass(name v1.ResourceName) *resourceapi.DeviceClass {
	if name == "example.com/gpu" {
		return &resourceapi.DeviceClass{}
	}
	return nil
}

// The API server is asked only about pods whose status the cache may not have yet, and written to only if a name must go.
func TestClearStale(t *testing.T) {
	controller := true
	given := []*resourceapi.ResourceClaim{{ObjectMeta: metav1.ObjectMeta{
		Annotations:     map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"},
		OwnerReferences: []metav1.OwnerReference{{UID: "u", Controller: &controller}},
	}}}
	for name, c := range map[string]struct {
		cached, actual bool // the status names a claim
		requests       v1.ResourceName
		given          []*resourceapi.ResourceClaim
		asked, cleared bool
		keeps          bool // the API server keeps the name
	}{
		"nothing to do":              {requests: v1.ResourceCPU},
		"cached":                     {cached: true, actual: true, requests: "example.com/gpu", cleared: true},
		"cached, no class serves it": {cached: true, actual: true, requests: "example.com/other", cleared: true},
		"not cached yet":             {actual: true, requests: "example.com/gpu", asked: true, cleared: true},
		"none":                       {requests: "example.com/gpu", asked: true},
		"kept":                       {cached: true, actual: true, requests: "example.com/gpu", cleared: true, keeps: true},
		"its own":                    {cached: true, actual: true, requests: "example.com/gpu", given: given},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u"}}
			requests := v1.ResourceList{c.requests: resource.MustParse("1")}
			pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: requests}}}
			named := &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "gone"}
			actual := pod.DeepCopy()
			if c.actual {
				actual.Status.ExtendedResourceClaimStatus = named
			}
			if c.cached {
				pod.Status.ExtendedResourceClaimStatus = named
			}
			client := fake.NewClientset(actual)
			if c.keeps {
				client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, actual, nil })
			}
			p := &plugin{handle: staleHost{client: client}, manager: &manager{SharedDRAManager: staleClasses{}}}
			set.Register()
			if err := p.clearStale(t.Context(), pod, &reserved{given: c.given}); (err != nil) != c.keeps || p.stuck(pod) != c.keeps {
				t.Fatalf("%v, stuck: %v", err, p.stuck(pod))
			}
			var asked, cleared bool
			for _, a := range client.Actions() {
				asked = asked || a.GetVerb() == "get"
				cleared = cleared || a.GetVerb() == "patch" && a.GetSubresource() == "status"
			}
			is := fatal.Value(client.CoreV1().Pods("n").Get(t.Context(), "p", metav1.GetOptions{}))(t)
			left := is.Status.ExtendedResourceClaimStatus
			if asked != c.asked || cleared != c.cleared || (left != nil) != (c.actual && !c.cleared || c.keeps) {
				t.Errorf("asked %v, cleared %v; its status names %v", asked, cleared, left)
			}
		})
	}
}

// A pod that another plugin refuses before LearnedDevices looks at it is unschedulable, and no error.
func TestPostFilterOfARefusedPod(t *testing.T) {
	_, status := (&plugin{}).PostFilter(t.Context(), framework.NewCycleState(), &v1.Pod{}, framework.NewDefaultNodeToStatus())
	if status.Code() != fwk.Unschedulable {
		t.Errorf("the status is %v", status)
	}
}

// placed returns whole devices with a NUMA node and a PCIe root each: "0a" is on NUMA node 0 and root a, "-" on none that is known.
func placed(where ...string) *resourceapi.ResourceSlice {
	s := sliceOf("a", 1)
	for i, w := range where {
		d := resourceapi.Device{Name: fmt.Sprint("gpu-", i)}
		if w != "-" {
			d.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"numaNode":                        {IntValue: ptr.To(int64(w[0] - '0'))},
				"resource.kubernetes.io/pcieRoot": {StringValue: ptr.To("pci0000:" + w[1:])},
			}
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	return s
}

func cardSet(cards ...int) (on cluster.DeviceSet) {
	for _, i := range cards {
		on |= cluster.Device(i)
	}
	return on
}

// Of idle cards, those are taken that are near to each other, unless the pod's constraints say otherwise or nothing is known.
func TestTogether(t *testing.T) {
	root := "resource.kubernetes.io/pcieRoot"
	for _, c := range []struct {
		name        string
		where       string
		busy, taken []int // by claims, by pods without
		on          cluster.DeviceSet
		count       int64
		constraints []resourceapi.DeviceConstraint
		want        cluster.DeviceSet
	}{
		{name: "nothing is known", where: "- - - -", on: cardSet(0, 1), want: cardSet(0, 1)},
		{name: "one root", where: "0a 0b 0a 1c", on: cardSet(0, 1), want: cardSet(0, 2)},
		{name: "one NUMA node rather than one root more", where: "0a 0b 0c 1d 1d", on: cardSet(0, 1, 2), want: cardSet(0, 1, 2)},
		{name: "the larger group stays whole", where: "0a 0a 0a 1b 1b", on: cardSet(0, 1), want: cardSet(3, 4)},
		{name: "what the policy chose, if it is as good", where: "0a 0a 1b 1b", on: cardSet(2, 3), want: cardSet(2, 3)},
		{name: "claims have the first root", where: "0a 0a 1b 1b", busy: []int{0}, on: cardSet(1, 2), want: cardSet(2, 3)},
		{name: "other pods have the first root", where: "0a 0a 1b 1b", taken: []int{0}, on: cardSet(1, 2), want: cardSet(2, 3)},
		{name: "more than a NUMA node has", where: "0a 0b 1c 1d", on: cardSet(0, 1, 2), want: cardSet(0, 1, 2)},
		{name: "the largest group first", where: "0a 1b 1b 1b 2c", on: cardSet(0, 1, 2, 3), want: cardSet(0, 1, 2, 3)},
		{name: "a constraint", where: "0a 0b 1c 1c", on: cardSet(0, 1),
			constraints: []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(root))}}, want: cardSet(2, 3)},
		{name: "a constraint that cannot be met", where: "0a 0b 1c 1d", on: cardSet(0, 1),
			constraints: []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(root))}}, want: cardSet(0, 1)},
		{name: "a constraint on an attribute that some lack", where: "- - 1c 1c", on: cardSet(0, 1),
			constraints: []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(driver + "/numaNode"))}},
			want:        cardSet(2, 3)},
		{name: "a constraint of another kind", where: "0a 0b 0a 1c", on: cardSet(0, 1),
			constraints: []resourceapi.DeviceConstraint{{DistinctAttribute: ptr.To(resourceapi.FullyQualifiedName(root))}}, want: cardSet(0, 1)},
		{name: "a constraint on another request", where: "0a 0b 0a 1c", on: cardSet(0, 1),
			constraints: []resourceapi.DeviceConstraint{{Requests: []string{"nic"}, MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(root))}},
			want:        cardSet(0, 1)},
		{name: "a constraint on this request", where: "0a 0b 0a 1c", on: cardSet(0, 1),
			constraints: []resourceapi.DeviceConstraint{{Requests: []string{"nic", "gpu"},
				MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(root))}}, want: cardSet(0, 2)},
		{name: "one card", where: "0a 0a", on: cardSet(1), want: cardSet(1)},
		{name: "the policy chose fewer", where: "0a 0b 0a", on: cardSet(0, 1), count: 3, want: cardSet(0, 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := []*resourceapi.ResourceSlice{placed(strings.Fields(c.where)...)}
			state := noState()
			s := newShape(in)
			for _, i := range c.busy {
				state.AllocatedDevices.Insert(s.ids[i])
			}
			if c.count == 0 {
				c.count = int64(c.on.Len())
			}
			a := &Ask{cel: cel.NewCache(1, cel.Features{}), wants: []want{{request: "gpu", count: c.count}}, sizes: []int64{1000}}
			a.match.add(a.wants, 0, c.constraints)
			taken := make([]int64, len(s.Cards))
			for _, i := range c.taken {
				taken[i] = 500
			}
			if got := a.together(context.Background(), newNode(s, state), c.on, func() []int64 { return taken }); got != c.want {
				t.Errorf("took %b, want %b", got, c.want)
			}
		})
	}
}

// Cards of another model or driver, or without a device for the pod, are no alternative.
func TestNoAlternative(t *testing.T) {
	in := placed("0a", "0b", "0a", "0a")
	in.Spec.Devices[2].Attributes["productName"] = resourceapi.DeviceAttribute{StringValue: ptr.To("other")}
	in.Spec.Devices[3].Taints = []resourceapi.DeviceTaint{{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	a := &Ask{cel: cel.NewCache(1, cel.Features{}), wants: []want{{request: "gpu", count: 2}}, sizes: []int64{1000}}
	none := func() []int64 { return nil }
	if got := a.together(context.Background(), newNode(newShape([]*resourceapi.ResourceSlice{in}), noState()), cardSet(0, 1),
		none); got != cardSet(0, 1) {
		t.Errorf("took %b", got)
	}
	theirs := placed("0a", "0b")
	theirs.Spec.Driver, theirs.Name = "gpu.other.example.com", "b"
	two := newShape([]*resourceapi.ResourceSlice{placed("0a", "0b"), theirs})
	if got := a.together(context.Background(), newNode(two, noState()), cardSet(0, 1), none); got != cardSet(0, 1) {
		t.Errorf("took %b of two drivers", got)
	}
	if got := a.together(context.Background(), newNode(two, noState()), cardSet(0, 2), none); got != cardSet(0, 2) {
		t.Errorf("took %b where the policy mixed drivers", got)
	}
}

// The attribute with the partitions of NVIDIA's fabric manager of the size comes first.
func TestLevels(t *testing.T) {
	in := placed("0a", "0b", "1c", "1d")
	for i, p := range []int64{7, 8, 7, 8} {
		in.Spec.Devices[i].Attributes[driver+"/partition2"] = resourceapi.DeviceAttribute{IntValue: &p}
	}
	a := &Ask{cel: cel.NewCache(1, cel.Features{}), wants: []want{{count: 2}}, sizes: []int64{1000}}
	s := newShape([]*resourceapi.ResourceSlice{in})
	if got := a.together(context.Background(), newNode(s, noState()), cardSet(0, 1), func() []int64 { return nil }); got != cardSet(0, 2) {
		t.Errorf("took %b", got)
	}
	if got := s.Values("numaNode"); !slices.Equal(got, []string{"0", "0", "1", "1"}) {
		t.Errorf("NUMA nodes %q", got)
	}
	if got := s.levels(nil, 2); len(got) != 3 || got[0][0] != got[0][2] || !slices.Equal(got[1], s.Values("numaNode")) || len(got[2]) != 4 {
		t.Errorf("levels %q", got)
	}
	if got := newShape([]*resourceapi.ResourceSlice{placed("-", "-")}).levels(nil, 2); got != nil {
		t.Errorf("levels %q of devices that are anywhere", got)
	}
}
