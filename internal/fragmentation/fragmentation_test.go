package fragmentation

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/each"
)

func asks(cpu, gpu, milli int64) cluster.Resources {
	return cluster.Resources{MilliCPU: cpu, GPU: gpu, GPUMilli: milli, Pods: 1}
}

// node returns a node with the given free CPU and used thousandths of each device.
func node(cpu int64, model string, used ...int64) *cluster.Node {
	return &cluster.Node{Allocatable: cluster.Resources{MilliCPU: cpu, GPU: int64(len(used)), Pods: 10}, GPUModel: model, GPUs: used}
}

func TestTypicalPods(t *testing.T) {
	got := NewTypical([]Demand{
		{Requests: asks(4, 1, 0), Count: 10}, {Requests: asks(1, 0, 0), Count: 30},
		{Requests: asks(4, 1, 0), Models: []string{"T4"}, Count: 10}, {Requests: asks(2, 0, 500), Count: 20},
		{Requests: asks(4, 1, 0), Count: 26}, {Requests: cluster.Resources{MilliCPU: 1, Memory: 5}, Count: 1},
		{Requests: asks(9, 8, 0), Count: 3},
	}).Pods()
	// 97 of 100 pods: one device 36, no GPU 31 (memory does not distinguish shapes), a share 20, T4 10.
	want := []Pod{
		{MilliCPU: 4, Devices: 1, Milli: 1000, Frequency: 36. / 97}, {MilliCPU: 1, Devices: 0, Milli: 0, Frequency: 31. / 97},
		{MilliCPU: 2, Devices: 1, Milli: 500, Frequency: 20. / 97},
		{MilliCPU: 4, Devices: 1, Milli: 1000, Models: []string{"T4"}, Frequency: 10. / 97},
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Pod{})); d != "" {
		t.Error(d)
	}
	if NewTypical(nil) != nil || NewTypical([]Demand{{Requests: asks(1, 0, 0), Count: 0}}) != nil {
		t.Error("an empty workload has typical pods")
	}
	equals := NewTypical([]Demand{
		{Requests: asks(3, 0, 0), Count: 5}, {Requests: asks(1, 0, 0), Count: 5}, {Requests: asks(2, 0, 0), Count: 5},
	}).Pods()
	if len(equals) != 3 || equals[0].MilliCPU != 3 || equals[1].MilliCPU != 1 {
		t.Errorf("equal counts are not in the order of the workload: %v", equals)
	}
}

// The number of typical pods is bounded, and tables are made only for the models of measured nodes.
func TestTypicalPodsAreBounded(t *testing.T) {
	var many []Demand
	for i := range int64(4 * maxShapes) {
		var models []string
		for j := range 32 {
			models = append(models, fmt.Sprint(i, "-", j))
		}
		many = append(many, Demand{Requests: asks(i, 1, 0), Models: models, Count: 1})
	}
	many = append(many, Demand{Requests: asks(7, 0, 500), Models: []string{"T4"}, Count: 2})
	typical := NewTypical(many)
	pods := typical.Pods()
	if len(pods) != maxShapes || pods[0].MilliCPU != 7 {
		t.Fatalf("%d typical pods, the first %+v", len(pods), pods[0])
	}
	sum := each.Sum(pods, func(p Pod) float64 { return p.Frequency })
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("the frequencies add up to %v", sum)
	}
	if made := len(*typical.tables.Load()); made != 0 {
		t.Errorf("%d tables before any node was measured", made)
	}
	want := 600 * (1 - pods[0].Frequency) // only the share fits
	for range 2 {
		if got := typical.Fragmentation(node(100, "T4", 400)); math.Abs(got-want) > 1e-9 {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	if made := len(*typical.tables.Load()); made != 1 {
		t.Errorf("%d tables for nodes of one model", made)
	}
}

// Concurrent calls return what sequential ones do.
func TestConcurrentUse(t *testing.T) {
	workload := []Demand{{Requests: asks(1000, 1, 0), Models: []string{"T4", "7"}, Count: 3}, {Requests: asks(2000, 0, 500), Count: 2}}
	shared, alone := NewTypical(workload), NewTypical(workload)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 50 {
				n := node(1500, fmt.Sprint(i%10), 400, 0)
				want := 0.4*1600 + 0.6*1600 // too little CPU for the share; the whole pod rejects the model
				if i%10 == 7 {
					want = 0.4*1600 + 0.6*600
				}
				if got := shared.Fragmentation(n); math.Abs(got-want) > 1e-9 {
					t.Errorf("model %d: got %v, want %v", i%10, got, want)
				}
			}
		})
	}
	group.Wait()
	if got, want := shared.Fragmentation(node(4000, "T4", 700)), alone.Fragmentation(node(4000, "T4", 700)); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The wanted values are computed by hand from the definition in the package comment.
func TestFragmentation(t *testing.T) {
	typical := NewTypical([]Demand{
		{Requests: asks(4000, 1, 0), Count: 40},                                 // a whole device
		{Requests: asks(1000, 0, 0), Count: 10},                                 // no GPU
		{Requests: asks(2000, 0, 500), Count: 30},                               // half a device
		{Requests: asks(2000, 2, 0), Models: []string{"T4", "P100"}, Count: 20}, // two devices of a model
	})
	for _, c := range []struct {
		name string
		node *cluster.Node
		want float64
	}{
		{"idle, the right model", node(8000, "T4", 0, 0), 0.1 * 2000},
		{"idle, another model", node(8000, "A10", 0, 0), (0.1 + 0.2) * 2000},
		{"full", node(8000, "T4", 1000, 1000), 0},
		{"no GPU at all", node(8000, ""), 0},
		// 600 and 1000 are idle. Whole device: 600 is too small. No GPU: 1600. Half: both fit. Two: 1600.
		{"one shared", node(8000, "T4", 400, 0), 0.4*600 + 0.1*1600 + 0 + 0.2*1600},
		// 400 are idle, and no pod fits.
		{"too little left", node(8000, "T4", 600), 400},
		// CPU is enough for the half and for two devices, not for the whole one.
		{"CPU for some", node(3000, "T4", 0, 700, 0), 0.4*2300 + 0.1*2300 + 0.3*300 + 0.2*300},
		{"no CPU", node(0, "T4", 0, 0), 2000},
	} {
		if got := typical.Fragmentation(c.node); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	n := node(8000, "T4", 400, 0)
	if got, want := typical.After(n, asks(2000, 0, 500), cluster.Device(0)), 0.4*100+0.1*1100+0.3*100+0.2*1100; math.Abs(got-want) > 1e-9 {
		t.Errorf("after half a device went to the shared one: %v, want %v", got, want)
	}
	var unknown *Typical
	if unknown.Fragmentation(n) != 0 || unknown.Pods() != nil {
		t.Error("fragmentation of an unknown workload")
	}
}

// Fragmentation agrees with the definition evaluated pod by pod, and lies between 0 and the idle
// capacity. After returns the fragmentation that the node has once the pod runs there.
func TestFragmentationIsItsDefinition(t *testing.T) {
	models := []string{"T4", "P100", "A10"}
	rapid.Check(t, func(t *rapid.T) {
		var workload []Demand
		for range rapid.IntRange(1, 12).Draw(t, "demands") {
			workload = append(workload, Demand{
				Requests: drawAsk(t), Models: drawModels(t, models), Count: float64(rapid.IntRange(1, 50).Draw(t, "count")),
			})
		}
		typical := NewTypical(workload)
		n := node(rapid.Int64Range(0, 9).Draw(t, "cpu")*1000, rapid.SampledFrom(models).Draw(t, "model"))
		for range rapid.IntRange(0, 8).Draw(t, "devices") {
			n.GPUs = append(n.GPUs, rapid.Int64Range(0, 10).Draw(t, "used")*100)
		}
		n.Allocatable.GPU = int64(len(n.GPUs))
		got, want := typical.Fragmentation(n), byDefinition(typical.Pods(), n)
		if math.Abs(got-want) > 1e-6 || got < -1e-9 || got > float64(n.IdleGPUMilli())+1e-6 {
			t.Fatalf("%v, want %v of %d idle", got, want, n.IdleGPUMilli())
		}
		pod := cluster.Pod{Requests: drawAsk(t)}
		if n.Fit(&pod) != cluster.Fits {
			return
		}
		after := typical.After(n, pod.Requests, n.ChooseDevices(pod.Requests))
		n.GPUs = slices.Clone(n.GPUs)
		n.Add(pod.Requests)
		if then := typical.Fragmentation(n); math.Abs(after-then) > 1e-6 {
			t.Fatalf("after: %v, and then %v", after, then)
		}
	})
}

func drawAsk(t *rapid.T) cluster.Resources {
	r := asks(rapid.Int64Range(0, 8).Draw(t, "cpu")*1000, rapid.SampledFrom([]int64{0, 0, 1, 2, 8}).Draw(t, "gpu"), 0)
	if r.GPU == 0 {
		r.GPUMilli = rapid.Int64Range(0, 9).Draw(t, "milli") * 100
	}
	return r
}

func drawModels(t *rapid.T, from []string) []string {
	if rapid.Bool().Draw(t, "any model") {
		return nil
	}
	return from[:rapid.IntRange(1, len(from)).Draw(t, "models")]
}

// byDefinition evaluates F pod by pod, without the tables.
func byDefinition(pods []Pod, n *cluster.Node) (f float64) {
	for _, p := range pods {
		var fit, small, idle int64
		for _, used := range n.GPUs {
			room := cluster.DeviceMilli - used
			if idle += room; room >= p.Milli {
				fit++
			} else {
				small += room
			}
		}
		hosted := p.Devices > 0 && fit >= p.Devices && p.MilliCPU <= n.Free().MilliCPU &&
			(len(p.Models) == 0 || slices.Contains(p.Models, n.GPUModel))
		if !hosted {
			small = idle
		}
		f += p.Frequency * float64(small)
	}
	return f
}

// Instances of a typical pod that do not tolerate a node's taints count as if the node could not host them.
func TestTaintsFragment(t *testing.T) {
	tolerate := []cluster.Toleration{{Key: "gpu", Exists: true}}
	r := asks(4, 1, 0)
	typical := NewTypical([]Demand{
		{Requests: r, Count: 3}, {Requests: r, Tolerations: tolerate, Count: 1}, {Requests: asks(1, 0, 0), Tolerations: tolerate, Count: 4},
	})
	plain, tainted := node(8, "T4", 0, 0), node(8, "T4", 0, 0)
	tainted.Taints = []cluster.Taint{{Key: "gpu", Effect: cluster.NoSchedule}, {Key: "soft", Effect: cluster.PreferNoSchedule}}
	if len(typical.Pods()) != 2 {
		t.Fatalf("tolerations distinguish shapes: %+v", typical.Pods())
	}
	// Half of the pods request no GPU. Of the others a quarter may use the tainted node.
	if a, b := typical.Fragmentation(plain), typical.Fragmentation(tainted); a != 1000 || b != 1750 {
		t.Errorf("fragmentation %v and %v, want 1000 and 1750", a, b)
	}
	closed := node(8, "T4", 0, 0)
	closed.Taints = []cluster.Taint{{Key: "other", Effect: cluster.NoExecute}}
	cordoned := node(8, "T4", 0)
	cordoned.Unschedulable = true
	for i, x := range []struct {
		t    *Typical
		n    *cluster.Node
		want bool
	}{{typical, plain, true}, {typical, tainted, true}, {typical, closed, false}, {typical, cordoned, false}, {nil, tainted, false},
		{nil, plain, true},
		{NewTypical([]Demand{{Requests: asks(1, 0, 0), Tolerations: tolerate, Count: 1}}), tainted, false}} {
		if got := x.t.Open(x.n); got != x.want {
			t.Errorf("%d: open %v", i, got)
		}
	}
}

// More kinds of tolerations than an Access holds count as none.
func TestKindsAreBounded(t *testing.T) {
	var many []Demand
	for i := range 2 * maxKinds {
		many = append(many, Demand{Requests: asks(4, 1, 0), Tolerations: []cluster.Toleration{{Key: fmt.Sprint(i), Exists: true}}, Count: 1})
	}
	typical := NewTypical(many)
	first, last := node(8, "T4", 0), node(8, "T4", 0)
	first.Taints = []cluster.Taint{{Key: "0", Effect: cluster.NoSchedule}}
	last.Taints = []cluster.Taint{{Key: fmt.Sprint(2*maxKinds - 1), Effect: cluster.NoSchedule}}
	if !typical.Open(first) || typical.Open(last) {
		t.Errorf("the first kind is open: %v, the last: %v", typical.Open(first), typical.Open(last))
	}
}

// The shares of profiles are read from the thousandths of a workload's pods.
func TestPartitions(t *testing.T) {
	demand := func(r cluster.Resources, n float64) Demand { return Demand{Requests: r, Count: n} }
	uniform := [mig.Count]float64{}
	for _, p := range mig.Profiles() {
		uniform[p] = 1.0 / 6
	}
	for name, c := range map[string]struct {
		workload []Demand
		want     [mig.Count]float64
	}{
		"partitions among others": {[]Demand{
			demand(cluster.Resources{GPUMilli: mig.Two.Milli()}, 3), demand(cluster.Resources{GPU: 1}, 1),
			demand(cluster.Resources{GPUMilli: 460}, 50), demand(cluster.Resources{GPU: 2}, 50), demand(cluster.Resources{MilliCPU: 1}, 50),
		}, [mig.Count]float64{mig.Two: 0.75, mig.Seven: 0.25}},
		"none":    {[]Demand{demand(cluster.Resources{GPUMilli: 460}, 1)}, uniform},
		"unknown": {nil, uniform},
	} {
		got := NewTypical(c.workload).Partitions()
		for p, want := range c.want {
			if math.Abs(got[p]-want) > 1e-9 {
				t.Errorf("%s: profile %d has the share %v, want %v", name, p, got[p], want)
			}
		}
	}
}
