package tabular

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
)

// usual returns a valid configuration with bins of the usual number and range.
func usual() Config {
	return Config{
		Bins: 21, Range: 0.5, SizeBins: 6, Seed: 1, Steps: 200_000, Gamma: 0.5, LearningRate: 0.002,
		InitEpsilon: 1, FinalEpsilon: 0.05, EpsilonShare: 0.5,
	}
}

// agent returns an agent with a configuration and values that all differ.
func agent(t require, c Config) *Agent {
	a, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	for i := range a.values {
		a.values[i] = float64(i) / 3
	}
	return a
}

// require has the method of testing.T and rapid.T that agent calls.
type require interface{ Fatal(args ...any) }

func drawConfig(t *rapid.T) Config {
	c := usual()
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
		if got := usual().sizeBin(part); got != want {
			t.Errorf("a part of %v is in bin %d, want %d", part, got, want)
		}
	}
}

func drawSnapshot(t *rapid.T) (*cluster.Snapshot, *cluster.Pod) {
	s := &cluster.Snapshot{}
	amounts := func(label string, least int64) cluster.Resources {
		return cluster.Resources{MilliCPU: rapid.Int64Range(least, 64_000).Draw(t, label+" cpu"),
			Memory: rapid.Int64Range(least, 1<<38).Draw(t, label+" memory"), Pods: 110}
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
		turned, larger, pod4 := &cluster.Snapshot{Nodes: slices.Clone(s.Nodes)}, &cluster.Snapshot{},
			&cluster.Pod{Requests: pod.Requests.Times(4)}
		slices.Reverse(turned.Nodes)
		for _, n := range s.Nodes { // a power of two: fractions and means stay the same to the last bit
			larger.Nodes = append(larger.Nodes, &cluster.Node{Allocatable: n.Allocatable.Times(4), Requested: n.Requested.Times(4),
				Unschedulable: n.Unschedulable})
		}
		a := agent(t, c)
		v, v4 := a.View(s, pod), a.View(larger, pod4)
		for i, n := range s.Nodes {
			cell := v.Cell(n)
			if cell < 0 || cell >= c.cells() {
				t.Fatalf("cell %d of %d", cell, c.cells())
			}
			if got := v4.Cell(larger.Nodes[i]); got != cell {
				t.Fatalf("cell %d, four times as large %d", cell, got)
			}
		}
		if w := a.View(turned, pod); w.size != v.size || math.Abs(w.cpu-v.cpu) > 1e-9*max(1, v.cpu) ||
			math.Abs(w.mem-v.mem) > 1e-9*max(1, v.mem) {
			t.Fatalf("%+v, turned round %+v", v, w)
		}
	})
}

func TestSaveAndLoad(t *testing.T) {
	a, path := agent(t, usual()), filepath.Join(t.TempDir(), "agent.json")
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
	if err := usual().Validate(); err != nil {
		t.Error(err)
	}
	for name, edit := range map[string]func(*Config){
		"bins": func(c *Config) { c.Bins = 0 }, "range": func(c *Config) { c.Range = math.NaN() },
		"sizeBins": func(c *Config) { c.SizeBins = 33 },
		"seed":     func(c *Config) { c.Seed = 1 << 40 }, "steps": func(c *Config) { c.Steps = 0 }, "gamma": func(c *Config) { c.Gamma = 1 },
		"learningRate": func(c *Config) { c.LearningRate = 0 }, "initEpsilon": func(c *Config) { c.InitEpsilon = -1 },
		"finalEpsilon": func(c *Config) { c.FinalEpsilon = 2 }, "epsilonShare": func(c *Config) { c.EpsilonShare = math.Inf(1) },
	} {
		c := usual()
		if edit(&c); c.Validate() == nil || !strings.HasPrefix(c.Validate().Error(), name+" is") {
			t.Errorf("%s: %v", name, c.Validate())
		}
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
			if err := a.Score(&cluster.Snapshot{Nodes: []*cluster.Node{n}}, pod, []int32{0}, scores); err != nil ||
				math.IsInf(float64(scores[0]), 0) {
				t.Fatal(scores, err)
			}
		}
	})
}
