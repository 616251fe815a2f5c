package sim

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/fatal"
)

// partitioned has GPUs with MIG partitions.
func partitioned(rng *rand.Rand) Config {
	g := &Given{End: 60, Leave: true}
	for range 4 {
		g.Nodes = append(g.Nodes, &cluster.Node{
			Name: "gpu", Allocatable: cluster.Resources{MilliCPU: 64_000, Memory: 1 << 40, GPU: 3, Pods: 40},
			GPUs: make([]int64, 3), Slices: make([]mig.Slices, 3), Version: cluster.NextVersion(),
		})
	}
	var pods []Arrival
	for i := range 60 {
		p := mig.Profiles()[rng.IntN(len(mig.Profiles()))]
		pod := &cluster.Pod{Partition: p, Requests: cluster.Resources{MilliCPU: 100, Memory: 1 << 30, GPUMilli: p.Milli(), Pods: 1}}
		pods = append(pods, Arrival{Pod: pod, At: float64(i) / 2, Lifetime: 20 * rng.ExpFloat64()})
	}
	g.Pods = func(uint64) []Arrival { return pods }
	return Config{Given: g}
}

// world holds the state that moves change, and the state that they must keep.
type world struct {
	Nodes   []*cluster.Node
	On      []int32
	Devices []cluster.DeviceSet
	Leaves  map[int32]float64
	Waiting []int32
	Cost    float64
	Starts  []int8
	Compute [][]int
	Flows   cluster.Flows
	Owners  [][]int32
	Means   []float64
}

func worldOf(e *Env) world {
	w := world{Nodes: clone(e.snapshot.Nodes), On: slices.Clone(e.on), Leaves: map[int32]float64{},
		Waiting: slices.Sorted(slices.Values(e.waiting)), Cost: e.cost}
	for i, n := range w.Nodes {
		n.Version, n.Traffic, n.Slices = 0, nil, slices.Clone(e.snapshot.Nodes[i].Slices)
	}
	for pod, row := range e.on {
		w.Devices = append(w.Devices, 0)
		if row >= 0 {
			w.Devices[pod] = e.devices[pod]
		}
	}
	for _, d := range e.running {
		w.Leaves[d.pod] = d.at
	}
	for _, p := range e.parts {
		switch p := p.(type) {
		case *partitions:
			w.Starts = slices.Clone(p.starts)
			for _, gpus := range p.compute {
				w.Compute = append(w.Compute, slices.Clone(gpus))
			}
		case *trafficState:
			w.Flows = p.traffic.Flows
		case *preferences:
			for _, rows := range p.running {
				w.Owners = append(w.Owners, slices.Sorted(slices.Values(rows)))
			}
		case *timeMeans:
			w.Means = append(w.Means, p.balance.Cost(), p.pack.Cost())
			if p.idle != nil {
				w.Means = append(w.Means, p.idle.Cost(), p.ordinary.Cost())
			}
		}
	}
	return w
}

// recount returns the world that follows from the pods' rows and devices, and the nodes without them.
func recount(e *Env, empty map[string]*cluster.Node) world {
	w := worldOf(e)
	w.Compute, w.Owners, w.Means = nil, nil, nil
	for i, n := range w.Nodes {
		w.Nodes[i] = clone([]*cluster.Node{empty[n.Name]})[0]
		w.Nodes[i].Version, w.Nodes[i].Traffic, w.Nodes[i].Slices = 0, nil, slices.Clone(empty[n.Name].Slices)
	}
	counted := make([][]int, len(w.Nodes))
	for pod, row := range e.on {
		if row < 0 {
			continue
		}
		n, p := w.Nodes[row], &e.deployment(int32(pod)).pod
		n.AddOn(p.Requests, e.devices[pod])
		if p.Partition != mig.None {
			gpu := bits.TrailingZeros64(uint64(e.devices[pod]))
			if counted[row] == nil {
				counted[row] = make([]int, len(n.GPUs))
			}
			counted[row][gpu] += p.Partition.Compute()
			n.Slices[gpu] |= p.Partition.On(int(w.Starts[pod]))
			n.GPUs[gpu] = mig.Used(counted[row][gpu], n.Slices[gpu].Len())
		}
		n.Version = 0
	}
	w.Cost = e.cfg.Objective.Cost(w.Nodes)
	var fresh Env
	e.CopyTo(&fresh) // most parts count again
	for _, p := range fresh.parts {
		if t, is := p.(*trafficState); is {
			t.track(&fresh)
		}
	}
	counts := worldOf(&fresh)
	w.Compute, w.Owners, w.Means, w.Flows = counts.Compute, counts.Owners, counts.Means, counts.Flows
	if e.cfg.Traffic != nil {
		w.Cost = e.cost // the copied nodes have no traffic
	}
	return w
}

// drawMoves draws pods that run and places for them, which need not have room.
func drawMoves(e *Env, rng *rand.Rand) (out []cluster.Move) {
	var all []cluster.Move
	for at := range e.Running {
		all = append(all, at)
	}
	for _, i := range rng.Perm(len(all))[:min(len(all), 1+rng.IntN(3))] {
		pod := &e.deployment(int32(all[i].Pod)).pod
		m := cluster.Move{Pod: all[i].Pod, Row: int32(rng.IntN(len(e.snapshot.Nodes)))}
		if len(out) > 0 && rng.IntN(2) == 0 {
			m.Row = e.on[out[0].Pod] // where the first one leaves
		}
		n := e.snapshot.Nodes[m.Row]
		m.Devices = n.ChooseDevices(pod.Requests)
		if len(n.GPUs) > 0 && pod.Requests.GPUMilli > 0 {
			m.Devices = cluster.Device(rng.IntN(len(n.GPUs)))
			if pod.Partition != mig.None {
				m.Start = pod.Partition.Starts()[rng.IntN(len(pod.Partition.Starts()))]
			}
		}
		out = append(out, m)
	}
	return out
}

// Whatever moves together, the nodes and all parts are as if counted anew, pods leave when they would have left, and the way back leads to
// where everything was. Moves without room change nothing. A copy goes on like the original.
func TestMove(t *testing.T) {
	made, refused, talks := 0, 0, talking(t)
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		rng := rand.New(rand.NewPCG(seed, 3))
		c := drawConfig(t)
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			c = partitioned(rng)
		case 1:
			c = talks
		}
		e, err := New(c)
		fatal.If(t, err)
		fatal.If(t, e.Reset(seed))
		empty := map[string]*cluster.Node{}
		for i, n := range clone(e.snapshot.Nodes) {
			if c.Given != nil {
				n.Name += string(rune('a' + i))
				e.snapshot.Nodes[i].Name = n.Name
			}
			n.Slices = slices.Clone(e.snapshot.Nodes[i].Slices)
			empty[n.Name] = n
		}
		equal := func(what string, got, want world) {
			t.Helper()
			if d := cmp.Diff(want, got, cmpopts.EquateApprox(1e-6, 1e-6), cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("%s: %s", what, d)
			}
		}
		stopped, tries := false, 0
		_ = e.Every(rapid.Float64Range(0.5, 20).Draw(t, "interval"), func() {
			if tries++; stopped || tries > 12 {
				return
			}
			before, all := worldOf(e), drawMoves(e, rng)
			equal("before", before, recount(e, empty))
			var back []cluster.Move
			for _, m := range all {
				back = append(back, e.where(m.Pod))
			}
			if err := e.Move(all...); err != nil {
				refused++
				equal("refused", worldOf(e), before)
				return
			}
			made++
			after := worldOf(e)
			equal("after", after, recount(e, empty))
			if !cmp.Equal(after.Leaves, before.Leaves) {
				t.Fatal("pods leave at other times")
			}
			if err := e.Move(back...); err != nil {
				t.Fatalf("no way back: %v", err)
			}
			equal("back", worldOf(e), before)
			if err := e.Move(all...); err != nil {
				t.Fatalf("there again: %v", err)
			}
			equal("there again", worldOf(e), after)
		})
		until := rapid.IntRange(1, 300).Draw(t, "steps")
		for i := 0; i < until && !e.Done(); i++ {
			e.Step(rng.IntN(len(e.Candidates())))
		}
		stopped = true
		var copied Env
		e.CopyTo(&copied)
		for _, x := range []*Env{e, &copied} {
			for i := 0; !x.Done(); i++ {
				x.Step(i % len(x.Candidates()))
			}
		}
		if d := cmp.Diff(e.Outcome(), copied.Outcome(), cmpopts.EquateApprox(1e-6, 1e-6)); d != "" {
			t.Fatalf("the copy ends otherwise: %s", d)
		}
	})
	if made == 0 || refused == 0 {
		t.Errorf("%d times pods moved, %d times they had no room", made, refused)
	}
}

// Pods that are called twice, or do not run, do not move. A pod that has moved has run for so long since it was placed, or moved last.
func TestMovedWork(t *testing.T) {
	c := config()
	c.Nodes, c.Sizes, c.Zones, c.ControlPlane, c.Initial, c.Turnover, c.Load = Exactly(2), c.Sizes[1:2], IntRange{}, false, 0, 4,
		FloatRange{0.3, 0.3}
	e := newEnv(t, c, 5)
	var at []float64
	first := -1
	err := e.Every(7, func() {
		if first < 0 {
			for m := range e.Running {
				first = m.Pod
				break
			}
		}
		if e.on[first] < 0 || len(at) == 3 {
			if len(at) < 3 {
				t.Error("the pod leaves too early for this test")
			}
			return
		}
		m := e.where(first)
		if e.Move(m, m) == nil || e.Move(cluster.Move{Pod: len(e.on) - 1}) == nil {
			t.Error("a pod moved twice, or before it came")
		}
		m.Row = 1 - m.Row
		fatal.If(t, e.Move(m))
		at = append(at, e.now)
	})
	fatal.If(t, err)
	for !e.Done() {
		e.Step(0)
	}
	cpus := float64(e.deployment(int32(first)).pod.Requests.MilliCPU) / 1000
	if o := e.Outcome().Moves; o.Moved != 3 || math.Abs(o.Work-21*cpus) > 1e-9 {
		t.Errorf("%+v at %v, want 3 moves and %v of work", o, at, 21*cpus)
	}
	c.Turnover, c.Lifetimes, c.Arrivals = 0, Lifetimes{}, Arrivals{}
	if newEnv(t, c, 5).Every(1, nil) == nil {
		t.Error("pods move where no time passes")
	}
}
