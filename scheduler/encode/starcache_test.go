package encode

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gnnsched/gnn/feature"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
)

// withDevices returns a layout that reads devices.
func withDevices(t testing.TB) *feature.Layout {
	l, err := feature.NewLayout([]string{"base", "devices"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// mixedDemand are pods with devices and without.
var mixedDemand = []fragmentation.Demand{
	{Requests: cluster.Resources{MilliCPU: 2000, Pods: 1}, Count: 6},
	{Requests: cluster.Resources{MilliCPU: 2000, GPUMilli: 300, Pods: 1}, Count: 2},
	{Requests: cluster.Resources{MilliCPU: 4000, GPU: 1, Pods: 1}, Count: 2},
	{Requests: cluster.Resources{MilliCPU: 8000, GPU: 4, Pods: 1}, Count: 1},
}

// drawMixed draws a cluster with pods, in which some nodes have devices.
func drawMixed(t *rapid.T) *cluster.Snapshot {
	s := &cluster.Snapshot{}
	for range rapid.IntRange(1, 6).Draw(t, "nodes") {
		devices := rapid.SampledFrom([]int64{0, 0, 2, 4}).Draw(t, "devices")
		n := &cluster.Node{
			Version: cluster.NextVersion(), Allocatable: cluster.Resources{MilliCPU: 32_000, Memory: 64 << 30, GPU: devices, Pods: 110},
		}
		if devices > 0 {
			n.GPUs = make([]int64, devices)
		}
		s.Nodes = append(s.Nodes, n)
		for range rapid.IntRange(0, 4).Draw(t, "pods") {
			addDrawn(t, n)
		}
	}
	return s
}

// addDrawn draws a pod and adds it to the node if it fits.
func addDrawn(t *rapid.T, n *cluster.Node) {
	r := rapid.SampledFrom(mixedDemand).Draw(t, "pod").Requests
	if n.Fit(&cluster.Pod{Requests: r}) == cluster.Fits {
		n.Add(r)
	}
}

// After many changes, the encoder with its caches equals a new one, also after the typical pods change.
func TestDevicesEncodeAsAnew(t *testing.T) {
	layout, typical := withDevices(t), fragmentation.NewTypical(mixedDemand)
	rapid.Check(t, func(t *rapid.T) {
		s, kept := drawMixed(t), New(layout)
		kept.Know(typical)
		for range 6 {
			pod := &cluster.Pod{Requests: rapid.SampledFrom(mixedDemand).Draw(t, "pending").Requests}
			if rows := s.Feasible(pod, nil); len(rows) > 0 {
				anew := New(layout)
				anew.Know(typical)
				got, want := kept.Encode(s, pod, rows), anew.Encode(s, pod, rows)
				for what, x := range map[string][2][]float32{"node": {got.NodeX, want.NodeX}, "cluster": {got.ClusterX, want.ClusterX},
					"candidate": {got.CandidateX, want.CandidateX}} {
					if d := cmp.Diff(x[1], x[0]); d != "" {
						t.Fatalf("%s: %s", what, d)
					}
				}
			}
			if rapid.Bool().Draw(t, "known again") {
				kept.Know(typical)
			}
			addDrawn(t, s.Nodes[rapid.IntRange(0, len(s.Nodes)-1).Draw(t, "changed")])
		}
	})
}

// An edge describes the node with the pod on it. Once the pod runs there, on the devices that the encoder chose, the node's vertex says
// the same.
func TestEdgeSaysWhatTheNodeBecomes(t *testing.T) {
	layout, typical := withDevices(t), fragmentation.NewTypical(mixedDemand)
	rapid.Check(t, func(t *rapid.T) {
		s, e := drawMixed(t), New(layout)
		e.Know(typical)
		pod := &cluster.Pod{Requests: rapid.SampledFrom(mixedDemand).Draw(t, "pending").Requests}
		rows := s.Feasible(pod, nil)
		if len(rows) == 0 {
			return
		}
		e.Encode(s, pod, rows)
		i := rapid.IntRange(0, len(rows)-1).Draw(t, "candidate")
		n, edge := s.Nodes[rows[i]], e.candidates.Stars[i]
		if n.Allocatable.GPU == 0 {
			if edge.After != nil || edge.Takes != 0 || edge.Reserved != 0 {
				t.Fatalf("a node without devices: %+v", edge)
			}
			return
		}
		before := typical.Fragmentation(n)
		n.AddOn(pod.Requests, e.Devices(n, pod.Requests))
		if d := cmp.Diff(e.stars.of(int(rows[i]), n), edge.After); d != "" {
			t.Fatal(d)
		}
		if want := float32((typical.Fragmentation(n) - before) / cluster.DeviceMilli); edge.Takes != want {
			t.Fatalf("it takes %v devices, want %v", edge.Takes, want)
		}
	})
}

// A share goes on the device where it leaves the fewest thousandths that typical pods cannot use.
func TestShareGoesWhereItFragmentsLeast(t *testing.T) {
	typical := fragmentation.NewTypical(mixedDemand)
	n := &cluster.Node{
		Allocatable: cluster.Resources{MilliCPU: 32_000, Memory: 1 << 30, GPU: 3, Pods: 9}, GPUs: []int64{0, 500, 700},
		Version: cluster.NextVersion(),
	}
	e := New(withDevices(t))
	e.Know(typical)
	share := cluster.Resources{MilliCPU: 1000, GPUMilli: 300, Pods: 1}
	if on := e.Devices(n, share); on != cluster.Device(2) {
		t.Errorf("the share is on %b", on)
	}
	if on := e.Devices(n, cluster.Resources{GPU: 1, Pods: 1}); on != cluster.Device(0) {
		t.Errorf("the whole device is %b", on)
	}
	if on := New(nil).Devices(n, share); on != n.ChooseDevices(share) {
		t.Errorf("without the set devices it is on %b", on)
	}
}

// Each device counts an eighth, spread over the two knots around its free part.
func TestScatter(t *testing.T) {
	out := make([]float32, feature.StarWidth)
	feature.Scatter(out, []float32{0, 1, 0.25})
	got := out[len(out)-11:]
	want := []float32{0.125, 0, 0.0625, 0.0625, 0, 0, 0, 0, 0, 0, 0.125}
	for i, x := range want {
		if d := got[i] - x; d > 1e-6 || d < -1e-6 {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}

// A node whose devices are all lost, or too many to be known one by one, does not count as a node without devices.
func TestNodesWithoutUsableDevicesAreNotOrdinary(t *testing.T) {
	node := func(gpus int64, used ...int64) *cluster.Node {
		return &cluster.Node{
			Version: cluster.NextVersion(), Allocatable: cluster.Resources{MilliCPU: 8000, Memory: 32 << 30, GPU: gpus, Pods: 110}, GPUs: used,
		}
	}
	s := &cluster.Snapshot{Nodes: []*cluster.Node{node(0), node(0, cluster.DeviceMilli, cluster.DeviceMilli), node(80)}}
	layout := withDevices(t)
	e := New(layout)
	e.Know(fragmentation.NewTypical(mixedDemand))
	g := e.Encode(s, &cluster.Pod{Requests: mixedDemand[0].Requests}, []int32{0, 1, 2})
	names := feature.List(layout.Candidate)
	column := slices.IndexFunc(names, func(f feature.Feature) bool { return f.Name == "ordinary" })
	for i, want := range []float32{1, 0, 0} {
		if got := g.CandidateX[i*len(names)+column]; got != want {
			t.Errorf("node %d: ordinary is %v, want %v", i, got, want)
		}
	}
}
