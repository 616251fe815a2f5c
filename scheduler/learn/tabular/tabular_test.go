package tabular

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
)

// small returns a simulator of six nodes of two sizes, with the objective balance.
func small(t testing.TB) *sim.Env {
	t.Helper()
	pod := func(name string, milliCPU, gi int64) workload.Shape {
		return workload.Shape{Name: name, Weight: 1, Requests: cluster.Resources{MilliCPU: milliCPU, Memory: gi << 30, Pods: 1}}
	}
	env, err := sim.New(sim.Config{
		Nodes: sim.Exactly(6), Initial: 0.2, Load: sim.FloatRange{Min: 0.6, Max: 0.8}, Replicas: sim.IntRange{Min: 1, Max: 5},
		Sizes: []sim.NodeSize{
			{Weight: 1, Allocatable: cluster.Resources{MilliCPU: 16_000, Memory: 64 << 30, Pods: 110}},
			{Weight: 1, Allocatable: cluster.Resources{MilliCPU: 32_000, Memory: 128 << 30, Pods: 110}},
		},
		Shapes:    []workload.Shape{pod("cpu", 1000, 1), pod("even", 1000, 4), pod("memory", 500, 8)},
		Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func brief() Config {
	c := DefaultConfig()
	c.Steps = 5000
	return c
}

func train(t testing.TB, c Config) *Agent {
	t.Helper()
	a, err := Train(context.Background(), small(t), c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// After a moment's training the agent leaves clusters far more even than random placement does, on
// episodes that it has not seen.
func TestBeatsRandom(t *testing.T) {
	a, env := train(t, brief()), small(t)
	var ours, random float64
	for seed := uint64(1 << 62); seed < 1<<62+20; seed++ {
		for p, sum := range map[policy.Policy]*float64{a: &ours, heuristic.NewRandom(rand.New(rand.NewPCG(seed, 1))): &random} {
			o, err := eval.Play(env, seed, p, rand.New(rand.NewPCG(seed, 2)))
			if err != nil {
				t.Fatal(err)
			}
			*sum += o.Cost / 20
		}
	}
	if !(ours < random/2) {
		t.Errorf("cost %v, random's %v", ours, random)
	}
	t.Logf("cost %.4f, random's %.4f", ours, random)
}

// The same configuration gives the same table; another seed gives another.
func TestTrainingIsDeterministic(t *testing.T) {
	a, b := train(t, brief()), train(t, brief())
	if !slices.Equal(a.values, b.values) {
		t.Error("two runs differ")
	}
	c := brief()
	c.Seed = 2
	if slices.Equal(a.values, train(t, c).values) {
		t.Error("another seed gives the same table")
	}
}

func TestTrainingEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Train(ctx, small(t), brief()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := Train(context.Background(), small(t), Config{}); err == nil {
		t.Error("the zero configuration: no error")
	}
	env, err := sim.New(func() sim.Config {
		c := small(t).Config()
		c.Shapes = []workload.Shape{{Name: "whale", Weight: 1, Requests: cluster.Resources{MilliCPU: 64_000, Memory: 1 << 30, Pods: 1}}}
		return c
	}())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Train(context.Background(), env, brief()); err == nil {
		t.Error("pods that fit nowhere: no error")
	}
}

// A cell's value is the mean of its targets until 1/n falls below the smallest step size.
func TestLearnAverages(t *testing.T) {
	c := DefaultConfig()
	c.LearningRate = 0.25
	tr := &trainer{Agent: &Agent{c, make([]float64, c.cells())}, visits: make([]int64, c.cells())}
	for i, want := range []float64{8, 6, 16. / 3, 5} { // targets 8, 4, 4, 4
		target := 4.0
		if i == 0 {
			target = 8
		}
		if tr.learn(7, target); math.Abs(tr.values[7]-want) > 1e-12 {
			t.Errorf("after %d targets: %v, want %v", i+1, tr.values[7], want)
		}
	}
	if tr.learn(7, 9); tr.values[7] != 6 {
		t.Errorf("the fifth: %v, want a quarter of the way from 5 to 9", tr.values[7])
	}
}

func drawConfig(t *rapid.T) Config {
	c := DefaultConfig()
	c.Bins, c.SizeBins = rapid.IntRange(1, 30).Draw(t, "bins"), rapid.IntRange(1, 32).Draw(t, "size bins")
	c.Range = rapid.Float64Range(1e-3, 10).Draw(t, "range")
	return c
}

// Bins are in range. They grow with the distance, and size bins grow as the pod shrinks.
func TestBins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		d := rapid.SliceOfN(rapid.Float64Range(-20, 20), 2, 2).Draw(t, "distances")
		slices.Sort(d)
		low, high := c.bin(d[0]), c.bin(d[1])
		if low < 0 || low > high || high >= c.Bins {
			t.Fatalf("bins %d and %d of %v", low, high, d)
		}
		p := rapid.SliceOfN(rapid.Float64Range(0, 20), 2, 2).Draw(t, "parts")
		slices.Sort(p)
		small, large := c.sizeBin(p[0]), c.sizeBin(p[1])
		if large < 0 || large > small || small >= c.SizeBins {
			t.Fatalf("size bins %d and %d of %v", small, large, p)
		}
	})
	for part, want := range map[float64]int{2: 0, 0.5: 0, 0.49: 1, 0.25: 1, 0.2: 2, 0.001: 5, 0: 5} {
		if got := DefaultConfig().sizeBin(part); got != want {
			t.Errorf("a part of %v is in bin %d, want %d", part, got, want)
		}
	}
}

func drawSnapshot(t *rapid.T) (*cluster.Snapshot, *cluster.Pod) {
	s := &cluster.Snapshot{}
	amounts := func(label string, least int64) cluster.Resources {
		return cluster.Resources{MilliCPU: rapid.Int64Range(least, 64_000).Draw(t, label+" cpu"), Memory: rapid.Int64Range(least, 1<<38).Draw(t, label+" memory"), Pods: 110}
	}
	for range rapid.IntRange(1, 8).Draw(t, "nodes") {
		n := &cluster.Node{Name: "n", Allocatable: amounts("node", 0), Unschedulable: rapid.IntRange(0, 5).Draw(t, "cordoned") == 0}
		for range rapid.IntRange(0, 3).Draw(t, "pods") {
			n.Add(amounts("running", 0))
		}
		s.Nodes = append(s.Nodes, n)
	}
	return s, &cluster.Pod{Requests: amounts("pod", 0)}
}

// In any state a candidate has a cell of the table. Neither the order of the nodes nor the unit of
// resources changes it.
func TestCells(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		s, pod := drawSnapshot(t)
		turned, larger, pod4 := &cluster.Snapshot{Nodes: slices.Clone(s.Nodes)}, &cluster.Snapshot{}, &cluster.Pod{Requests: pod.Requests.Times(4)}
		slices.Reverse(turned.Nodes)
		for _, n := range s.Nodes { // a power of two: fractions and means stay the same to the last bit
			larger.Nodes = append(larger.Nodes, &cluster.Node{Allocatable: n.Allocatable.Times(4), Requested: n.Requested.Times(4), Unschedulable: n.Unschedulable})
		}
		v, v4 := c.look(s, pod), c.look(larger, pod4)
		for i, n := range s.Nodes {
			cell := v.cell(n)
			if cell < 0 || cell >= c.cells() {
				t.Fatalf("cell %d of %d", cell, c.cells())
			}
			if got := v4.cell(larger.Nodes[i]); got != cell {
				t.Fatalf("cell %d, four times as large %d", cell, got)
			}
		}
		if w := c.look(turned, pod); w.size != v.size || math.Abs(w.cpu-v.cpu) > 1e-9*max(1, v.cpu) || math.Abs(w.mem-v.mem) > 1e-9*max(1, v.mem) {
			t.Fatalf("%+v, turned round %+v", v, w)
		}
	})
}

func TestSaveAndLoad(t *testing.T) {
	a, path := train(t, brief()), filepath.Join(t.TempDir(), "agent.json")
	for range 2 { // over itself, too
		if err := a.Save(path); err != nil {
			t.Fatal(err)
		}
	}
	b, err := Load(path)
	if err != nil || b.config != a.config || !slices.Equal(b.values, a.values) {
		t.Errorf("%v: another agent came back", err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); len(left) != 1 || err != nil {
		t.Errorf("left over: %v, %v", left, err)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := a.Save(filepath.Join(t.TempDir(), "none", "agent.json")); err == nil {
		t.Error("no folder: no error")
	}
}

const tiny = `{"format":"gnnsched tabular 1","config":{"bins":1,"range":0.5,"sizeBins":2,"seed":1,"steps":1,"gamma":0,"learningRate":0.1,"initEpsilon":0,"finalEpsilon":0,"epsilonShare":0},"values":[1,2]}`

func TestParseRefuses(t *testing.T) {
	if _, err := parse([]byte(tiny)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"no JSON":          {"{", "", "invalid"},
		"another format":   {"tabular 1", "tabular 0", "format"},
		"a value missing":  {"[1,2]", "[1]", "1 values"},
		"a value too many": {"[1,2]", "[1,2,3]", "3 values"},
		"too large":        {"[1,2]", "[1,1e39]", "value 1"},
		"no bins":          {`"bins":1`, `"bins":0`, "bins is 0"},
		"too many bins":    {`"bins":1`, `"bins":1000000000`, "bins is"},
	} {
		if _, err := parse([]byte(strings.Replace(tiny, c.old, c.new, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestValidate(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for name, edit := range map[string]func(*Config){
		"bins": func(c *Config) { c.Bins = 0 }, "range": func(c *Config) { c.Range = math.NaN() }, "sizeBins": func(c *Config) { c.SizeBins = 33 },
		"seed": func(c *Config) { c.Seed = 1 << 40 }, "steps": func(c *Config) { c.Steps = 0 }, "gamma": func(c *Config) { c.Gamma = 1 },
		"learningRate": func(c *Config) { c.LearningRate = 0 }, "initEpsilon": func(c *Config) { c.InitEpsilon = -1 },
		"finalEpsilon": func(c *Config) { c.FinalEpsilon = 2 }, "epsilonShare": func(c *Config) { c.EpsilonShare = math.Inf(1) },
	} {
		c := DefaultConfig()
		if edit(&c); c.Validate() == nil || !strings.HasPrefix(c.Validate().Error(), name+" is") {
			t.Errorf("%s: %v", name, c.Validate())
		}
	}
}

func TestEpsilonFades(t *testing.T) {
	c := DefaultConfig()
	c.Steps, c.InitEpsilon, c.FinalEpsilon, c.EpsilonShare = 100, 1, 0.2, 0.5
	for step, want := range map[int]float64{0: 1, 25: 0.6, 50: 0.2, 99: 0.2} {
		if got := c.epsilon(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("step %d: %v, want %v", step, got, want)
		}
	}
	if c.EpsilonShare = 0; math.Abs(c.epsilon(0)-0.2) > 1e-12 {
		t.Errorf("without a share: %v", c.epsilon(0))
	}
}

// An agent that parse accepts scores without a panic.
func FuzzParse(f *testing.F) {
	f.Add([]byte(tiny))
	f.Add([]byte(strings.Replace(tiny, `"range":0.5`, `"range":10`, 1)))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parse(b)
		if err != nil {
			return
		}
		n := &cluster.Node{Allocatable: cluster.Resources{MilliCPU: 1000, Memory: 1 << 30, Pods: 9}}
		scores := make([]float32, 1)
		for _, ask := range []int64{0, 1, 500, math.MaxInt32} {
			pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: ask, Memory: ask, Pods: 1}}
			if err := a.Score(&cluster.Snapshot{Nodes: []*cluster.Node{n}}, pod, []int32{0}, scores); err != nil || math.IsInf(float64(scores[0]), 0) {
				t.Fatal(scores, err)
			}
		}
	})
}
