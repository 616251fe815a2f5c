package moves_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/moves"
	"gnnsched/scheduler/objective"
)

// small is a cluster with pods, and its cost.
type small struct {
	nodes []*cluster.Node
	pods  []moves.Pod
	track func([]*cluster.Node) objective.Tracker
}

func gpuPod(milliCPU, gpu, milli int64) *cluster.Pod {
	return &cluster.Pod{Requests: cluster.Resources{MilliCPU: milliCPU, Memory: 1 << 30, GPU: gpu, GPUMilli: milli, Pods: 1}}
}

// draw draws a cluster of machines with GPUs.
func draw(rng *rand.Rand, nodes, pods int) small {
	kinds := []*cluster.Pod{gpuPod(500, 0, 300), gpuPod(500, 0, 600), gpuPod(1000, 1, 0), gpuPod(2000, 2, 0), gpuPod(1500, 0, 0)}
	kinds[1].GPUModels = []string{"T4"}
	var demand []fragmentation.Demand
	for i, k := range kinds {
		demand = append(demand, fragmentation.Demand{Requests: k.Requests, Models: k.GPUModels, Count: float64(len(kinds) - i)})
	}
	typical := fragmentation.NewTypical(demand)
	x := small{track: func(n []*cluster.Node) objective.Tracker { return moves.Fragmentation(nil, typical, n) }}
	for i := range nodes {
		n := &cluster.Node{Allocatable: cluster.Resources{MilliCPU: 4000, Memory: 1 << 36, GPU: 2, Pods: 20}, GPUs: make([]int64, 2),
			GPUModel: "T4", Version: cluster.NextVersion()}
		if i%3 == 2 {
			n.GPUModel = "P100"
		}
		x.nodes = append(x.nodes, n)
	}
	for range pods {
		p := kinds[rng.IntN(len(kinds))]
		for _, row := range rng.Perm(nodes) {
			if n := x.nodes[row]; n.Fit(p) == cluster.Fits {
				x.pods = append(x.pods, moves.Pod{Pod: p, ID: 100 + len(x.pods), Row: int32(row), Devices: n.Add(p.Requests)})
				break
			}
		}
	}
	return x
}

// copied returns a copy of the nodes.
func (x small) copied() (out []*cluster.Node) {
	for _, n := range x.nodes {
		c := *n
		c.Groups, c.GPUs = slices.Clone(n.Groups), slices.Clone(n.GPUs)
		out = append(out, &c)
	}
	return out
}

// play makes steps on a copy of the nodes, and returns the costs before and after each.
func (x small) play(t interface{ Fatalf(string, ...any) }, steps [][]cluster.Move) []float64 {
	nodes, pods := x.copied(), slices.Clone(x.pods)
	costs := []float64{x.track(nodes).Cost()}
	for _, step := range steps {
		for _, m := range step {
			p := &pods[m.Pod-100]
			nodes[p.Row].Remove(p.Requests, p.Devices)
		}
		for _, m := range step {
			p := &pods[m.Pod-100]
			if n := nodes[m.Row]; n.Fit(p.Pod) != cluster.Fits || !n.FitsOn(p.Requests, m.Devices) {
				t.Fatalf("%+v has no room for %+v", m, p.Requests)
			}
			p.Row, p.Devices = m.Row, m.Devices
			nodes[p.Row].AddOn(p.Requests, p.Devices)
		}
		costs = append(costs, x.track(nodes).Cost())
	}
	return costs
}

func (x small) find(by moves.Searcher, evaluations, most int) (made [][]cluster.Move) {
	return x.until(by, evaluations, most, func() bool { return false })
}

// until ends a search as stop says.
func (x small) until(by moves.Searcher, evaluations, most int, stop func() bool) (made [][]cluster.Move) {
	for _, c := range moves.Find(moves.New(x.nodes, x.pods, moves.Config{Evaluations: evaluations, Track: x.track}), by, most, stop) {
		made = append(made, c.Moves)
	}
	return made
}

// places calls yield with each place where a pod that has left has room.
func places(nodes []*cluster.Node, p *cluster.Pod, yield func(row int32, on cluster.DeviceSet)) {
	for row, n := range nodes {
		switch {
		case n.Fit(p) != cluster.Fits:
		case p.Requests.GPUMilli == 0:
			yield(int32(row), n.ChooseDevices(p.Requests))
		default:
			for i := range n.GPUs {
				if n.GPUs[i]+p.Requests.GPUMilli <= cluster.DeviceMilli {
					yield(int32(row), cluster.Device(i))
				}
			}
		}
	}
}

// optimum returns the least cost of all placements: a bound for every search.
func (x small) optimum() float64 {
	nodes, best := x.copied(), math.Inf(1)
	for _, p := range x.pods {
		nodes[p.Row].Remove(p.Requests, p.Devices)
	}
	var place func(i int)
	place = func(i int) {
		if i == len(x.pods) {
			best = min(best, x.track(nodes).Cost())
			return
		}
		p := x.pods[i]
		places(nodes, p.Pod, func(row int32, on cluster.DeviceSet) {
			nodes[row].AddOn(p.Requests, on)
			place(i + 1)
			nodes[row].Remove(p.Requests, on)
		})
	}
	place(0)
	return best
}

// Every step has room and lowers the cost, there are no more moves than allowed, none is made when the time is over, and the same search
// finds the same. This holds for costs
// that are no sum over nodes too.
func TestFind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		x := draw(rng, rapid.IntRange(2, 8).Draw(t, "nodes"), rapid.IntRange(1, 40).Draw(t, "pods"))
		if rapid.Bool().Draw(t, "balance") {
			x.track = objective.Mix{{Term: objective.Balance{}, Weight: 1}, {Term: objective.Pack{}, Weight: 0.3}}.Track
		}
		by := rapid.SampledFrom([]moves.Searcher{moves.Greedy{}, moves.Local{}}).Draw(t, "by")
		budget := rapid.IntRange(0, 12).Draw(t, "most")
		evaluations := rapid.SampledFrom([]int{0, 100, 1 << 20}).Draw(t, "evaluations")
		patience := rapid.SampledFrom([]int{0, 1, 20, 1 << 40}).Draw(t, "patience")
		find := func() [][]cluster.Move {
			calls := patience
			return x.until(by, evaluations, budget, func() bool { calls--; return calls < 0 })
		}
		before := x.copied()
		steps, most := find(), budget
		if d := cmp.Diff(before, x.nodes); d != "" {
			t.Fatalf("the nodes have changed: %s", d)
		}
		costs := x.play(t, steps)
		for i, step := range steps {
			if most -= len(step); most < 0 || costs[i+1] >= costs[i] || evaluations == 0 || patience == 0 {
				t.Fatalf("step %d, %+v: costs %v, %d moves left", i, step, costs, most)
			}
		}
		if d := cmp.Diff(steps, find()); d != "" {
			t.Fatalf("the same search finds something else: %s", d)
		}
	})
}

// The first step of Greedy is the best of all single moves.
func TestGreedyIsTheBestMove(t *testing.T) {
	moved := 0
	for seed := range uint64(60) {
		x := draw(rand.New(rand.NewPCG(seed, 2)), 6, 20)
		nodes, tracker := x.copied(), x.track(x.nodes)
		best := tracker.Cost()
		for _, p := range x.pods {
			nodes[p.Row].Remove(p.Requests, p.Devices)
			places(nodes, p.Pod, func(row int32, on cluster.DeviceSet) {
				nodes[row].AddOn(p.Requests, on)
				best = min(best, x.track(nodes).Cost())
				nodes[row].Remove(p.Requests, on)
			})
			nodes[p.Row].AddOn(p.Requests, p.Devices)
		}
		costs := x.play(t, x.find(moves.Greedy{}, 1<<20, 1))
		if moved += len(costs) - 1; math.Abs(costs[len(costs)-1]-best) > 1e-8 {
			t.Errorf("seed %d: costs %v, the best move leads to %v", seed, costs, best)
		}
	}
	if moved == 0 {
		t.Error("nothing ever moves")
	}
}

// On small clusters, no search passes the optimum, and steps of several moves come much closer to it.
func TestBound(t *testing.T) {
	var start, greedy, local, bound float64
	for seed := range uint64(30) {
		x := draw(rand.New(rand.NewPCG(seed, 4)), 3, 7)
		best := x.optimum()
		last := func(by moves.Searcher) float64 {
			costs := x.play(t, x.find(by, 1<<20, 100))
			if costs[len(costs)-1] < best-1e-9 {
				t.Errorf("seed %d: cost %v below the optimum %v", seed, costs[len(costs)-1], best)
			}
			return costs[len(costs)-1]
		}
		start, greedy, local, bound = start+x.track(x.nodes).Cost(), greedy+last(moves.Greedy{}), local+last(moves.Local{}), bound+best
	}
	t.Logf("sum of the costs: %.3f at first, %.3f with single moves, %.3f with local search, %.3f at best", start, greedy, local, bound)
	if greedy >= start || local-bound > (greedy-bound)/2 {
		t.Errorf("costs %v at first, %v with single moves, %v with local search, %v at best", start, greedy, local, bound)
	}
}

// Every search empties only as many nodes as its bound allows, by moves that have room one after another, within the limits; the same
// search finds the same, and one that is stopped leaves a plan too. The local search finds no less than the greedy one.
func TestEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		x := draw(rng, rapid.IntRange(2, 8).Draw(t, "nodes"), rapid.IntRange(1, 30).Draw(t, "pods"))
		limits := moves.Limits{Pods: rapid.IntRange(0, 12).Draw(t, "most"), Chains: rapid.Bool().Draw(t, "chains")}
		patience := rapid.IntRange(0, 100).Draw(t, "patience")
		freed := map[string]int{}
		for _, s := range moves.Searchers {
			empty := func(calls int) moves.Emptied {
				state := moves.New(x.nodes, x.pods, moves.Config{Track: objective.Pack{}.Track})
				return moves.Empty(state, s.By, limits, func() bool { calls--; return calls < 0 }, func(float64) {})
			}
			found := empty(1 << 40)
			if d := cmp.Diff(found, empty(1<<40)); d != "" {
				t.Fatalf("%s: the same search finds something else: %s", s.Name, d)
			}
			for _, f := range []moves.Emptied{found, empty(patience)} {
				var alone [][]cluster.Move
				left := map[int32]int{}
				for _, p := range x.pods {
					left[p.Row]++
				}
				for _, m := range f.Steps {
					alone = append(alone, []cluster.Move{m.Move})
					left[x.pods[m.Pod-100].Row]--
					left[m.Row]++
				}
				x.play(t, alone)
				if len(f.Freed) > f.Bound || limits.Pods > 0 && len(f.Steps) > limits.Pods {
					t.Fatalf("%s: %d nodes of at most %d by %d moves", s.Name, len(f.Freed), f.Bound, len(f.Steps))
				}
				for _, row := range f.Freed {
					if left[row] > 0 {
						t.Fatalf("%s: node %d has %d pods", s.Name, row, left[row])
					}
				}
			}
			freed[s.Name] = len(found.Freed)
		}
		if freed["local"] < freed["greedy"] {
			t.Fatalf("%v", freed)
		}
	})
}

// A pod that may run on its node alone stays, though another one that may run anywhere requests the same.
func TestAffinityIsKept(t *testing.T) {
	x := small{track: objective.Pack{}.Track}
	for _, disk := range []string{"hdd", "ssd"} {
		x.nodes = append(x.nodes, &cluster.Node{Labels: map[string]string{"disk": disk}, Version: cluster.NextVersion(),
			Allocatable: cluster.Resources{MilliCPU: 8000, Memory: 1 << 36, Pods: 20}})
	}
	free, bound := gpuPod(1000, 0, 0), gpuPod(1000, 0, 0)
	bound.NodeAffinity = [][]cluster.Requirement{{{Key: "disk", Operator: "NotIn", Values: []string{"hdd"}}}}
	for i, p := range []*cluster.Pod{free, free, bound} {
		x.nodes[i/2].Add(p.Requests)
		x.pods = append(x.pods, moves.Pod{Pod: p, ID: 100 + i, Row: int32(i / 2)})
	}
	if steps := x.find(moves.Greedy{}, 1<<20, 100); steps != nil {
		t.Errorf("%v moves a pod where it may not run", steps)
	}
	if steps := x.find(moves.Local{}, 1<<20, 100); len(steps) != 1 || len(steps[0]) != 2 {
		t.Errorf("steps %v, want two moves", steps)
	}
}

// A node is emptied by several moves of which the first lower nothing.
func TestDrain(t *testing.T) {
	x := small{track: objective.Pack{}.Track}
	for range 3 {
		x.nodes = append(x.nodes, &cluster.Node{Allocatable: cluster.Resources{MilliCPU: 8000, Memory: 1 << 36, Pods: 20},
			Version: cluster.NextVersion()})
	}
	for i, row := range []int32{0, 0, 0, 0, 1, 1, 1, 2, 2, 2} {
		p := gpuPod(1000, 0, 0)
		x.nodes[row].Add(p.Requests)
		x.pods = append(x.pods, moves.Pod{Pod: p, ID: 100 + i, Row: row})
	}
	if steps := x.find(moves.Greedy{}, 1<<20, 100); steps != nil {
		t.Errorf("single moves %v empty a node with three pods", steps)
	}
	if steps := x.find(moves.Local{}, 1<<20, 100); len(steps) != 1 || len(steps[0]) != 3 {
		t.Errorf("steps %v, want three moves together", steps)
	}
	if steps := x.find(moves.Local{}, 1<<20, 2); steps != nil {
		t.Errorf("two moves %v empty a node with three pods", steps)
	}
}

// With worths, the moves empty what gains most, and leave pods that lose more.
func TestWorth(t *testing.T) {
	node := func(name string, used int64) *cluster.Node {
		n := &cluster.Node{Name: name, Allocatable: cluster.Resources{MilliCPU: 4000, Memory: 1 << 36, Pods: 20}, Version: cluster.NextVersion()}
		n.Add(gpuPod(used, 0, 0).Requests)
		return n
	}
	nodes := []*cluster.Node{node("a", 1000), node("b", 3000), node("c", 1500), node("d", 2900)}
	var pods []moves.Pod
	for i, cpu := range []int64{1000, 3000, 1500, 2900} {
		pods = append(pods, moves.Pod{Pod: gpuPod(cpu, 0, 0), ID: i, Row: int32(i)})
	}
	for _, by := range moves.Searchers {
		for _, c := range []struct {
			nodes, pods []float64
			want        []int32
		}{
			{[]float64{1, 1, 1, 1}, []float64{0, 0, 0, 0}, []int32{0}},
			{[]float64{1, 1, 2, 1}, []float64{0, 0, 0, 0}, []int32{2}},
			{[]float64{1, 1, 2, 1}, []float64{0, 0, 1.5, 0}, []int32{0}},
			{[]float64{1, 1, 2, 1}, []float64{1, 1, 2, 1}, nil},
		} {
			state := moves.New(nodes, pods, moves.Config{Track: objective.Pack{}.Track})
			got := moves.Empty(state, by.By, moves.Limits{Worth: &moves.Worth{Nodes: c.nodes, Pods: c.pods}},
				func() bool { return false }, func(float64) {})
			if !slices.Equal(got.Freed, c.want) {
				t.Errorf("%s, %v less %v: %v, want %v", by.Name, c.nodes, c.pods, got.Freed, c.want)
			}
		}
	}
}
