package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
	"gnnsched/workload"
	"gnnsched/workload/trace/openb"
)

func openbConfig(t testing.TB, factor float64) Config {
	t.Helper()
	pack := fatal.Value(objective.Parse("pack"))(t)
	pod := func(name string, cpu, gpus, milli int64, created, deleted float64, models ...string) openb.Pod {
		return openb.Pod{Name: name, MilliCPU: cpu, MemoryMiB: 1024, GPUs: gpus, GPUMilli: milli, Models: models, Created: created,
			Deleted: deleted}
	}
	return Config{Objective: pack, OpenB: &OpenB{
		Nodes: []openb.Node{
			{Name: "a", MilliCPU: 8000, MemoryMiB: 65536, GPUs: 2, Model: "T4"},
			{Name: "b", MilliCPU: 16000, MemoryMiB: 65536, GPUs: 4, Model: "P100"},
			{Name: "c", MilliCPU: 4000, MemoryMiB: 65536, GPUs: 1, Model: "T4"},
		},
		Pods: []openb.Pod{
			pod("p0", 2000, 1, 1000, 0, 50), pod("p1", 1000, 1, 300, 5, 90), pod("p2", 1000, 1, 600, 10, 30, "T4"), pod("p3", 4000, 0, 0, 12, 80),
			pod("p4", 2000, 2, 1000, 20, 70, "P100", "A10"), pod("p5", 500, 1, 100, 25, 26), pod("p6", 3000, 4, 1000, 40, 120),
		},
		Factor: factor,
	}}
}

func TestValidateOpenB(t *testing.T) {
	for _, c := range []struct {
		want  string
		spoil func(*Config)
	}{
		{"openb.nodes: is missing", func(c *Config) { c.OpenB.Nodes = nil }},
		{"openb.pods: is missing", func(c *Config) { c.OpenB.Pods = nil }},
		{"openb: resample and block are for the times", func(c *Config) { c.OpenB.Resample = new(true) }},
		{"openb.factor: -1", func(c *Config) { c.OpenB.Factor = -1 }},
		{"openb.loads: [1 0.9] need a factor", func(c *Config) { c.OpenB.Loads = []float64{1, 0.9} }},
		{"openb.loads: [0] need a factor", func(c *Config) { c.OpenB.Loads = []float64{0} }},
		{"openb.loads: [1] need a factor", func(c *Config) { c.OpenB.Factor, c.OpenB.Loads = 0, []float64{1} }},
		{"openb.steady.load: 0 must be over 0", func(c *Config) { c.OpenB.Steady = &Steady{Duration: 1} }},
		{"openb.steady: warmUp -1", func(c *Config) { c.OpenB.Steady = &Steady{Load: 1, WarmUp: -1, Duration: 1} }},
		{"openb.steady: draws its own arrivals", func(c *Config) { c.OpenB.Factor, c.OpenB.Steady = 1, &Steady{Load: 1, Duration: 1} }},
		{"openb.steady: draws its own arrivals", func(c *Config) { c.Lose, c.OpenB.Steady = 0.5, &Steady{Load: 1, Duration: 1} }},
		{"nodes: the openb trace decides", func(c *Config) { c.Nodes = Exactly(1) }},
		{"trace: the openb trace decides", func(c *Config) { c.Trace = &Trace{File: "t"} }},
		{"turnover: the openb trace decides", func(c *Config) { c.Turnover = 1 }},
		{"openb.nodes: read an openb node list", func(c *Config) { c.OpenB.Nodes, c.OpenB.NodesFile = nil, "none.csv" }},
		{"openb.pods: read an openb pod list", func(c *Config) { c.OpenB.Pods, c.OpenB.PodsFile = nil, "none.csv" }},
	} {
		cfg := openbConfig(t, 1.3)
		c.spoil(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q in it", err, c.want)
		}
	}
	cpuOnly := openbConfig(t, 1.3)
	cpuOnly.OpenB.Pods = cpuOnly.OpenB.Pods[3:4]
	e := fatal.Value(New(cpuOnly))(t)
	if err := e.Reset(1); err == nil || !e.Done() {
		t.Errorf("a trace without GPUs: %v", err)
	}
}

// The trace's pods arrive first, in an order that the seed draws. Then others arrive until Factor times
// the GPUs are requested. No pod leaves and no pod is tried again. The numbers of placed and
// unscheduled pods add up, and so do the GPUs.
func TestInflation(t *testing.T) {
	e := fatal.Value(New(openbConfig(t, 2)))(t)
	orders := map[string]bool{}
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64Range(0, 1000).Draw(t, "seed")
		fatal.If(t, e.Reset(seed))
		names := each.Map(e.Snapshot().Nodes, func(n *cluster.Node) string { return n.Name })
		orders[strings.Join(names, "")] = true
		plan := e.Plan()
		var asked int64
		first := map[string]bool{}
		for i, a := range plan {
			if i < 7 {
				first[a.Pod.Name] = true
			}
			asked += a.Pod.Requests.TotalGPUMilli()
		}
		last := plan[len(plan)-1].Pod.Requests.TotalGPUMilli()
		if len(first) != 7 || !first["p6"] || asked < 14_000 || asked-last >= 14_000 {
			t.Fatalf("%d pods ask for %d, %d of the trace among the first", len(plan), asked, len(first))
		}
		var given int64
		arrived := -1
		for !e.Done() {
			if e.Next() <= arrived {
				t.Fatalf("arrival %d after %d", e.Next(), arrived)
			}
			arrived = e.Next()
			rows := e.Candidates()
			if d := cmp.Diff(e.Snapshot().Feasible(e.Pending(), nil), rows); d != "" {
				t.Fatal(d)
			}
			given += e.Pending().Requests.TotalGPUMilli()
			e.Step(rapid.IntRange(0, len(rows)-1).Draw(t, "choice"))
		}
		o := e.Outcome()
		if g := o.GPU; g.Allocation != float64(given)/7000 || g.AllocationAtFull > g.Allocation || g.AllocationAtFull <= 0 || g.Stranded < 0 ||
			g.Stranded > 1-g.Allocation+1e-9 {
			t.Fatalf("%+v, given %d", g, given)
		}
		if g := o.GPU; o.Arrived != len(plan) || o.Placed+o.Unscheduled != o.Arrived ||
			g.UnscheduledCPU+g.UnscheduledShare+g.UnscheduledWhole != o.Unscheduled {
			t.Fatalf("%+v %+v", o, g)
		}
	})
	if len(orders) < 4 {
		t.Errorf("nodes come in the orders %v alone", orders)
	}
}

// The same seed gives the same episode, and InOrder keeps the order of the file.
func TestInflationIsSeeded(t *testing.T) {
	cfg := openbConfig(t, 1.3)
	cfg.OpenB.InOrder = true
	var plans [2][]Arrival
	for i := range plans {
		e := fatal.Value(New(cfg))(t)
		fatal.If(t, e.Reset(7))
		plans[i] = e.Plan()
		if n := e.Snapshot().Nodes; n[0].Name != "a" || n[1].Name != "b" || n[2].GPUModel != "T4" {
			t.Errorf("nodes %v", n)
		}
		if len(e.Typical().Pods()) != 7 {
			t.Errorf("typical pods %v", e.Typical().Pods())
		}
	}
	if d := cmp.Diff(plans[0], plans[1], cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
}

// The outcome is computed by hand. For example, the first node has 600 idle thousandths and one idle
// core, which serves 250 of them.
func TestGPUOutcome(t *testing.T) {
	nodes := []*cluster.Node{
		{Allocatable: cluster.Resources{MilliCPU: 4000, GPU: 1}, Requested: cluster.Resources{MilliCPU: 3000, GPUMilli: 400}},
		{Allocatable: cluster.Resources{MilliCPU: 8000, GPU: 2}, Requested: cluster.Resources{MilliCPU: 2000, GPU: 1}},
		{Allocatable: cluster.Resources{MilliCPU: 8000, GPU: 1}, Unschedulable: true},
	}
	// 4 cores a device
	e := &Env{snapshot: cluster.Snapshot{Nodes: nodes}, pending: -1, parts: []part{&gpuDemand{perCPU: 0.25, capacity: 3000}}}
	want := &GPUOutcome{Allocation: 1400. / 3000, Stranded: 350. / 3000, MeanIdle: 1600. / 3000} // 600 - 250, and 1000 - 1500
	if d := cmp.Diff(want, e.Outcome().GPU, cmpopts.EquateApprox(0, 1e-12)); d != "" {
		t.Error(d)
	}
	if (&Env{pending: -1, parts: []part{&gpuDemand{}}}).Outcome().GPU != nil {
		t.Error("a cluster without GPUs has an outcome for them")
	}
}

// Pods with shares, whole devices and models come and go at the trace's times, whatever the choices.
// When all have left, no device is in use.
func TestTraceOfShares(t *testing.T) {
	recorded, _ := openbConfig(t, 0).Resampled(false)
	e := fatal.Value(New(recorded))(t)
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		fatal.If(t, e.Reset(seed))
		if plan := e.Plan(); len(plan) != 7 || plan[1].At != 5 || plan[1].Lifetime != 85 {
			t.Fatalf("%+v", plan)
		}
		for !e.Done() {
			choice := rng.IntN(len(e.Candidates()))
			n := e.Snapshot().Nodes[e.Candidates()[choice]]
			r := e.Pending().Requests
			on := n.ChooseDevices(r)
			if i := rng.IntN(max(len(n.GPUs), 1)); r.GPUMilli > 0 && n.GPUs[i]+r.GPUMilli <= cluster.DeviceMilli {
				on = cluster.Device(i)
			}
			e.StepOn(choice, on)
		}
		for len(e.running) > 0 {
			e.pass(e.running[0].at)
			e.depart()
		}
		for _, n := range e.Snapshot().Nodes {
			if slices.Max(n.GPUs) != 0 || n.Requested != (cluster.Resources{}) {
				t.Fatalf("seed %d: %s is left with %v %+v", seed, n.Name, n.GPUs, n.Requested)
			}
		}
	}
}

// Pods of generated workloads may request shares and models too.
func TestGeneratedShares(t *testing.T) {
	cfg := config()
	cfg.Sizes = []NodeSize{{Weight: 1, Allocatable: cluster.Resources{MilliCPU: 32_000, Memory: 128 << 30, GPU: 4, Pods: 110}, GPUModel: "T4"}}
	cfg.Pools = []NodePool{{Count: Exactly(2), Allocatable: cluster.Resources{MilliCPU: 32_000, Memory: 128 << 30, GPU: 8, Pods: 110},
		GPUModel: "V100"}}
	cfg.SizeKinds, cfg.ShapeKinds = IntRange{}, IntRange{}
	cfg.Shapes = []workload.Shape{
		{Name: "share", Weight: 2, Requests: cluster.Resources{MilliCPU: 1000, Memory: 1 << 30, GPUMilli: 400, Pods: 1}},
		{Name: "v100", Weight: 1, Requests: cluster.Resources{MilliCPU: 2000, Memory: 4 << 30, GPU: 2, Pods: 1}, GPUModels: []string{"V100"}},
	}
	e := fatal.Value(New(cfg))(t)
	shares, models := 0, 0
	for seed := range uint64(5) {
		fatal.If(t, e.Reset(seed))
		for !e.Done() {
			if e.Pending().Requests.GPUMilli > 0 {
				shares++
			}
			for _, r := range e.Candidates() {
				if n := e.Snapshot().Nodes[r]; len(e.Pending().GPUModels) > 0 {
					if models++; n.GPUModel != "V100" {
						t.Fatalf("%v may run on %s", e.Pending().GPUModels, n.GPUModel)
					}
				}
			}
			e.Step(0)
		}
		for _, n := range e.Snapshot().Nodes {
			if used := len(n.GPUs); used == 0 || n.IdleGPUMilli() != n.Free().TotalGPUMilli() {
				t.Fatalf("%v of %+v", n.GPUs, n.Free())
			}
		}
	}
	if shares == 0 || models == 0 {
		t.Errorf("%d shares, %d candidates of a model", shares, models)
	}
	cfg.Pools[0].Allocatable.GPU = 65
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "0 to 64 whole GPUs") {
		t.Errorf("65 GPUs: %v", err)
	}
}

// The state at a load is the one at the end of an episode that ends there.
func TestGPULoads(t *testing.T) {
	loads := []float64{0.3, 0.6, 0.9, 1, 1.3, 2}
	played := func(t *rapid.T, seed uint64, factor float64) *GPUOutcome {
		cfg := openbConfig(new(testing.T), factor)
		cfg.OpenB.Loads = loads
		e := fatal.Value(New(cfg))(t)
		fatal.If(t, e.Reset(seed))
		for !e.Done() {
			e.Step(0)
		}
		return e.Outcome().GPU
	}
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		all := played(t, seed, 2).Loads
		if len(all) != len(loads) {
			t.Fatalf("%d loads of %d", len(all), len(loads))
		}
		for i, load := range loads {
			o := played(t, seed, load)
			if len(o.Loads) <= i {
				t.Fatalf("%d loads by %v", len(o.Loads), load)
			}
			whole := 0
			for class := classOne; class <= classEight; class++ {
				whole += all[i].Left[class]
			}
			if d := cmp.Diff(o.Loads[i], all[i]); d != "" || all[i].Allocation != o.Allocation || all[i].Left[classShare] != o.UnscheduledShare ||
				whole != o.UnscheduledWhole {
				t.Fatalf("at %v: %+v, want %+v", load, all[i], o)
			}
		}
	})
}

func TestClassOf(t *testing.T) {
	for class, gpus := range map[int][]int64{-1: {0}, classOne: {1}, classTwo: {2, 3}, classFour: {4, 7}, classEight: {8, 16}} {
		for _, n := range gpus {
			if got := classOf(cluster.Resources{GPU: n}); got != class {
				t.Errorf("%d GPUs: class %d, want %d", n, got, class)
			}
		}
	}
	if got := classOf(cluster.Resources{GPUMilli: 300}); got != classShare {
		t.Errorf("a share: class %d", got)
	}
}

func TestRelative(t *testing.T) {
	than := Outcome{Cost: 0.1, MeanCost: 0.1, Arrived: 100, Waited: 4}
	for _, x := range []struct {
		name string
		o    Outcome
		want float64
	}{
		{"the same", than, 1},
		{"half the cost", Outcome{Cost: 0.05, MeanCost: 0.05, Arrived: 100, Waited: 4}, 0.5},
		{"one pod more waits", Outcome{Cost: 0.1, MeanCost: 0.1, Arrived: 100, Waited: 5}, 1.01},
	} {
		if got := x.o.Relative(than, 1); math.Abs(got-x.want) > 1e-3 {
			t.Errorf("%s: %v, want %v", x.name, got, x.want)
		}
	}
}
