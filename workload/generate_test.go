package workload

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
)

// generator returns runsim's default settings for ten nodes of the default pool.
func generator() Generator {
	return Generator{
		Seed: 1, Shapes: DefaultShapes(), ReplicasMin: 5, ReplicasMax: 15, Fills: 2, Target: Load{0.2, 0.2, 0.2},
		Capacity: cluster.Resources{MilliCPU: 640_000, Memory: 2560 << 30, Pods: 1100},
	}
}

func drawGenerator(t *rapid.T) Generator {
	g := generator()
	g.Seed = rapid.Uint64().Draw(t, "seed")
	g.Fills = rapid.IntRange(1, 4).Draw(t, "fills")
	g.ReplicasMin = rapid.IntRange(1, 20).Draw(t, "min")
	g.ReplicasMax = g.ReplicasMin + rapid.IntRange(0, 20).Draw(t, "more")
	g.Target = Load{
		rapid.Float64Range(0.01, 1).Draw(t, "cpu"), rapid.Float64Range(0.01, 1).Draw(t, "mem"), rapid.Float64Range(0.01, 1).Draw(t, "pods"),
	}
	n := rapid.Int64Range(1, 100).Draw(t, "nodes")
	g.Capacity = cluster.Resources{MilliCPU: 8000, Memory: 32 << 30, Pods: 110}.Times(n)
	return g
}

// Each fill ends with the Deployment that reaches the target.
func TestPlanFillsToTheTarget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGenerator(t)
		p := fatal.Value(g.Plan())(t)
		fatal.If(t, p.Validate())
		fills, used := p.Fills(), g.Used
		last, fill := Deployment{}, 0
		check := func() {
			if LoadOf(used, g.Capacity).Reached(g.Target) == "" {
				t.Fatalf("fill %d ends at %v, before %v", fill, LoadOf(used, g.Capacity), g.Target)
			}
			if LoadOf(used.Minus(last.Requests()), g.Capacity).Reached(g.Target) != "" {
				t.Fatalf("fill %d goes on after the target was reached", fill)
			}
			if used != g.Used.Plus(fills[fill].Requests) {
				t.Fatalf("fill %d asks for %v, summed up as %v", fill, used, fills[fill].Requests)
			}
		}
		for _, s := range p.Steps {
			if s.Action == Reset {
				check()
				used, fill = g.Used, fill+1
				continue
			}
			if r := s.Deployment.Replicas; r < g.ReplicasMin || r > g.ReplicasMax {
				t.Fatalf("%d replicas, want %d to %d", r, g.ReplicasMin, g.ReplicasMax)
			}
			last, used = s.Deployment, used.Plus(s.Deployment.Requests())
		}
		check()
		if len(fills) != g.Fills {
			t.Fatalf("%d fills, want %d", len(fills), g.Fills)
		}
	})
}

// Equal generators give equal plans, and the plan of a larger cluster begins with a smaller one's.
func TestPlanIsDecidedByTheSeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGenerator(t)
		g.Fills = 1
		a, _ := g.Plan()
		b, _ := g.Plan()
		if d := cmp.Diff(a, b); d != "" {
			t.Fatal(d)
		}
		g.Capacity = g.Capacity.Times(rapid.Int64Range(2, 5).Draw(t, "times"))
		more, err := g.Plan()
		if err != nil || len(more.Steps) < len(a.Steps) {
			t.Fatalf("%d steps on a larger cluster, %d on a smaller: %v", len(more.Steps), len(a.Steps), err)
		}
		if d := cmp.Diff(a.Steps, more.Steps[:len(a.Steps)]); d != "" {
			t.Fatal(d)
		}
	})
}

func TestOtherSeedOtherPlan(t *testing.T) {
	g := generator()
	a, _ := g.Plan()
	g.Seed++
	b, _ := g.Plan()
	if cmp.Equal(a, b) {
		t.Error("seeds 1 and 2 give the same plan")
	}
	if cmp.Equal(a.Steps[:3], a.Steps[len(a.Steps)-3:]) {
		t.Error("both fills begin alike")
	}
}

func TestGeneratorRejects(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*Generator)
		want string
	}{
		{"percent", func(g *Generator) { g.Target.CPU = 20 }, "cpu-load 20 must be a fraction"},
		{"zero", func(g *Generator) { g.Target.Memory = 0 }, "mem-load 0 must"},
		{"nan", func(g *Generator) { g.Target.Pods = math.NaN() }, "pod-load NaN must"},
		{"no fills", func(g *Generator) { g.Fills = 0 }, "cluster-resets 0 must"},
		{"replicas", func(g *Generator) { g.ReplicasMin = 16 }, "replicas 16 to 15 must"},
		{"no replicas", func(g *Generator) { g.ReplicasMin = 0 }, "replicas 0 to 15"},
		{"no shapes", func(g *Generator) { g.Shapes = nil }, "no shape has a weight"},
		{"bad shape", func(g *Generator) { g.Shapes[0].Requests.Pods = 2 }, `shape "web": requests`},
		{"no capacity", func(g *Generator) { g.Capacity.Memory = 0 }, ErrNoCapacity.Error()},
		{"loaded", func(g *Generator) { g.Used = g.Capacity }, ErrLoaded.Error()},
	} {
		g := generator()
		c.edit(&g)
		if _, err := g.Plan(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	g := generator()
	g.Used = g.Capacity
	if _, err := g.Plan(); !errors.Is(err, ErrLoaded) {
		t.Errorf("got %v, want ErrLoaded", err)
	}
}

// Shapes are drawn in proportion to their weights. With 12,000 draws, four standard errors are
// about 0.02.
func TestShapesAreDrawnByWeight(t *testing.T) {
	g := generator()
	g.Shapes = append(g.Shapes, Shape{Name: "never", Requests: cluster.Resources{Pods: 1}})
	g.Fills = 1
	g.ReplicasMin, g.ReplicasMax = 1, 1
	g.Target = Load{1, 1, 1}
	g.Capacity = cluster.Resources{MilliCPU: 1 << 50, Memory: 1 << 60, Pods: 12_000}
	p := fatal.Value(g.Plan())(t)
	n := map[string]float64{}
	for _, s := range p.Steps {
		n[s.Deployment.Shape.Name]++
	}
	for _, s := range g.Shapes {
		if got, want := n[s.Name]/float64(len(p.Steps)), s.Weight/12; math.Abs(got-want) > 0.02 {
			t.Errorf("%s: drawn with frequency %.3f, want %.3f", s.Name, got, want)
		}
	}
	if n["never"] > 0 {
		t.Error("a shape of weight 0 was drawn")
	}
}

// Even when most pairs of words are taken, names are unique and valid.
func TestNames(t *testing.T) {
	for _, words := range [][]string{adjectives, nouns} {
		seen := map[string]bool{}
		for _, w := range words {
			if seen[w] || len(w) > 10 || strings.Trim(w, "abcdefghijklmnopqrstuvwxyz") != "" {
				t.Errorf("word %q: twice, too long or not plain letters", w)
			}
			seen[w] = true
		}
	}
	g := generator()
	g.Fills, g.Target = 1, Load{1, 1, 1}
	g.ReplicasMin, g.ReplicasMax = 1, 1
	g.Capacity = cluster.Resources{MilliCPU: 1 << 50, Memory: 1 << 60, Pods: 20_000}
	p := fatal.Value(g.Plan())(t)
	fatal.If(t, p.Validate())
	numbered := each.Count(p.Steps[:500], func(s Step) bool { return strings.Count(s.Deployment.Name, "-") > 1 })
	if numbered > 0 {
		t.Errorf("%d of the first 500 names carry a number", numbered)
	}
}

// amount is a request and a limit; a limit of 0 means none.
type amount struct{ request, limit int64 }

// pods returns a Deployment of n pods.
func pods(name string, n int, cpu, mem amount) Deployment {
	return Deployment{Name: name, Replicas: n, Shape: Shape{
		Requests: cluster.Resources{MilliCPU: cpu.request, Memory: mem.request, Pods: 1},
		Limits:   cluster.Resources{MilliCPU: cpu.limit, Memory: mem.limit},
	}}
}

func TestPlanValidate(t *testing.T) {
	a := pods("a", 1, amount{100, 0}, amount{1 << 20, 0})
	for _, c := range []struct {
		name  string
		steps []Step
		want  string
	}{
		{"nothing", nil, ""},
		{"add, delete, add", []Step{{Action: Add, Deployment: a}, {Action: Delete, Deployment: a}, {Action: Add, Deployment: a}}, ""},
		{"add, reset, add", []Step{{Action: Add, Deployment: a}, {Action: Reset}, {Action: Add, Deployment: a}}, ""},
		{"twice", []Step{{Action: Add, Deployment: a}, {Action: Add, Deployment: a}}, `step 2 of the plan: "a" is already deployed`},
		{"delete first", []Step{{Action: Delete, Deployment: a}}, `step 1 of the plan: "a" is not deployed`},
		{"delete after reset", []Step{{Action: Add, Deployment: a}, {Action: Reset}, {Action: Delete, Deployment: a}}, "step 3"},
		{"name", []Step{{Action: Add, Deployment: pods("A", 1, amount{1, 0}, amount{1, 0})}}, `"A" cannot name a Deployment`},
		{"replicas", []Step{{Action: Add, Deployment: pods("a", 0, amount{1, 0}, amount{1, 0})}}, "0 replicas"},
		{"shape", []Step{{Action: Add, Deployment: pods("a", 1, amount{2, 1}, amount{1, 0})}}, "limits.cpu"},
		{"action", []Step{{Action: 7}}, "Action(7) is not an action"},
	} {
		err := Plan{Steps: c.steps}.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestFills(t *testing.T) {
	a, b := pods("a", 2, amount{100, 0}, amount{1 << 20, 0}), pods("b", 3, amount{10, 0}, amount{1 << 10, 0})
	got := Plan{Steps: []Step{
		{Action: Add, Deployment: a}, {Action: Add, Deployment: b}, {Action: Delete, Deployment: a}, {Action: Reset},
		{Action: Add, Deployment: a}, {Action: Reset},
	}}.Fills()
	want := []Fill{
		{Deployments: 2, Deleted: 1, Pods: 5, Requests: cluster.Resources{MilliCPU: 30, Memory: 3 << 10, Pods: 3}},
		{Deployments: 1, Pods: 2, Requests: cluster.Resources{MilliCPU: 200, Memory: 2 << 20, Pods: 2}},
		{},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestTolerations(t *testing.T) {
	x := cluster.Toleration{Key: "x", Exists: true}
	shape := Shape{Tolerations: []cluster.Toleration{x, x}}
	p := Plan{Steps: []Step{
		{Action: Add, Deployment: Deployment{Shape: shape}}, {Action: Delete, Deployment: Deployment{Shape: shape}}, {Action: Reset},
	}}
	want := []cluster.Toleration{{Key: NodeTaint, Exists: true}, x}
	if d := cmp.Diff(want, p.Tolerations()); d != "" {
		t.Error(d)
	}
}
