package sim

import (
	"fmt"
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
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/workload"
)

func config() Config {
	return Config{
		Nodes: IntRange{3, 8}, ControlPlane: true, Zones: IntRange{0, 3}, Initial: 0.2,
		Sizes: []NodeSize{
			{Weight: 1, Allocatable: cluster.Resources{MilliCPU: 4000, Memory: 16 << 30, Pods: 20}},
			{Weight: 2, Allocatable: cluster.Resources{MilliCPU: 16000, Memory: 32 << 30, Pods: 30}},
			{Weight: 1, Allocatable: cluster.Resources{MilliCPU: 8000, Memory: 64 << 30, Pods: 110}},
		},
		Shapes: workload.DefaultShapes(), Replicas: IntRange{1, 9}, Load: FloatRange{0.4, 1.1}, Turnover: 2,
		Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}, {Term: objective.Pack{}, Weight: 0.5}}, WaitCost: 0.01,
	}
}

func newEnv(t testing.TB, c Config, seed uint64) *Env {
	e := fatal.Value(New(c))(t)
	fatal.If(t, e.Reset(seed))
	return e
}

func requests() *workload.Requests {
	return &workload.Requests{
		CPU:    workload.Distribution{Kind: workload.LogUniform, Min: 100, Max: 4000},
		Memory: workload.Distribution{Kind: workload.LogNormal, Min: 64 << 20, Max: 8 << 30, Median: 1 << 30, Sigma: 1},
	}
}

// drawConfig draws a small valid configuration.
func drawConfig(t *rapid.T) Config {
	c := config()
	c.ControlPlane = rapid.Bool().Draw(t, "control plane")
	c.Turnover = rapid.IntRange(0, 3).Draw(t, "turnover")
	c.Initial = rapid.SampledFrom([]float64{0, 0.3}).Draw(t, "initial")
	c.SizeKinds = rapid.SampledFrom([]IntRange{{}, {1, 1}, {1, 3}}).Draw(t, "size kinds")
	c.ShapeKinds = rapid.SampledFrom([]IntRange{{}, {1, 2}, {5, 5}}).Draw(t, "shape kinds")
	if rapid.Bool().Draw(t, "random requests") {
		c.Shapes = nil
		c.ShapeKinds = IntRange{}
		c.Requests = requests()
	}
	if rapid.Bool().Draw(t, "gpus") {
		c.Sizes = append(c.Sizes, NodeSize{Weight: 3, Allocatable: cluster.Resources{MilliCPU: 16000, Memory: 64 << 30, GPU: 3, Pods: 50},
			GPUModel: "T4"})
		if c.Requests == nil {
			c.SizeKinds = IntRange{} // so that some size has the GPUs that shapes request
			c.ShapeKinds = IntRange{}
			c.Shapes = append(workload.DefaultShapes(),
				workload.Shape{Name: "share", Weight: 2, Requests: cluster.Resources{MilliCPU: 500, Memory: 1 << 30, GPUMilli: 300, Pods: 1}},
				workload.Shape{Name: "whole", Weight: 1, Requests: cluster.Resources{MilliCPU: 500, Memory: 1 << 30, GPU: 2, Pods: 1},
					GPUModels: []string{"T4"}})
		}
	}
	if c.Turnover > 0 {
		c.Arrivals.Process = rapid.SampledFrom([]string{"", steady, poisson, bursts, diurnal, atOnce}).Draw(t, "process")
		c.Lifetimes.Distribution = rapid.SampledFrom([]string{"", noEnd, exponentialEnd, paretoEnd, logNormalEnd}).Draw(t, "lifetimes")
	}
	c.Lose = rapid.SampledFrom([]float64{0, 0.1, 0.6}).Draw(t, "lose")
	return c
}

// rounding is the tolerance of a tracked cost. The sums of squares that a tracker keeps hold only
// half the digits of a deviation near 0.
const rounding = 1e-6

// At every step the candidates are exactly the nodes that the pending pod fits on, no node is
// overcommitted, the cost is the objective's cost of the nodes, and the reward is what the placement
// lowered it by. At the end every pod is accounted for, and pods without a node fit nowhere.
func TestEpisode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		e := fatal.Value(New(drawConfig(t)))(t)
		fatal.If(t, e.Reset(seed))
		rng := rand.New(rand.NewPCG(seed, 7))
		for !e.Done() {
			pod, rows := e.Pending(), e.Candidates()
			if d := cmp.Diff(e.Snapshot().Feasible(pod, nil), rows); d != "" || len(rows) == 0 {
				t.Fatalf("candidates: %s", d)
			}
			if want := e.cfg.Objective.Cost(e.Snapshot().Nodes); math.Abs(want-e.Cost()) > rounding {
				t.Fatalf("cost %v, want %v", e.Cost(), want)
			}
			choice := rng.IntN(len(rows))
			after := clone(e.Snapshot().Nodes)
			after[rows[choice]].Add(pod.Requests)
			want, waited := e.Cost()-e.cfg.Objective.Cost(after), e.waited
			if got := e.Step(choice) + e.cfg.WaitCost*float64(e.waited-waited); math.Abs(got-want) > rounding {
				t.Fatalf("reward %v, want %v", got, want)
			}
			for _, n := range e.Snapshot().Nodes {
				if !n.Requested.Within(n.Allocatable) {
					t.Fatalf("%s is overcommitted: %+v of %+v", n.Name, n.Requested, n.Allocatable)
				}
			}
		}
		checkEnd(t, e)
	})
}

func checkEnd(t *rapid.T, e *Env) {
	o := e.Outcome()
	if o.Arrived != len(e.arrivals.pods) || o.Unscheduled != len(e.waiting) || o.Waited < o.Unscheduled || o.Waited > o.Arrived {
		t.Fatalf("the books are wrong: %+v, %d waiting of %d", o, len(e.waiting), len(e.arrivals.pods))
	}
	for _, p := range e.waiting {
		if rows := e.snapshot.Feasible(&e.deployment(p).pod, nil); len(rows) > 0 {
			t.Fatalf("arrival %d waits, but fits on %v", p, rows)
		}
	}
	if o.CPUStd < 0 || math.IsNaN(o.CPUStd+o.MemoryStd+o.Imbalance+o.Cost) || o.NodesInUse > o.Nodes {
		t.Fatalf("%+v", o)
	}
}

func clone(nodes []*cluster.Node) []*cluster.Node {
	out := make([]*cluster.Node, len(nodes))
	for i, n := range nodes {
		c := *n
		c.Groups, c.GPUs = slices.Clone(n.Groups), slices.Clone(n.GPUs)
		out[i] = &c
	}
	return out
}

// The same seed and choices give the same episode, even in an environment that was used before.
// Another seed gives another episode. The arrivals do not depend on the choices.
func TestSeedDecides(t *testing.T) {
	play := func(e *Env, choose func(n int) int) (o Outcome, rewards []float64) {
		for !e.Done() {
			rewards = append(rewards, e.Step(choose(len(e.Candidates()))))
		}
		return e.Outcome(), rewards
	}
	first, last := func(int) int { return 0 }, func(n int) int { return n - 1 }
	a, b := newEnv(t, config(), 5), newEnv(t, config(), 6)
	arrived, lifetimes := a.arrivals.pods, a.arrivals.lifetime
	oa, ra := play(a, first)
	if ob, _ := play(b, first); cmp.Equal(oa, ob) {
		t.Error("seeds 5 and 6 give the same episode")
	}
	fatal.If(t, b.Reset(5))
	ob, rb := play(b, first)
	if d := cmp.Diff(oa, ob) + cmp.Diff(ra, rb); d != "" {
		t.Errorf("seed 5 again:\n%s", d)
	}
	fatal.If(t, b.Reset(5))
	oc, _ := play(b, last)
	if cmp.Equal(oa, oc) {
		t.Error("the choices make no difference")
	}
	if d := cmp.Diff(arrived, b.arrivals.pods) + cmp.Diff(lifetimes, b.arrivals.lifetime); d != "" {
		t.Errorf("the arrivals depend on the choices:\n%s", d)
	}
}

// With a turnover the load stays about where the fill brought it, with every arrival process and
// lifetime distribution.
func TestTurnoverKeepsTheLoad(t *testing.T) {
	lifetimes := []Lifetimes{{}, {Distribution: paretoEnd}, {Distribution: paretoEnd, Alpha: 3}, {Distribution: logNormalEnd}}
	for _, l := range lifetimes {
		for _, p := range []string{steady, poisson, bursts, diurnal, atOnce} {
			c := config()
			c.Nodes = Exactly(80)
			c.Load = FloatRange{0.4, 0.4}
			c.Turnover = 5
			c.Initial = 0
			c.Arrivals.Process, c.Lifetimes = p, l
			var sum float64
			const seeds = 5
			for seed := range uint64(seeds) {
				sum += meanLoad(newEnv(t, c, seed))
			}
			if mean := sum / seeds; mean < 0.34 || mean > 0.46 {
				t.Errorf("%s, %+v: mean load %.3f after a fill to 0.40", p, l, mean)
			}
		}
	}
}

// meanLoad plays an episode and averages the load over the time after the fill.
func meanLoad(e *Env) float64 {
	load := func() float64 {
		var used, offered cluster.Resources
		for _, n := range e.snapshot.Nodes {
			if n.Available() {
				used, offered = used.Plus(n.Requested), offered.Plus(n.Allocatable)
			}
		}
		l := workload.LoadOf(used, offered)
		return max(l.CPU, l.Memory, l.Pods)
	}
	// The load is known when a pod is placed. In between it counts as the mean of both values.
	var sum, time float64
	for rng := rand.New(rand.NewPCG(1, 1)); !e.Done(); {
		from, was := e.now, e.clock
		now := load()
		e.Step(rng.IntN(len(e.Candidates())))
		if was >= e.arrivals.fill && e.now > from {
			sum, time = sum+(e.now-from)*(now+load())/2, time+e.now-from
		}
	}
	return sum / time
}

// A pod that fits nowhere waits for departures, and the pod that has waited longest is tried first.
func TestWaiting(t *testing.T) {
	c := config()
	c.Nodes = Exactly(1)
	c.Sizes = c.Sizes[:1]
	c.Zones = IntRange{}
	c.ControlPlane = false
	c.Initial = 0
	c.Load, c.Turnover = FloatRange{1.5, 1.5}, 3
	e := newEnv(t, c, 11)
	for !e.Done() {
		for _, p := range e.waiting[:e.at] {
			if len(e.snapshot.Feasible(&e.deployment(p).pod, nil)) > 0 {
				t.Fatalf("arrival %d waits longer than the pending %d and fits", p, e.pending)
			}
		}
		e.Step(0)
	}
	if o := e.Outcome(); o.Waited <= o.Unscheduled || o.Unscheduled == 0 {
		t.Errorf("nobody got a node late, or all got one: %+v", o)
	}
}

// BenchmarkStep measures a step without a policy, at the load at which policies are compared.
func BenchmarkStep(b *testing.B) {
	for _, nodes := range []int{16, 100, 1000} {
		c := config()
		c.Nodes = Exactly(nodes)
		c.ControlPlane = false
		c.Initial = 0
		c.Load = FloatRange{0.7, 0.7}
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) { benchmark(b, c) })
		c.Arrivals, c.Lifetimes = Arrivals{Process: poisson}, Lifetimes{Distribution: paretoEnd}
		b.Run(fmt.Sprintf("nodes=%d/poisson", nodes), func(b *testing.B) { benchmark(b, c) })
	}
}

// benchmark counts steps with a policy that costs nothing, resets included.
func benchmark(b *testing.B, c Config) {
	e := newEnv(b, c, 0)
	seed := uint64(0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if e.Done() {
			seed++
			fatal.If(b, e.Reset(seed))
		}
		e.Step(i % len(e.Candidates()))
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
}

// At every step the preferences are those of the pods of the same deployment that run then, whichever
// nodes were chosen and lost before.
func TestPreferences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		c.Preferences = rapid.SampledFrom([]preference.Mode{"", preference.First, preference.Declared, preference.Off}).Draw(t, "mode")
		if rapid.Bool().Draw(t, "taints") {
			c.Sizes = slices.Clone(c.Sizes)
			c.Sizes[0].Taints = []cluster.Taint{{Key: "old", Effect: cluster.PreferNoSchedule}}
		}
		e := fatal.Value(New(c))(t)
		fatal.If(t, e.Reset(rapid.Uint64Range(0, 1000).Draw(t, "seed")))
		rng := rand.New(rand.NewPCG(1, 2))
		for !e.Done() {
			var running []int32
			for pod, row := range e.on {
				if row >= 0 && e.arrivals.pods[pod] == e.arrivals.pods[e.pending] {
					running = append(running, row)
				}
			}
			want := preference.NewScorer(c.PreferenceMode(), e.Snapshot().Nodes).Sums(e.Pending(), e.Candidates(), running)
			if d := cmp.Diff(want, e.Preferences()); d != "" {
				t.Fatalf("%s beside %v: %s", e.Pending().Name, running, d)
			}
			other := preference.Weights{Spread: 5, Taints: 1}
			want = slices.Clone(want)
			if d := cmp.Diff(preference.NewScorer(c.PreferenceMode(), e.Snapshot().Nodes).SumsBy(other, e.Pending(), e.Candidates(), running),
				e.PreferencesBy(other)); d != "" {
				t.Fatalf("by other weights: %s", d)
			}
			best := preference.Best(want, nil)
			if want == nil {
				for i := range e.Candidates() {
					best = append(best, int32(i))
				}
			}
			if got := e.Snapshot().Preferred; got != len(best) {
				t.Fatalf("the snapshot says that %d candidates are preferred, want %d", got, len(best))
			}
			if d := cmp.Diff(best, e.Preferred()); d != "" {
				t.Fatalf("preferred: %s", d)
			}
			e.Step(rng.IntN(len(e.Candidates())))
		}
	})
}

// The pods of a generated deployment belong to it, those of a trace to nothing, as with runsim.
func TestOwners(t *testing.T) {
	for _, a := range newEnv(t, config(), 1).Plan() {
		if a.Pod.Owner == "" || a.Pod.Owner != a.Pod.Name {
			t.Errorf("%+v does not belong to its deployment", a.Pod)
		}
	}
	for _, a := range newEnv(t, openbConfig(t, 1.3), 1).Plan() {
		if a.Pod.Owner != "" {
			t.Errorf("%+v of a trace belongs to %s", a.Pod, a.Pod.Owner)
		}
	}
}

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
			w.Compute = append(w.Compute, each.Map(p.compute, slices.Clone)...)
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
			back := each.Map(all, func(m cluster.Move) cluster.Move { return e.where(m.Pod) })
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
