package encode_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/sim"
)

// usageCluster is two measured nodes and one without a measurement.
func usageCluster() *cluster.Snapshot {
	s := &cluster.Snapshot{Now: 1060}
	for range 3 {
		s.Nodes = append(s.Nodes, &cluster.Node{
			Version: cluster.NextVersion(), Allocatable: cluster.Resources{MilliCPU: 4000, Memory: 1 << 30, Pods: 10},
			Requested: cluster.Resources{MilliCPU: 2000, Pods: 1},
			Groups:    []cluster.Group{{Each: cluster.Resources{MilliCPU: 2000, Pods: 1}, Count: 1}},
		})
	}
	for i, mean := range []float64{400, 800} {
		u := &cluster.NodeUsage{Version: cluster.NextVersion(), At: 1000}
		u.Known[cluster.UsedCPU], u.Known[cluster.NetworkIn], u.Known[cluster.DiskRead] = true, true, true
		u.Measured[cluster.UsedCPU] = cluster.Statistics{Mean: mean, Deviation: 40, Trend: -80, HourMax: 1200, DayMax: 4000}
		u.Measured[cluster.NetworkIn] = cluster.Statistics{Mean: math.NaN(), HourMax: 1e30}
		u.Measured[cluster.DiskRead] = cluster.Statistics{Mean: 5} // without a known capacity
		u.Missing[cluster.UsedCPU] = 200
		u.Capacity[cluster.NetworkIn] = 100
		s.Nodes[i].Usage = u
	}
	return s
}

func usageLayout(t *testing.T) *feature.Layout {
	t.Helper()
	return fatal.Value(feature.NewLayout([]string{"base", "usage"}))(t)
}

// featureBehind returns the index of a feature behind the first ones of a list, whose names may recur.
func featureBehind(t *testing.T, list []feature.Feature, first int, name string) int {
	t.Helper()
	i := slices.IndexFunc(list[first:], func(f feature.Feature) bool { return f.Name == name })
	if i < 0 {
		t.Fatalf("no feature %s", name)
	}
	return first + i
}

// The features are computed by hand from their docs.
func TestUsageFeatures(t *testing.T) {
	layout := usageLayout(t)
	candidate, total := feature.List(layout.Candidate), feature.List(layout.Cluster)
	pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 1000, Pods: 1}, Usage: &cluster.PodUsage{}}
	pod.Usage.Known[cluster.UsedCPU], pod.Usage.Measured[cluster.UsedCPU].Mean = true, 100
	g := encode.New(layout).Encode(usageCluster(), pod, []int32{0, 1, 2})
	fatal.If(t, g.Validate())
	base := feature.Default().Widths // names of base recur
	// Used CPU: (400+200)/4000, (800+200)/4000, and 2000/4000 by requests. The pod adds 100/4000.
	mean, std := (0.15+0.25+0.5)/3, math.Sqrt((0.15*0.15+0.25*0.25+0.5*0.5)/3-0.3*0.3)
	rise := func(after float64) float64 { return 4 * (after - mean) * 0.025 / (std + 0.025 + 0.01) }
	for name, want := range map[string][3]float64{
		"used_cpu": {0.175, 0.275, 0.525}, "used_rise": {rise(0.175), rise(0.275), rise(0.525)}, "used_cpu_std": {0.01, 0.01, 0},
		"used_cpu_max": {1500. / 4000, 1500. / 4000, 2100. / 4000}, "used_cpu_trend": {-0.02, -0.02, 0},
		"used_network_in": {0, 0, 0}, "used_network_in_max": {4, 4, 0}, "used_disk_read": {0, 0, 0},
		"used_age": {0.2, 0.2, 1}, "used_known": {0.5, 0.5, 0},
	} {
		for c := range 3 {
			if got := float64(g.CandidateRow(c)[featureBehind(t, candidate, base.Candidate, name)]); math.Abs(got-want[c]) > 1e-6 {
				t.Errorf("%s of candidate %d is %v, want %v", name, c, got, want[c])
			}
		}
	}
	for name, want := range map[string]float64{"used_cpu": mean, "used_cpu_std": std, "add_cpu": 0.025, "add_memory": 0, "pod_known": 1. / 6} {
		if got := float64(g.ClusterX[featureBehind(t, total, base.Cluster, name)]); math.Abs(got-want) > 1e-6 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// A measurement changes the features of candidates, but dirties no node's embedding.
func TestUsageDirtiesNoNode(t *testing.T) {
	s, encoder, pod := usageCluster(), encode.New(usageLayout(t)), &cluster.Pod{Requests: cluster.Resources{MilliCPU: 1000, Pods: 1}}
	g := encoder.Encode(s, pod, []int32{0, 1, 2})
	stamps, nodes, candidates := slices.Clone(g.Stamp), slices.Clone(g.NodeX), slices.Clone(g.CandidateX)
	for _, n := range s.Nodes {
		u := &cluster.NodeUsage{Version: cluster.NextVersion(), At: 1050}
		u.Known[cluster.UsedCPU], u.Measured[cluster.UsedCPU].Mean = true, 3000
		n.Usage = u
	}
	g = encoder.Encode(s, pod, []int32{0, 1, 2})
	if !slices.Equal(stamps, g.Stamp) || !slices.Equal(nodes, g.NodeX) {
		t.Error("the measurement dirtied nodes")
	}
	if slices.Equal(candidates, g.CandidateX) {
		t.Error("the measurement did not change the candidates")
	}
	if fresh := encode.New(usageLayout(t)).Encode(s, pod, []int32{0, 1, 2}); !slices.Equal(fresh.CandidateX, g.CandidateX) {
		t.Error("what is kept differs from what is computed anew")
	}
}

// The features are computed by hand: one machine is half used, one of the same kind sleeps, and an old one may not sleep.
func TestPowerFeatures(t *testing.T) {
	layout := fatal.Value(feature.NewLayout([]string{"base", "power"}))(t)
	sleep := 1.0
	s := &cluster.Snapshot{}
	for _, m := range []cluster.PowerModel{{Idle: 10, Full: 50, Sleep: &sleep}, {Idle: 10, Full: 50, Sleep: &sleep}, {Idle: 40, Full: 200}} {
		s.Nodes = append(s.Nodes, &cluster.Node{
			Version: cluster.NextVersion(), Allocatable: cluster.Resources{MilliCPU: 10_000, Memory: 8 << 30, Pods: 10}, Power: &m,
		})
	}
	s.Nodes[0].Add(cluster.Resources{MilliCPU: 5000})
	g := encode.New(layout).Encode(s, &cluster.Pod{Requests: cluster.Resources{MilliCPU: 1000, Pods: 1}}, []int32{0, 1, 2})
	fatal.If(t, g.Validate())
	behind := feature.Default().Widths // names of base recur
	candidate := feature.List(layout.Candidate)
	mean := math.Log2(50 / (300. / 3)) // of a core's watts, against the mean
	for name, want := range map[string][3]float64{
		"rise": {4. / 100, (14 - 1) / 100., 16. / 100}, "watts": {mean, mean, mean + 2}, "wakes": {0, 1, 0},
	} {
		for c := range 3 {
			if got := float64(g.CandidateRow(c)[featureBehind(t, candidate, behind.Candidate, name)]); math.Abs(got-want[c]) > 1e-6 {
				t.Errorf("%s of candidate %d is %v, want %v", name, c, got, want[c])
			}
		}
	}
	total := feature.List(layout.Cluster)
	if got := float64(g.ClusterX[featureBehind(t, total, behind.Cluster, "unused")]); math.Abs(got-2./3) > 1e-6 {
		t.Errorf("unused is %v", got)
	}
}

// talking returns the environment of the scenario traffic in the middle of an episode, and the layout of its features.
func talking(t *testing.T) (*sim.Env, *feature.Layout) {
	t.Helper()
	layout := fatal.Value(feature.NewLayout([]string{"base", "traffic"}))(t)
	s := fatal.Value(eval.Find("traffic"))(t)
	env := fatal.Value(sim.New(s.Config))(t)
	fatal.If(t, env.Reset(1))
	for i := range 400 {
		env.Step(i * 7 % len(env.Candidates()))
	}
	return env, layout
}

// The features of traffic equal a placement's effect on the cluster's traffic. The weights of the peers are shares of the pod's traffic.
func TestTrafficFeatures(t *testing.T) {
	env, layout := talking(t)
	column := map[string]int{}
	for i, f := range feature.List(layout.Candidate) {
		column[f.Name] = i
	}
	encoder, compared := encode.New(layout), 0
	for step := range 300 {
		g := encoder.Encode(env.Snapshot(), env.Pending(), env.Candidates())
		fatal.If(t, g.Validate())
		if g.Zones != 6 {
			t.Fatalf("%d zone vertices, want one for each of 6 racks", g.Zones)
		}
		traffic, peers := cluster.TrafficOf(env.Snapshot().Nodes), env.Snapshot().Peers
		beyond := env.Snapshot().Beyond
		if len(g.Peers) != len(peers)+len(beyond) {
			t.Fatalf("%d peers, want %d and %d two steps away", len(g.Peers), len(peers), len(beyond))
		}
		var weight float32
		for k, p := range beyond {
			if weight += g.PeerWeight[len(peers)+k]; g.Peers[len(peers)+k] != p.Row {
				t.Fatalf("pods two steps away are on row %d, want %d", g.Peers[len(peers)+k], p.Row)
			}
		}
		if len(beyond) > 0 && math.Abs(float64(weight-1)) > 1e-5 {
			t.Fatalf("the weights two steps away add up to %v", weight)
		}
		for i, row := range g.Candidates {
			var placed cluster.Traffic
			traffic.CopyTo(&placed)
			placed.Place(row, peers)
			x, added := g.CandidateRow(i), placed.Rate-traffic.Rate
			for name, want := range map[string]float64{
				"far":       (placed.Distance - traffic.Distance) / max(added, 1),
				"near_node": (placed.SameNode - traffic.SameNode) / max(added, 1),
				"over":      min((placed.Excess-traffic.Excess)/max(added, 1), 4),
				"rack_cpu":  room(env.Snapshot().Nodes, row),
				"node_link": placed.Use(int(row), 0),
				"rack_link": placed.Use(placed.Network.RackLink(row), 0),
				"zone_link": placed.Use(placed.Network.ZoneLink(row), 0),
			} {
				if got := float64(x[column[name]]); math.Abs(got-want) > 1e-4 {
					t.Fatalf("step %d, row %d: %s is %v, want %v", step, row, name, got, want)
				}
			}
			var far, share float64
			for k, p := range peers {
				at := (i*len(g.Peers) + k) * g.Widths.Path
				path := g.PathX[at : at+g.Widths.Path]
				far += float64(g.PeerWeight[k] * path[3])
				share += float64(g.PeerWeight[k] * path[0])
				if g.Peers[k] != p.Row {
					t.Fatalf("peer %d is on row %d, want %d", k, g.Peers[k], p.Row)
				}
			}
			for k, p := range beyond {
				at := (i*len(g.Peers) + len(peers) + k) * g.Widths.Path
				near, path := g.PathX[at:at+g.Widths.Path/2], g.PathX[at+g.Widths.Path/2:]
				if want := float32(traffic.Network.Path(row, p.Row).Distance); path[3] != want ||
					slices.ContainsFunc(near, func(v float32) bool { return v != 0 }) {
					t.Fatalf("the path to row %d, two steps away, is %v and %v, want a distance of %v", p.Row, near, path[:6], want)
				}
			}
			if math.Abs(far-float64(x[column["far"]])) > 1e-4 || math.Abs(share-float64(x[column["near_node"]])) > 1e-4 {
				t.Fatalf("the paths are %v far and %v on the node, the features say %v and %v", far, share, x[column["far"]], x[column["near_node"]])
			}
		}
		if len(peers) > 3 && len(beyond) > 3 {
			compared++
		}
		env.Step(step % len(env.Candidates()))
	}
	if compared < 100 {
		t.Errorf("only %d pods had peers", compared)
	}
}

// room returns the feature rack_cpu of a node.
func room(nodes []*cluster.Node, row int32) float64 {
	type rack struct{ zone, name string }
	free, offered := map[rack]float64{}, map[rack]float64{}
	for _, n := range nodes {
		free[rack{n.Zone, n.Rack}] += float64(n.Free().MilliCPU)
		offered[rack{n.Zone, n.Rack}] += float64(n.Allocatable.MilliCPU)
	}
	var mean float64
	for r := range free {
		mean += free[r] / offered[r] / float64(len(free))
	}
	own := rack{nodes[row].Zone, nodes[row].Rack}
	return free[own]/offered[own] - mean
}

// The feature rise is a placement's cost in traffic=1,overload=1. So a policy that is greedy for this objective is linear in the features.
func TestGreedyIsLinearInTheFeatures(t *testing.T) {
	env, layout := talking(t)
	h := fatal.Value(heuristic.Find("greedy:traffic+overload"))(t)
	greedy, encoder := h.New(policy.Setting{}), encode.New(layout)
	column := slices.IndexFunc(feature.List(layout.Candidate), func(f feature.Feature) bool { return f.Name == "rise" })
	for range 300 {
		rows := env.Candidates()
		scores := make([]float32, len(rows))
		fatal.If(t, greedy.Score(env.Snapshot(), env.Pending(), rows, scores))
		g := encoder.Encode(env.Snapshot(), env.Pending(), rows)
		for i := range rows[1:] {
			want := float64(scores[0] - scores[i+1])
			got := float64(g.CandidateRow(i + 1)[column] - g.CandidateRow(0)[column])
			if math.Abs(got-want) > 1e-3 {
				t.Fatalf("row %d is %v worse than row %d by the feature, and %v by the policy", rows[i+1], got, rows[0], want)
			}
		}
		env.Step(policy.Best(scores))
	}
}

// Of many nodes with peers the graph has those with the most traffic, and shares that add up to 1.
func TestPeersAreBounded(t *testing.T) {
	_, layout := talking(t)
	s := &cluster.Snapshot{}
	for i := range 100 {
		s.Nodes = append(s.Nodes,
			&cluster.Node{Version: cluster.NextVersion(), Allocatable: cluster.Resources{MilliCPU: 1000, Memory: 1 << 30, Pods: 10}})
		s.Peers = append(s.Peers, cluster.Peer{Row: int32(i), Pods: 1, Rate: float64(1 + i%50)})
	}
	encoder := encode.New(layout)
	if g := encoder.Encode(s, &cluster.Pod{}, []int32{3, 4}); len(g.Peers) != 0 || g.Validate() != nil {
		t.Errorf("%d peers without a network", len(g.Peers))
	}
	traffic := cluster.NewTraffic(cluster.NewNetwork(cluster.Links{Node: cluster.Hop{Latency: 1}}, s.Nodes))
	for _, n := range s.Nodes {
		n.Traffic = traffic
	}
	for _, candidates := range [][]int32{{3, 4}, {}, {5}} {
		g := encoder.Encode(s, &cluster.Pod{}, candidates)
		fatal.If(t, g.Validate())
		sum := float32(0)
		for k, row := range g.Peers {
			sum += g.PeerWeight[k]
			if row%50 < 18 {
				t.Errorf("row %d, which sends little, is a peer", row)
			}
		}
		if len(g.Peers) != 64 || math.Abs(float64(sum-1)) > 1e-5 {
			t.Errorf("%d peers with weights of %v", len(g.Peers), sum)
		}
	}
}

// Graphs whose peers do not fit are refused.
func TestValidateRefusesPeers(t *testing.T) {
	env, layout := talking(t)
	good := encode.New(layout).Encode(env.Snapshot(), env.Pending(), env.Candidates())
	for name, spoil := range map[string]func(*graph.Graph){
		"row":    func(g *graph.Graph) { g.ResizePeers(1); g.Peers[0] = 99 },
		"weight": func(g *graph.Graph) { g.ResizePeers(2); g.PeerWeight = g.PeerWeight[:1] },
		"values": func(g *graph.Graph) { g.ResizePeers(2); g.PathX = g.PathX[1:] },
	} {
		g := good.Clone()
		spoil(g)
		if g.Validate() == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}

// The set whole gives a network the sums that the linear policy computes over all available nodes.
func TestWholeHasTheLinearFeatures(t *testing.T) {
	layout := fatal.Value(feature.NewLayout([]string{"base", "whole"}))(t)
	columns := map[string]int{} // by the linear policy's name
	for i, f := range feature.List(layout.Candidate) {
		if name, ok := map[string]string{
			"all_balance": "balance", "all_skew": "skew", "all_over": "over", "match": "match", "size": "size", "empty": "empty",
		}[f.Name]; ok {
			columns[name] = i
		}
	}
	if len(columns) != 6 {
		t.Fatalf("columns %v", columns)
	}
	s := fatal.Value(eval.Find("small8"))(t)
	env := fatal.Value(sim.New(s.Config))(t)
	fatal.If(t, env.Reset(1))
	encoder := encode.New(layout)
	compared := 0
	for step := 0; !env.Done() && step < 400; step++ {
		rows := env.Candidates()
		g := encoder.Encode(env.Snapshot(), env.Pending(), rows)
		scores := make([]float32, len(rows))
		for name, column := range columns {
			if step%20 != 0 {
				break
			}
			weights := make([]float64, len(linear.Features))
			weights[slices.Index(linear.Features, name)] = 1
			p := fatal.Value(linear.New(name, weights))(t)
			fatal.If(t, p.Score(env.Snapshot(), env.Pending(), rows, scores))
			for i, want := range scores {
				want = max(min(want, 4), -4)
				if got := g.CandidateRow(i)[column]; math.Abs(float64(got-want)) > 2e-3 {
					t.Fatalf("step %d, %s of candidate %d: %v, the linear policy has %v", step, name, i, got, want)
				} else if got != 0 {
					compared++
				}
			}
		}
		fatal.If(t, linear.Tuned("linear").Score(env.Snapshot(), env.Pending(), rows, scores))
		env.Step(policy.Best(scores))
	}
	if compared < 300 {
		t.Errorf("%d values were compared", compared)
	}
}

// One encoder follows a cluster: after a placement it encodes the changed node again, and nothing
// else.
func ExampleEncoder() {
	offer := cluster.Resources{MilliCPU: 4000, Memory: 16 << 30, Pods: 110}
	snapshot := &cluster.Snapshot{Nodes: []*cluster.Node{
		{Name: "a", Version: cluster.NextVersion(), Allocatable: offer},
		{Name: "b", Version: cluster.NextVersion(), Allocatable: offer},
	}}
	pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 1000, Memory: 2 << 30, Pods: 1}}

	layout := feature.Default()
	encoder := encode.New(layout)
	for range 2 {
		g := encoder.Encode(snapshot, pod, []int32{0, 1}) // the pod may go on a or b
		for c, row := range g.Candidates {
			fmt.Printf("%s: %s would be %.2f\n", snapshot.Nodes[row].Name, feature.List(layout.Candidate)[0].Name, g.CandidateRow(c)[0])
		}
		snapshot.Nodes[0].Add(pod.Requests)
	}
	// Output:
	// a: cpu would be 0.25
	// b: cpu would be 0.25
	// a: cpu would be 0.50
	// b: cpu would be 0.25
}

// On the GPU graph a candidate is the node as it will be after the placement on some of its devices.
func ExampleStars() {
	node := &cluster.Node{
		Name: "gpu-0", Allocatable: cluster.Resources{MilliCPU: 32_000, Memory: 128 << 30, GPU: 2, Pods: 110}, GPUs: []int64{0, 600},
	}
	pod := cluster.Resources{MilliCPU: 4000, Memory: 8 << 30, GPUMilli: 300, Pods: 1}

	encoder := encode.NewStars(feature.DefaultGPU(), nil) // the workload is not known
	var before, after graph.GPUNode
	encoder.Node(&before, node, cluster.Resources{}, 0)
	encoder.Node(&after, node, pod, cluster.Device(1))
	fmt.Println("free parts of the devices:", before.Free, "then", after.Free)
	// Output:
	// free parts of the devices: [1 0.4] then [1 0.1]
}
