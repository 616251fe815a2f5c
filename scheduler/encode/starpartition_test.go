package encode

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"gnnsched/gnn/feature"
	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/fragmentation"
)

func partitionLayout(t testing.TB) *feature.Layout {
	t.Helper()
	l, err := feature.NewGPULayout([]string{"base", "partitions"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// profiles returns a workload in which pods request partitions: three of four the smallest one, the others half a GPU.
func profiles() *fragmentation.Typical {
	return fragmentation.NewTypical([]fragmentation.Demand{
		{Requests: partition(mig.One), Count: 3}, {Requests: partition(mig.Three), Count: 1},
	})
}

func partition(p mig.Profile) cluster.Resources {
	r := cluster.Resources{MilliCPU: 2000 * int64(p.Compute()), GPUMilli: p.Milli(), Pods: 1}
	if p == mig.Seven {
		r.GPU, r.GPUMilli = 1, 0
	}
	return r
}

// migNode returns a node with some memory slices of its GPUs in use.
func migNode(used ...mig.Slices) *cluster.Node {
	n := gpuNode("A100", make([]int64, len(used))...)
	n.Slices = used
	for i, s := range used {
		n.GPUs[i] = mig.Used(s.Computing(), s.Len())
	}
	return n
}

// Two states with equally many free slices look alike to base, and the set partitions tells them apart.
func TestPartitionsTellStatesApart(t *testing.T) {
	together, apart := migNode(0b0000_0011), migNode(0b0001_0001)
	base := NewStars(feature.DefaultGPU(), profiles())
	if d := cmp.Diff(base.Vertex(together, cluster.Resources{}, 0), base.Vertex(apart, cluster.Resources{}, 0)); d != "" {
		t.Errorf("base tells them apart: %s", d)
	}
	layout := partitionLayout(t)
	e := NewStars(layout, profiles())
	features := feature.List(layout.Node)
	for _, c := range []struct {
		n    *cluster.Node
		want map[string]float64
	}{
		// A 3g fits at 4 only. Of six free slices it wastes two, 1g.5gb the last one, which it cannot use: 0.75·1 + 0.25·2... see below.
		{together, map[string]float64{
			"open": 1.0 / 8, "slices": 6.0 / 64, "room_3x4": 1.0 / 16, "starts_3x4": 1.0 / 16, "gpus_3x4": 1.0 / 8, "room_2x2": 2.0 / 24,
			"gpus_4x4": 0, "gpus_7x8": 0,
			"mix_wasted": (0.75*1 + 0.25*2) / 8, "mix_unserved": 0, "mix_computing": 2.0 / 8, "mix_halves": 1.0 / 8,
		}},
		{apart, map[string]float64{
			"open": 1.0 / 8, "slices": 6.0 / 64, "room_3x4": 0, "starts_3x4": 0, "gpus_3x4": 0, "room_2x2": 1.0 / 24, "gpus_4x4": 0,
			"mix_wasted": (0.75*1 + 0.25*6) / 8, "mix_unserved": 0.25 * 3 / 8, "mix_halves": 2.0 / 8,
		}},
	} {
		x := e.Vertex(c.n, cluster.Resources{}, 0).X
		for name, want := range c.want {
			if got := named(t, features, x, name); got < want-1e-6 || got > want+1e-6 {
				t.Errorf("%08b: %s is %v, want %v", c.n.Slices, name, got, want)
			}
		}
	}
}

// A placement is encoded as the node with the partition in place, whichever GPUs are shown as full to the pod.
func TestPartitionsAfterAPlacement(t *testing.T) {
	e := NewStars(partitionLayout(t), profiles())
	rapid.Check(t, func(t *rapid.T) {
		used := rapid.SliceOfN(rapid.Map(rapid.Uint8(), func(b uint8) mig.Slices { return mig.Slices(b) }), 1, 5).Draw(t, "used")
		p := rapid.SampledFrom(mig.Profiles()).Draw(t, "profile")
		gpu := slices.IndexFunc(used, p.Fits)
		if gpu < 0 {
			return
		}
		after := slices.Clone(used)
		after[gpu] |= p.On(p.BestStart(used[gpu]))
		want := migNode(after...)
		want.GPUs[gpu] = min(migNode(used...).GPUs[gpu]+p.Milli(), cluster.DeviceMilli)
		want.Requested = cluster.Resources{MilliCPU: partition(p).MilliCPU}
		shown := migNode(used...)
		for i := range shown.GPUs {
			if !p.Fits(used[i]) && used[i] != mig.All {
				shown.GPUs[i] = cluster.DeviceMilli
			}
		}
		got, wanted := e.Vertex(shown, partition(p), cluster.Device(gpu)), e.Vertex(want, cluster.Resources{}, 0)
		if d := cmp.Diff(wanted, got, cmpopts.EquateApprox(0, 1e-6)); d != "" {
			t.Fatalf("%08b, then %s on GPU %d (-want +got)\n%s", used, p.Name(40), gpu, d)
		}
		if shown.Slices[gpu] != used[gpu] {
			t.Fatal("the node has been changed")
		}
	})
}

// The cluster's features follow the nodes, and equal a new encoder's.
func TestPartitionsOfACluster(t *testing.T) {
	layout := partitionLayout(t)
	c := NewStars(layout, profiles())
	nodes := []*cluster.Node{migNode(0, 0), migNode(0b1111, mig.All), gpuNode("T4", 0, 500)}
	check := func(want map[string]float64) {
		t.Helper()
		got := c.Features(nodes)
		if d := cmp.Diff(NewStars(layout, profiles()).Features(nodes), got); d != "" {
			t.Errorf("(-new +kept)\n%s", d)
		}
		for name, w := range want {
			if g := named(t, feature.List(layout.Cluster), got, name); g < w-1e-6 || g > w+1e-6 {
				t.Errorf("%s is %v, want %v", name, g, w)
			}
		}
	}
	check(map[string]float64{
		"share_1x1": 0.75, "share_3x4": 0.25, "share_7x8": 0, "slices": 20.0 / 8 / 6, "slices_few": 1, "room_7x8": 2.0 / 6, "room_3x4": 5.0 / 12,
	})
	nodes[0].Slices[1] |= mig.Two.On(2)
	nodes[0].AddOn(partition(mig.Two), cluster.Device(1))
	check(map[string]float64{"slices": 18.0 / 8 / 6, "room_7x8": 1.0 / 6, "room_3x4": 4.0 / 12})
}

// Nodes without MIG have zeros, and unchanged features of base; base never sees slices.
func TestPartitionsOfOtherNodes(t *testing.T) {
	layout := partitionLayout(t)
	more, base := NewStars(layout, typical()), NewStars(feature.DefaultGPU(), typical())
	n := gpuNode("T4", 0, 600)
	r := cluster.Resources{MilliCPU: 100, GPUMilli: 300, Pods: 1}
	got, want := more.Vertex(n, r, cluster.Device(1)), base.Vertex(n, r, cluster.Device(1))
	behind(t, "node", got.X, want.X, make([]float32, len(got.X)-len(want.X))...)
	with := migNode(0, 0b11)
	without := *with
	without.Slices = nil
	if d := cmp.Diff(base.Vertex(&without, r, cluster.Device(1)), base.Vertex(with, r, cluster.Device(1))); d != "" {
		t.Errorf("base sees slices: %s", d)
	}
}

// Shares without a matching profile take the whole GPU, and so does a pod without a place on the GPU.
func TestPartitionsTakenByShares(t *testing.T) {
	e := NewStars(partitionLayout(t), profiles())
	for _, c := range []struct {
		r    cluster.Resources
		used mig.Slices
		want mig.Slices
	}{
		{cluster.Resources{GPUMilli: 300}, 0, mig.All},
		{cluster.Resources{GPU: 1}, 0, mig.All},
		{partition(mig.Three), 0b0001_0001, mig.All},
		{partition(mig.Two), 0b0001_0001, 0b0001_1101},
	} {
		got, rest, _ := e.Placed(migNode(c.used), c.r, cluster.Device(0))
		if got.Slices[0] != c.want || rest.GPU+rest.GPUMilli != 0 {
			t.Errorf("%s: %08b, want %08b; %+v is left", fmt.Sprint(c.r), got.Slices[0], c.want, rest)
		}
	}
}
