package plan

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/memcluster"
	"gnnsched/scheduler/moves"
	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
)

// claiming is a cluster whose pods have claims.
type claiming struct {
	replay.Source
	slices []*resourceapi.ResourceSlice
	claims []*resourceapi.ResourceClaim
	pods   []*v1.Pod
}

// node adds a node with GPUs in a slice, which are given out whole or in shares.
func (c *claiming) node(name string, gpus int) {
	c.Nodes = append(c.Nodes, node(name))
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.Driver, s.Spec.NodeName = kube.GPUDriver, &name
	s.Spec.Pool = resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1}
	whole, one := resource.MustParse("1000"), resource.MustParse("1")
	for i := range gpus {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{
			Name: fmt.Sprint("gpu-", i), AllowMultipleAllocations: ptr.To(true),
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{kube.GPUSharesCapacity: {
				Value:         whole,
				RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: &whole, ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: &one}},
			}},
		})
	}
	c.slices = append(c.slices, s)
}

// pod adds a pod with a claim for so many thousandths of a GPU, or whole ones, and the devices that it has. It waits if its node is "".
func (c *claiming) pod(name, on string, milli int64, devices ...string) *resourceapi.ResourceClaim {
	row := pod(name, on, 1, func(p *record.Pod) { p.Holds = record.JSON([]string{record.HoldsDevices}) })
	if on == "" {
		row.Bound = 0
	}
	c.Pods = append(c.Pods, row)
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: row.Namespace, UID: types.UID(row.UID)}}
	p.Spec.NodeName, p.Spec.ResourceClaims = on, []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("gpu")}}
	p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &p.Name}}
	asks := cluster.Resources{GPU: milli / 1000, GPUMilli: milli % 1000}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: row.Namespace, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Pod", Name: name, UID: p.UID, Controller: ptr.To(true)},
	}}, Spec: kube.Claim(asks, nil)}
	if on != "" {
		claim.Status.Allocation = &resourceapi.AllocationResult{}
	}
	for _, d := range devices {
		used := *resource.NewQuantity(cmp.Or(asks.GPUMilli, 1000), resource.DecimalSI)
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: "gpu", Driver: kube.GPUDriver, Pool: on, Device: d, ShareID: ptr.To(types.UID(name + d)),
			ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{kube.GPUSharesCapacity: used},
		})
	}
	c.claims, c.pods = append(c.claims, claim), append(c.pods, p)
	return claim
}

// source returns the cluster as it is now.
func (c *claiming) source() replay.Source {
	s := c.Source
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: kube.GPUDriver}}
	s.Devices = memcluster.NewDevices(c.slices, []*resourceapi.DeviceClass{class}, c.claims, c.pods)
	return s
}

// Pods with claims move where devices are free, and otherwise stay.
func TestClaims(t *testing.T) {
	three := func(milli int64) *claiming {
		c := &claiming{}
		for i := range 3 {
			name := fmt.Sprint("n", i)
			c.node(name, 1)
			c.pod(fmt.Sprint("train-", i), name, milli, "gpu-0")
		}
		return c
	}
	if m := find(t, three(1000).source(), Limits{}); len(m.Freed) != 0 {
		t.Errorf("two pods got one GPU: %+v", m)
	}
	if m := find(t, three(600).source(), Limits{}); len(m.Freed) != 0 {
		t.Errorf("two pods got 1.2 GPUs: %+v", m)
	}
	if m := find(t, three(400).source(), Limits{}); len(m.Freed) != 1 || len(m.Moves) != 1 || !slices.Equal(m.Moves[0].Devices, []string{"gpu-0"}) {
		t.Errorf("%+v", m)
	}
	c := three(1000)
	c.node("n3", 4) // and its four GPUs
	c.pod("train-3", "n3", 1000, "gpu-1")
	m := find(t, c.source(), Limits{})
	if len(m.Freed) != 3 || m.Bound != 3 {
		t.Errorf("%+v", m)
	}
	var got []string
	for _, x := range m.Moves {
		got = append(got, x.Devices...)
	}
	if slices.Sort(got); !slices.Equal(got, []string{"gpu-0", "gpu-2", "gpu-3"}) {
		t.Errorf("devices %v", got)
	}
	shared := three(400)
	for i, claim := range shared.claims {
		if claim.OwnerReferences = nil; i > 0 {
			claim.Status.Allocation = nil
		}
	}
	m = find(t, shared.source(), Limits{})
	if len(m.Freed) != 0 || !strings.Contains(fmt.Sprint(m.Notes), "3 pods with ResourceClaims stay: shop/train-0, shop/train-1, shop/train-2") {
		t.Errorf("%+v", m)
	}
}

// A waiting pod with a claim gets a node whose devices are free, or can be.
func TestRoomForClaims(t *testing.T) {
	c := &claiming{}
	for i := range 2 {
		name := fmt.Sprint("n", i)
		c.node(name, 2)
		c.pod(fmt.Sprint("train-", i), name, 1000, "gpu-1")
	}
	c.Nodes = append(c.Nodes, node("cpu"))
	c.pod("wide-0", "", 2000)
	m, err := MakeRoom(t.Context(), at(t, c.source()), "shop/wide-0", Limits{}, func(float64) {})
	if err != nil || len(m.Moves) != 1 || m.Room.Node != m.Moves[0].From || m.Moves[0].To == "cpu" {
		t.Errorf("%+v, %v", m, err)
	}
	c.node("n2", 2)
	if m, err = MakeRoom(t.Context(), at(t, c.source()), "shop/wide-0", Limits{}, func(float64) {}); err != nil || len(m.Moves) != 0 || m.Room.Node != "n2" {
		t.Errorf("%+v, %v", m, err)
	}
	s := c.source()
	s.Devices = nil
	if _, err := MakeRoom(t.Context(), at(t, s), "shop/wide-0", Limits{}, func(float64) {}); err == nil {
		t.Error("a node for a pod whose devices are not known")
	}
}

// kinds makes the devices whole ones of two kinds: the first of each node is big. Claims of pods in want get a big one.
func (c *claiming) kinds(want ...string) {
	for _, s := range c.slices {
		for i := range s.Spec.Devices {
			kind := []string{"big", "small"}[min(i, 1)]
			s.Spec.Devices[i].AllowMultipleAllocations, s.Spec.Devices[i].Capacity = nil, nil
			s.Spec.Devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"kind": {StringValue: &kind}}
		}
	}
	for _, claim := range c.claims {
		if slices.Contains(want, claim.Name) {
			claim.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
				Expression: fmt.Sprintf("device.attributes[%q].kind == 'big'", kube.GPUDriver),
			}}}
		}
		if x := claim.Status.Allocation; x != nil {
			x.Devices.Results[0].ShareID, x.Devices.Results[0].ConsumedCapacity = nil, nil
		}
	}
}

// devices returns where pods are, with their devices.
func devices(s *State) (out []string) {
	for uid, p := range s.cluster.Running {
		out = append(out, fmt.Sprint(p.Name, p.Spec.NodeName, s.cluster.DevicesOf(uid)))
	}
	slices.Sort(out)
	return out
}

// A pod that does not move keeps the devices that it has, and the search leaves them as they were.
func TestPodsKeepDevices(t *testing.T) {
	for _, c := range []struct {
		shares int64  // what two pods have of a GPU each; 0: one has a big and one a small GPU
		moves  string // "" if no moves make room
	}{{600, ""}, {0, "a-0"}} {
		x := &claiming{}
		x.node("n0", 2)
		x.pod("a-0", "n0", cmp.Or(c.shares, 1000), "gpu-0")
		x.pod("b-0", "n0", cmp.Or(c.shares, 1000), "gpu-1")
		x.pod("wide-0", "", 1000)
		if c.shares == 0 {
			x.node("n1", 2)
			x.pod("c-0", "n1", 1000, "gpu-0")
			x.kinds("wide-0")
		}
		s := at(t, x.source())
		before := devices(s)
		m, err := MakeRoom(t.Context(), s, "shop/wide-0", Limits{}, func(float64) {})
		switch {
		case c.moves == "":
			if err == nil {
				t.Errorf("two halves make a whole: %+v", m)
			}
		case err != nil || len(m.Moves) != 1 || m.Moves[0].Pod != "shop/"+c.moves || !slices.Equal(m.Moves[0].Devices, []string{"gpu-1"}):
			t.Errorf("%+v, %v", m, err)
		}
		if after := devices(s); !slices.Equal(before, after) {
			t.Errorf("%v was left as %v", before, after)
		}
	}
}

// Moves in another order than the search found them need devices in that order.
func TestOrderOfClaims(t *testing.T) {
	c := &claiming{}
	c.node("n0", 2)
	c.node("n2", 2)
	c.Pods = append(c.Pods, pod("a-0", "n0", 1), pod("c-0", "n2", 1, holding("hostPath")))
	c.pod("a-1", "n0", 1000, "gpu-0")
	c.pod("b-0", "n0", 1000, "gpu-1")
	c.kinds("a-1")
	c.Objects = append(c.Objects, budgetOf("a", `"maxUnavailable":1`))
	m := find(t, c.source(), Limits{})
	got := map[string]string{}
	for _, x := range m.Moves {
		got[x.Pod] = fmt.Sprint(x.Devices)
	}
	if len(got) != 3 || got["shop/a-1"] != "[gpu-0]" || got["shop/b-0"] != "[gpu-1]" {
		t.Errorf("%v", got)
	}
}

// Cordoned nodes draw power, too.
func TestWatts(t *testing.T) {
	s := replay.Source{Nodes: []record.Node{node("a"), node("b")}, Pods: []record.Pod{pod("x-1", "a", 1), pod("y-1", "b", 1), pod("y-2", "b", 1)}}
	want := find(t, s, Limits{}).Effects
	s.Nodes[0].Unschedulable = true
	if got := find(t, s, Limits{}).Effects; !slices.Equal(got, want) || want[1].After >= want[1].Before || want[0].After != want[0].Before {
		t.Errorf("%v, without the cordon %v", got, want)
	}
}

// Whatever the pods and their claims, the moves of every search are possible one after another, and give no GPU away twice. The search leaves the cluster as it was.
func TestClaimsProperty(t *testing.T) {
	moved := 0
	for seed := range uint64(20) {
		r, c := rand.New(rand.NewPCG(seed, 9)), &claiming{}
		for i := range 6 {
			name, gpus := fmt.Sprint("n", i), 1+r.IntN(3)
			c.node(name, gpus)
			for g := range gpus {
				for k := range r.IntN(3) { // shares, or one whole GPU
					milli := []int64{300, 400, 500}[r.IntN(3)]
					if k == 0 && r.IntN(2) == 0 {
						milli = 1000
					}
					c.pod(fmt.Sprintf("a%d%d%d-0", i, g, k), name, milli, fmt.Sprint("gpu-", g))
					if milli == 1000 {
						break
					}
				}
			}
		}
		for _, search := range moves.Searchers {
			s := c.source()
			by := searching
			by.By = search.By
			state := at(t, s)
			before := devices(state)
			m := fatal.Value(Find(t.Context(), state, Limits{Chains: seed%2 == 0}, by))(t)
			if after := devices(state); !slices.Equal(before, after) {
				t.Errorf("seed %d, %s: %v was left as %v", seed, search.Name, before, after)
			}
			check(t, s, m)
			moved += len(m.Moves)
			whys, err := at(t, s).Recheck(t.Context(), Limits{}, m.Moves)
			if err != nil || slices.ContainsFunc(whys, func(why string) bool { return why != "" }) {
				t.Errorf("seed %d, %s: %v, %v", seed, search.Name, whys, err)
			}
		}
	}
	if moved < 50 {
		t.Errorf("%d moves in all", moved)
	}
}

// A pod that fits nowhere moves to the node of a pod that makes room for it first. The plan does so in rounds, one after the other.
func TestChain(t *testing.T) {
	s := replay.Source{
		Nodes: []record.Node{node("a"), node("b"), node("c")},
		Pods: []record.Pod{
			pod("web-1", "a", 3), pod("web-2", "b", 1), pod("x-1", "b", 1, bare), pod("x-2", "c", 3, bare),
		},
	}
	m := find(t, s, Limits{Chains: true})
	if len(m.Freed) != 1 || len(m.Moves) != 2 || m.Moves[0].Pod != "shop/web-2" || m.Moves[0].To != "c" || m.Moves[1].To != "b" ||
		m.Rounds != 2 {
		t.Errorf("%+v", m)
	}
	if m := find(t, s, Limits{Chains: true, Pods: 1}); len(m.Moves) > 0 {
		t.Errorf("with one move: %+v", m)
	}
}

// A move is made later than it was planned: each reason why it is not possible any more is said,
// and a budget that is used up for now is none.
func TestRecheck(t *testing.T) {
	s := replay.Source{
		Nodes: []record.Node{node("a"), node("b")}, Objects: []record.Object{budgetOf("db", `"maxUnavailable":1`)},
		Pods: []record.Pod{pod("web-1", "a", 1), pod("web-2", "a", 2), pod("x-1", "b", 1, bare), pod("db-1", "a", 1)},
	}
	s.Objects[0].Status = `{"disruptionsAllowed":0,"currentHealthy":1,"desiredHealthy":1,"expectedPods":1}`
	move := func(uid, from, to string) Move { return Move{Pod: "shop/" + uid, UID: uid, From: from, To: to} }
	got, err := at(t, s).Recheck(t.Context(), Limits{}, []Move{
		move("web-2", "a", "b"), move("web-1", "a", "b"), move("db-1", "a", "b"), move("web-3", "a", "b"), move("x-1", "b", "a"),
	})
	for i, want := range []string{"", "", "does not take it any more: Insufficient cpu", "it has ended", "it has no controller"} {
		if err != nil || want == "" && got[i] != "" || !strings.Contains(got[i], want) {
			t.Errorf("move %d: %q, want %q (%v)", i, got[i], want, err)
		}
	}
	again, err := at(t, s).Recheck(t.Context(), Limits{}, []Move{move("db-1", "a", "b"), move("web-1", "b", "a")})
	if err != nil || again[0] != "" || again[1] != "it is on a now" {
		t.Errorf("%q, %v", again, err)
	}
}

// The moves that make room for a waiting pod are those of the fewest pods; there is an error if no moves do.
func TestRoom(t *testing.T) {
	waits := pod("train-0", "", 3, func(p *record.Pod) { p.Bound = 0 })
	s := replay.Source{
		Nodes: []record.Node{node("a"), node("b"), node("c")},
		Pods: []record.Pod{
			pod("web-1", "a", 1), pod("web-2", "a", 1), pod("web-3", "b", 2), pod("x-1", "c", 2, bare), waits,
		},
	}
	room := func(s replay.Source, name string, l Limits) (Moves, error) {
		return MakeRoom(t.Context(), at(t, s), name, l, func(float64) {})
	}
	m, err := room(s, "shop/train-0", Limits{})
	if err != nil || m.Room == nil || m.Room.Node != "a" || len(m.Moves) != 1 || m.Moves[0].From != "a" {
		t.Errorf("%+v, %v", m, err)
	}
	for _, c := range []struct {
		pod, want string
		change    func(*record.Pod)
		limits    Limits
	}{
		{"shop/train-1", "no pod shop/train-1 waits", func(*record.Pod) {}, Limits{}},
		{"shop/train-0", "no node can be cleared", func(p *record.Pod) { p.MilliCPU = 5000 }, Limits{}},
		{"shop/train-0", "no node can be cleared", func(*record.Pod) {}, Limits{Memory: 1}},
	} {
		other := s
		other.Pods = slices.Clone(s.Pods)
		c.change(&other.Pods[4])
		if _, err := room(other, c.pod, c.limits); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.pod, err)
		}
	}
	s.Pods[4].MilliCPU = 1000 // it fits without a move
	if m, err := room(s, "shop/train-0", Limits{}); err != nil || len(m.Moves) > 0 || m.Room.Node == "" {
		t.Errorf("%+v, %v", m, err)
	}
}
