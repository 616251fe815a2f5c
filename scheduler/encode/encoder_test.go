package encode

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/feature/featuretest"
	"gnnsched/gnn/graph"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/internal/fragmentation"
)

func drawRequests(t *rapid.T) cluster.Resources {
	return cluster.Resources{
		MilliCPU: rapid.Int64Range(0, 40).Draw(t, "request cpu") * 100,
		Memory:   rapid.Int64Range(0, 40).Draw(t, "request memory") << 28,
		GPU:      rapid.SampledFrom([]int64{0, 0, 0, 1, 2}).Draw(t, "request gpu"),
		Pods:     1,
	}
}

// drawAllocatable draws a node's capacity: now and then 0 of some resource.
func drawAllocatable(t *rapid.T) cluster.Resources {
	return cluster.Resources{
		MilliCPU: rapid.SampledFrom([]int64{0, 1, 4000, 16_000, 64_000}).Draw(t, "cpu"),
		Memory:   rapid.SampledFrom([]int64{0, 1, 8 << 30, 64 << 30, 256 << 30}).Draw(t, "memory"),
		GPU:      rapid.SampledFrom([]int64{0, 0, 8}).Draw(t, "gpu"),
		Pods:     rapid.SampledFrom([]int64{0, 110}).Draw(t, "slots"),
	}
}

func drawNode(t *rapid.T, name string) *cluster.Node {
	n := &cluster.Node{
		Version: cluster.NextVersion(), Name: name, Zone: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone"),
		Allocatable: drawAllocatable(t), Unschedulable: rapid.IntRange(0, 9).Draw(t, "cordoned") == 0,
	}
	for range rapid.IntRange(0, 5).Draw(t, "pods") {
		n.Add(drawRequests(t))
	}
	return n
}

func drawSnapshot(t *rapid.T) *cluster.Snapshot {
	s := &cluster.Snapshot{}
	for i := range rapid.IntRange(1, 9).Draw(t, "nodes") {
		s.Nodes = append(s.Nodes, drawNode(t, fmt.Sprintf("n%d", i)))
	}
	return s
}

// change makes one change that happens to clusters.
func change(t *rapid.T, s *cluster.Snapshot, serial *int) {
	i := rapid.IntRange(0, len(s.Nodes)-1).Draw(t, "node")
	n := s.Nodes[i]
	switch rapid.IntRange(0, 9).Draw(t, "what") {
	case 0: // joins, anywhere
		*serial++
		s.Nodes = append(s.Nodes[:i:i], append([]*cluster.Node{drawNode(t, fmt.Sprintf("new%d", *serial))}, s.Nodes[i:]...)...)
	case 1: // leaves
		if len(s.Nodes) > 1 {
			s.Nodes = append(s.Nodes[:i:i], s.Nodes[i+1:]...)
		}
	case 2: // one leaves as another joins
		*serial++
		s.Nodes[i] = drawNode(t, fmt.Sprintf("new%d", *serial))
	case 3: // changes size
		n.Allocatable = drawAllocatable(t)
		n.Version = cluster.NextVersion()
	case 4: // two swap sizes, which leaves the sums unchanged
		o := s.Nodes[rapid.IntRange(0, len(s.Nodes)-1).Draw(t, "other")]
		n.Allocatable, o.Allocatable = o.Allocatable, n.Allocatable
		n.Version, o.Version = cluster.NextVersion(), cluster.NextVersion()
	case 5: // is cordoned or moves to another zone
		n.Unschedulable, n.Zone = !n.Unschedulable, rapid.SampledFrom([]string{"", "a", "c"}).Draw(t, "zone")
		n.Version = cluster.NextVersion()
	case 6: // the list comes in another order
		j := rapid.IntRange(0, len(s.Nodes)-1).Draw(t, "other")
		s.Nodes[i], s.Nodes[j] = s.Nodes[j], s.Nodes[i]
	case 7:
		if len(n.Groups) > 0 {
			n.Remove(n.Groups[rapid.IntRange(0, len(n.Groups)-1).Draw(t, "group")].Each, 0)
		}
	default:
		n.Add(drawRequests(t))
	}
}

func drawCandidates(t *rapid.T, n int) []int32 {
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(i)
	}
	return rapid.Permutation(rows).Draw(t, "candidates")[:rapid.IntRange(0, n).Draw(t, "of them")]
}

// sameGraph compares two graphs except for their stamps, which differ between encoders, and the
// numbers of zones, which depend on the order of first appearance: the same nodes must share a zone.
func sameGraph(t *rapid.T, got, want *graph.Graph) {
	opts := []cmp.Option{cmpopts.IgnoreFields(graph.Graph{}, "Stamp", "Zone", "Zones"), cmpopts.EquateEmpty()}
	if d := cmp.Diff(want, got, opts...); d != "" {
		t.Fatalf("(-from scratch +incremental)\n%s", d)
	}
	for i := range want.Zone {
		for j := range want.Zone {
			if (want.Zone[i] == want.Zone[j]) != (got.Zone[i] == got.Zone[j]) {
				t.Fatalf("zones %v, from scratch %v", got.Zone, want.Zone)
			}
		}
	}
}

// An encoder that follows a changing cluster gives exactly the graph that a new encoder gives, and it
// gives a row a new stamp if anything of it changed.
func TestIncremental(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, e := drawSnapshot(t), New(feature.Default())
		serial := 0
		var last *graph.Graph
		for range 7 {
			pod := &cluster.Pod{Requests: drawRequests(t)}
			candidates := drawCandidates(t, len(s.Nodes))
			got := e.Encode(s, pod, candidates)
			fatal.If(t, got.Validate())
			sameGraph(t, got, New(feature.Default()).Encode(s, pod, candidates))
			checkStamps(t, last, got)
			last = got.Clone()
			for range rapid.IntRange(0, 4).Draw(t, "changes") {
				change(t, s, &serial)
			}
		}
	})
}

func checkStamps(t *rapid.T, before, after *graph.Graph) {
	if before == nil {
		return
	}
	for i := range min(before.Nodes(), after.Nodes()) {
		same := cmp.Equal(before.NodeRow(i), after.NodeRow(i)) && before.Zone[i] == after.Zone[i] &&
			cmp.Equal(before.Groups[i], after.Groups[i], cmpopts.EquateEmpty())
		if !same && before.Stamp[i] == after.Stamp[i] {
			t.Fatalf("row %d changed, its stamp did not", i)
		}
	}
}

// Placing one pod changes one stamp.
func TestOneChangeOneStamp(t *testing.T) {
	s, e := &cluster.Snapshot{}, New(feature.Default())
	for i := range 50 {
		s.Nodes = append(s.Nodes, &cluster.Node{
			Version: cluster.NextVersion(), Name: fmt.Sprint(i), Allocatable: cluster.Resources{MilliCPU: 64_000, Memory: 1 << 38, Pods: 110},
		})
	}
	pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 1000, Memory: 1 << 31, Pods: 1}}
	before := e.Encode(s, pod, nil).Clone()
	s.Nodes[17].Add(pod.Requests)
	after := e.Encode(s, pod, nil)
	for i := range s.Nodes {
		if changed := before.Stamp[i] != after.Stamp[i]; changed != (i == 17) {
			t.Errorf("node %d: stamp changed: %v", i, changed)
		}
	}
}

// Nodes in another order give the same rows in that order.
func TestPermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, pod := drawSnapshot(t), &cluster.Pod{Requests: drawRequests(t)}
		candidates := drawCandidates(t, len(s.Nodes))
		want := New(feature.Default()).Encode(s, pod, candidates)
		place := drawCandidates(t, len(s.Nodes))
		for i := range s.Nodes { // place is a prefix of a permutation; the rest keeps its order
			found := false
			for _, p := range place {
				found = found || int(p) == i
			}
			if !found {
				place = append(place, int32(i))
			}
		}
		other := &cluster.Snapshot{Nodes: make([]*cluster.Node, len(s.Nodes))}
		for i, n := range s.Nodes {
			other.Nodes[place[i]] = n
		}
		moved := make([]int32, len(candidates))
		for i, c := range candidates {
			moved[i] = place[c]
		}
		got := New(feature.Default()).Encode(other, pod, moved)
		back := got.Clone() // with the rows where they were
		copy(back.Candidates, candidates)
		for i, p := range place {
			copy(back.NodeRow(i), got.NodeRow(int(p)))
			back.Groups[i], back.Zone[i] = got.Groups[p], got.Zone[p]
		}
		sameGraph(t, back, want)
	})
}

// For any nodes, features are finite. On ordinary nodes, shares, flags and bounded features are in their ranges.
func TestRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, pod := drawSnapshot(t), &cluster.Pod{Requests: drawRequests(t)}
		g := New(feature.Default()).Encode(s, pod, drawCandidates(t, len(s.Nodes)))
		all := append(append(append(append([]float32{}, g.NodeX...), g.PodX...), g.ClusterX...), g.CandidateX...)
		for _, gr := range g.Groups {
			all = append(append(all, gr.X...), gr.Weight...)
		}
		for i, v := range all {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				t.Fatalf("feature %d of %d is %v", i, len(all), v)
			}
		}
		ordinary := true
		for i, n := range s.Nodes {
			row := g.NodeRow(i)
			inRange(t, "log size", row[5:7], -4, 4)
			inRange(t, "flag", row[7:9], 0, 1)
			if n.Counted().Within(n.Allocatable) {
				inRange(t, "share", row[:5], 0, 1)
			} else {
				ordinary = false
			}
		}
		inRange(t, "log of CPU over memory, flags", g.PodX[3:], -4, 4)
		inRange(t, "feasible", g.ClusterX[4:], 0, 1)
		if ordinary {
			inRange(t, "means and deviations", g.ClusterX[:4], 0, 1)
		}
		for c, v := range g.Candidates {
			inRange(t, "z", g.CandidateRow(c)[9:11], -4, 4)
			if s.Nodes[v].Fit(pod) == cluster.Fits && s.Nodes[v].Counted().Plus(pod.Requests.Counted()).Within(s.Nodes[v].Allocatable) {
				inRange(t, "share after placement", g.CandidateRow(c)[:7], 0, 1)
			}
		}
	})
}

func inRange(t *rapid.T, what string, values []float32, low, high float32) {
	for _, v := range values {
		if v < low || v > high {
			t.Fatalf("%s: %v is outside %v to %v", what, v, low, high)
		}
	}
}

// The values of every feature on one small cluster. If one changes on purpose, raise the Version of
// feature.Base: the change invalidates every checkpoint.
func TestGolden(t *testing.T) {
	gi := int64(1) << 30
	node := func(name, zone string, offer cluster.Resources, pods ...cluster.Resources) *cluster.Node {
		offer.Pods = 110
		n := &cluster.Node{Name: name, Zone: zone, Allocatable: offer}
		for _, p := range pods {
			n.Add(p)
		}
		return n
	}
	small, big := cluster.Resources{MilliCPU: 500, Memory: gi}, cluster.Resources{MilliCPU: 4000, Memory: 8 * gi, GPU: 1}
	control := node("control", "", cluster.Resources{MilliCPU: 4000, Memory: 8 * gi})
	control.Taints = []cluster.Taint{{Key: "control", Effect: cluster.NoSchedule}}
	s := &cluster.Snapshot{Nodes: []*cluster.Node{
		control,
		node("a", "east", cluster.Resources{MilliCPU: 8000, Memory: 32 * gi}, small, small, small),
		node("b", "west", cluster.Resources{MilliCPU: 16_000, Memory: 32 * gi, GPU: 4}, small, big, big),
		node("c", "east", cluster.Resources{MilliCPU: 4000, Memory: 8 * gi}),
	}}
	pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 1000, Memory: 2 * gi, Pods: 1}}
	g := New(feature.Default()).Encode(s, pod, []int32{1, 2, 3})
	var b bytes.Buffer
	list := func(title string, features []feature.Feature, values []float32) {
		fmt.Fprintf(&b, "%s\n", title)
		for i, f := range features {
			fmt.Fprintf(&b, "  %-16s %.5f\n", f.Name, values[i])
		}
	}
	for i, n := range s.Nodes {
		list(fmt.Sprintf("node %s, zone %d", n.Name, g.Zone[i]), feature.List(feature.Base.Node), g.NodeRow(i))
		for j, w := range g.Groups[i].Weight {
			list(fmt.Sprintf("group of %v on %s", w, n.Name), feature.List(feature.Base.Group), g.Groups[i].X[j*feature.Default().Widths.Group:])
		}
	}
	list("pod", feature.List(feature.Base.Pod), g.PodX)
	list("cluster", feature.List(feature.Base.Cluster), g.ClusterX)
	for c, v := range g.Candidates {
		list("candidate "+s.Nodes[v].Name, feature.List(feature.Base.Candidate), g.CandidateRow(c))
	}
	fatal.Golden(t, "small.txt", b.String())
}

// With one more set, its features follow the features of base, which do not change by a bit.
func TestMoreSets(t *testing.T) {
	layout := fatal.Value(feature.NewLayout(featuretest.Names))(t)
	rapid.Check(t, func(t *rapid.T) {
		s, serial := drawSnapshot(t), 0
		more, base := New(layout), New(feature.Default())
		for range 3 {
			pod := &cluster.Pod{Requests: drawRequests(t), GPUModels: []string{"T4"}}
			candidates := drawCandidates(t, len(s.Nodes))
			got, want := more.Encode(s, pod, candidates), base.Encode(s, pod, candidates)
			fatal.If(t, got.Validate())
			for i, n := range s.Nodes {
				slots := float32(n.Free().Pods) / 110
				behind(t, "node", got.NodeRow(i), want.NodeRow(i), slots)
				x, y := got.Groups[i].X, want.Groups[i].X
				for j, group := range n.Groups {
					behind(t, "group", x[j*layout.Widths.Group:(j+1)*layout.Widths.Group], y[j*len(y)/len(n.Groups):(j+1)*len(y)/len(n.Groups)],
						float32(group.Count)/10)
				}
			}
			behind(t, "pod", got.PodX, want.PodX, 0.1)
			behind(t, "cluster", got.ClusterX, want.ClusterX, float32(len(candidates))/100)
			for c, v := range candidates {
				behind(t, "candidate", got.CandidateRow(c), want.CandidateRow(c),
					float32(s.Nodes[v].Free().Pods)/110, want.CandidateRow(c)[5]+want.CandidateRow(c)[6])
			}
			change(t, s, &serial)
		}
	})
}

// behind checks that got consists of base, then more.
func behind(t interface{ Fatalf(string, ...any) }, what string, got, base []float32, more ...float32) {
	if d := cmp.Diff(append(append([]float32{}, base...), more...), got); d != "" {
		t.Fatalf("%s (-want +got)\n%s", what, d)
	}
}

// On the GPU graph, too, another set's features follow the features of base.
func TestMoreGPUSets(t *testing.T) {
	layout := fatal.Value(feature.NewGPULayout(featuretest.Names))(t)
	more, base := NewStars(layout, typical()), NewStars(feature.DefaultGPU(), typical())
	n := gpuNode("T4", 0, 600)
	for _, r := range []cluster.Resources{{}, {MilliCPU: 100, GPUMilli: 300, Pods: 1}} {
		var got, want graph.GPUNode
		more.Node(&got, n, r, cluster.Device(1))
		base.Node(&want, n, r, cluster.Device(1))
		behind(t, "node", got.X, want.X, float32(n.Free().Pods)/110)
	}
	nodes := []*cluster.Node{n}
	behind(t, "cluster", more.Features(nodes), base.Features(nodes), 0.002)
}

// typical returns a workload in which half of the pods request no GPU, a quarter half a device, an
// eighth one device of the model T4 and an eighth two devices.
func typical() *fragmentation.Typical {
	return fragmentation.NewTypical([]fragmentation.Demand{
		{Requests: cluster.Resources{MilliCPU: 2000, Pods: 1}, Count: 4},
		{Requests: cluster.Resources{MilliCPU: 4000, GPUMilli: 500, Pods: 1}, Count: 2},
		{Requests: cluster.Resources{MilliCPU: 8000, GPU: 1, Pods: 1}, Models: []string{"T4"}, Count: 1},
		{Requests: cluster.Resources{MilliCPU: 16000, GPU: 2, Pods: 1}, Count: 1},
	})
}

func gpuNode(model string, used ...int64) *cluster.Node {
	n := &cluster.Node{
		Version: cluster.NextVersion(), Name: "n", GPUModel: model,
		Allocatable: cluster.Resources{MilliCPU: 32_000, Memory: 100 << 30, GPU: int64(len(used)), Pods: 100}, GPUs: used,
	}
	return n
}

// named returns the feature of the given name.
func named(t *testing.T, features []feature.Feature, x []float32, name string) float64 {
	t.Helper()
	for i, f := range features {
		if f.Name == name {
			return float64(x[i])
		}
	}
	t.Fatalf("no feature %s", name)
	return 0
}

func TestGPUNode(t *testing.T) {
	e := NewStars(feature.DefaultGPU(), typical())
	// (2·4000 + 8000 + 16000) / (2·0.5 + 1 + 2) thousandths of a core by device.
	if e.workload.Unit != 8000 {
		t.Fatalf("unit %v", e.workload.Unit)
	}
	n := gpuNode("P100", 0, 600, 0)
	n.Requested = cluster.Resources{MilliCPU: 12_000, Memory: 25 << 30, Pods: 1, GPUMilli: 600}
	var g graph.GPUNode
	e.Node(&g, n, cluster.Resources{MilliCPU: 4000, Memory: 25 << 30, GPUMilli: 500, Pods: 1}, cluster.Device(2))
	if d := cmp.Diff([]float32{1, 0.4, 0.5}, g.Free, cmpopts.EquateApprox(0, 1e-6)); d != "" {
		t.Error(d)
	}
	for name, want := range map[string]float64{
		"cpu": 0.25, "memory": 0.5, "idle": 1.9 / 8, "whole": 1.0 / 8, "shared": 2.0 / 8, "cpu_per": 2 / 1.9 / 4,
		"cpu_scarce": 1, "cpu_some": 1, "devices": 3.0 / 8, "cpu_each": 4.0 / 3 / 4,
		"hosts": 0.75, "hosts_share": 1, "hosts_cpu": 1, "model": 0.75,
		// Without GPU: all of 1900, half of the time. Shares: 400 are too small, a quarter. The
		// T4's and the two devices': all, an eighth each.
		"fragmented": (0.5*1900 + 0.25*400 + 0.25*1900) / 4000,
	} {
		if got := named(t, feature.List(feature.GPUBase.Node), g.X, name); math.Abs(got-want) > 1e-6 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if len(g.X) != feature.DefaultGPU().Widths.Node {
		t.Errorf("%d features", len(g.X))
	}
}

// For any workload, the features stay in the range of the training.
func TestGPUNodeOfOddWorkloads(t *testing.T) {
	n := gpuNode("T4", 0, 0)
	for name, w := range map[string][]fragmentation.Demand{
		"unknown": nil,
		"hardly any GPU": {{Requests: cluster.Resources{MilliCPU: 1000, Pods: 1}, Count: 99},
			{Requests: cluster.Resources{MilliCPU: 1000, GPU: 1, Pods: 1}, Count: 1}},
		"GPU without CPU":  {{Requests: cluster.Resources{GPU: 1, Pods: 1}, Count: 1}},
		"hardly any CPU":   {{Requests: cluster.Resources{MilliCPU: 1, GPU: 1, Pods: 1}, Count: 1}},
		"nobody shares":    {{Requests: cluster.Resources{MilliCPU: 8000, GPU: 1, Pods: 1}, Count: 1}},
		"only names other": {{Requests: cluster.Resources{MilliCPU: 8000, GPU: 1, Pods: 1}, Models: []string{"P100"}, Count: 1}},
	} {
		var g graph.GPUNode
		NewStars(feature.DefaultGPU(), fragmentation.NewTypical(w)).Node(&g, n, cluster.Resources{}, 0)
		for i, x := range g.X {
			if x < 0 || x > 8 || x != x {
				t.Errorf("%s: %s is %v", name, feature.List(feature.GPUBase.Node)[i].Name, x)
			}
		}
		if x := named(t, feature.List(feature.GPUBase.Node), g.X, "hosts_cpu"); x != 1 {
			t.Errorf("%s: hosts_cpu is %v on an empty node", name, x)
		}
	}
}

func TestGPUClusterFeatures(t *testing.T) {
	c := NewStars(feature.DefaultGPU(), typical())
	n := gpuNode("T4", 0, 600, 1000, 0)
	n.Requested = cluster.Resources{MilliCPU: 8000, Memory: 50 << 30}
	away := gpuNode("T4", 0)
	away.Unschedulable = true
	x := c.Features([]*cluster.Node{n, away})
	for name, want := range map[string]float64{
		"whole": 0.5, "whole_few": 1, "whole_fewer": 1, "shared": 0.4 / 4 * 10, "cpu": 0.75, "memory": 0.5,
		"pods_cpu": 0.5, "pods_share": 0.25, "pods_multi": 0.25, "pods_model": 0.125, "share_size": 0.5, "cpu_per_gpu": 1,
	} {
		if got := named(t, feature.List(feature.GPUBase.Cluster), x, name); math.Abs(got-want) > 1e-6 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if len(x) != feature.DefaultGPU().Widths.Cluster {
		t.Errorf("%d features", len(x))
	}
}

// After any changes of nodes, the features equal a new encoder's, also for an unknown workload.
func TestStarsFollowTheNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workload := typical()
		if rapid.Bool().Draw(t, "unknown workload") {
			workload = nil
		}
		c := NewStars(feature.DefaultGPU(), workload)
		var nodes []*cluster.Node
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				nodes = append(nodes, gpuNode("T4", make([]int64, rapid.IntRange(0, 4).Draw(t, "devices"))...))
			case 1:
				if len(nodes) > 0 {
					nodes = append([]*cluster.Node(nil), nodes[1:]...)
				}
			default:
				for _, n := range nodes {
					pod := cluster.Pod{Requests: cluster.Resources{
						MilliCPU: 1000, GPUMilli: rapid.SampledFrom([]int64{0, 300, 700}).Draw(t, "share"), Pods: 1,
					}}
					if n.Fit(&pod) == cluster.Fits {
						n.Add(pod.Requests)
					}
				}
			}
			got := append([]float32(nil), c.Features(nodes)...)
			if d := cmp.Diff(NewStars(feature.DefaultGPU(), workload).Features(nodes), got); d != "" {
				t.Fatal(d)
			}
		}
	})
}
