package value

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
)

// trace returns a small cluster and pods of every kind.
func trace() ([]openb.Node, Workload) {
	var nodes []openb.Node
	for i := range 12 {
		n := openb.Node{Name: fmt.Sprintf("node-%d", i), MilliCPU: 32_000, MemoryMiB: 128 << 10, GPUs: 4, Model: "T4"}
		if i%3 == 0 {
			n.MilliCPU, n.GPUs, n.Model = 96_000, 8, "V100"
		}
		nodes = append(nodes, n)
	}
	w := Workload{Name: "small"}
	for i := range 300 {
		p := openb.Pod{Name: fmt.Sprintf("pod-%d", i), MilliCPU: 6000, MemoryMiB: 8 << 10}
		switch i % 6 {
		case 0:
		case 1:
			p.GPUs, p.GPUMilli = 1, 810
		case 2:
			p.GPUs, p.GPUMilli = 1, 470
		case 3:
			p.GPUs, p.GPUMilli, p.MilliCPU = 1, 190, 2000
		case 4:
			p.GPUs, p.GPUMilli = 2, 1000
		default:
			p.GPUs, p.GPUMilli, p.Models = 1, 1000, []string{"V100"}
		}
		w.Pods = append(w.Pods, p)
	}
	return nodes, w
}

func small() Config {
	c := Defaults()
	c.Hidden, c.Iterations, c.Episodes, c.Updates, c.Remember = 8, 4, 2, 20, 6
	c.Imitation, c.SnapshotEvery, c.SnapshotNodes, c.Placements, c.BatchNodes = 2, 10, 8, 6, 8
	c.EvaluateEvery, c.EvaluateWorkloads = 2, 2
	return c
}

func TestRead(t *testing.T) {
	c, err := Defaults().Read("a.yaml", []byte("encoder: mlp\nhead: actor-critic\niterations: 7\n"))
	if err != nil || c.Encoder != checkpoint.MLP || !c.actor() || c.Iterations != 7 || c.Updates != Defaults().Updates {
		t.Errorf("%+v, %v", c, err)
	}
	for text, say := range map[string]string{
		"iteration: 7":                 `unknown field "iteration"`,
		"encoder: cnn":                 `encoder "cnn" is not known`,
		"head: ppo":                    `head "ppo" is not known`,
		"updates: 0":                   "updates: 0 must be 1 or more",
		"learningRate: -1":             "learningRate: -1 must be over 0",
		"exploration: 2":               "exploration: 2 is no share",
		"spread: -1":                   "spread: -1 and spreadMultiple",
		"iterations: 1\niterations: 2": "already set",
	} {
		if _, err := Defaults().Read("a.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), say) ||
			!strings.HasPrefix(err.Error(), "a.yaml: ") {
			t.Errorf("%q: %v, want %q", text, err, say)
		}
	}
}

// A workload of the family consists of pods of the trace, some with GPUs, and the same seed gives the
// same one.
func TestDraw(t *testing.T) {
	_, w := trace()
	known := map[shape]bool{}
	for _, p := range w.Pods {
		known[shapeOf(p)] = true
	}
	rapid.Check(t, func(t *rapid.T) {
		seed, spread := rapid.Uint64().Draw(t, "seed"), rapid.Float64Range(0, 2).Draw(t, "spread")
		c := Config{Spread: spread, SpreadMultiple: spread}
		a, b := c.draw(rand.New(rand.NewPCG(seed, 1)), w), c.draw(rand.New(rand.NewPCG(seed, 1)), w)
		if len(a.Pods) != len(b.Pods) {
			t.Fatal("the same seed gives another workload")
		}
		gpus := false
		for _, p := range a.Pods {
			if !known[shapeOf(p)] {
				t.Fatalf("%+v is not a pod of the trace", p)
			}
			gpus = gpus || p.GPUs > 0
		}
		if !gpus {
			t.Fatal("no pod requests a GPU")
		}
	})
}

// record plays an episode with FGD and returns the snapshots, the environment at the end, and the
// allocation.
func record(t *testing.T, c Config) ([]snapshot, *sim.Env, float64) {
	t.Helper()
	nodes, w := trace()
	env, err := (&player{c, nodes}).env(w)
	fatal.If(t, err)
	r := newRecorder(c, env, rand.New(rand.NewPCG(1, 2)), heuristic.NewFGD(env.Typical()))
	r.teacher = true
	o, err := eval.Episode(env, 5, r.decide)
	fatal.If(t, err)
	return r.end(), env, o.GPU.Allocation
}

// Snapshots agree with the cluster: the first placement is the
// teacher's, and a node has less left after a placement than before it.
func TestRecorder(t *testing.T) {
	c := small()
	c.Head = checkpoint.ActorCritic
	taken, env, allocation := record(t, c)
	if allocation < 0.7 || allocation > 1 || len(taken) < 8 {
		t.Fatalf("allocation %v, %d snapshots", allocation, len(taken))
	}
	var idle, devices float64
	for _, n := range env.Snapshot().Nodes {
		idle, devices = idle+float64(n.IdleGPUMilli())/cluster.DeviceMilli, devices+float64(len(n.GPUs))
	}
	if d := 1 - idle/devices - allocation; d < -1e-9 || d > 1e-9 {
		t.Errorf("the idle and the allocated devices add up to %v too few", d)
	}
	free := func(x []float32) float32 {
		return each.Sum(x, func(v float32) float32 { return v })
	}
	for _, s := range taken {
		if len(s.Targets) != len(s.Nodes) || s.Teacher != 0 || len(s.Before) != len(s.After) || len(s.Before) == 0 {
			t.Fatalf("snapshot with %d targets for %d nodes, teacher %d, %d before and %d after", len(s.Targets), len(s.Nodes), s.Teacher,
				len(s.Before), len(s.After))
		}
		for i := range s.Before {
			if free(s.After[i].Free) > free(s.Before[i].Free) || s.After[i].X[0] >= s.Before[i].X[0] {
				t.Fatalf("a placement frees resources: %+v became %+v", s.Before[i], s.After[i])
			}
		}
	}
}

func TestRivals(t *testing.T) {
	if d := cmp.Diff([]int{4, 0}, rivals([]float32{1, 3, 0, 3, 2, 2}, 1, 2)); d != "" {
		t.Error(d)
	}
	if got := rivals([]float32{1, 1}, 0, 5); len(got) != 0 {
		t.Errorf("%v are rivals with an equal score", got)
	}
}

// The workloads of a family weigh the same, however many pods each has.
func TestTypicalPods(t *testing.T) {
	pods := func(n int, p openb.Pod) (out []openb.Pod) { return append(out, slices.Repeat([]openb.Pod{p}, n)...) }
	got := TypicalPods([]Workload{
		{Name: "large", Pods: slices.Concat(pods(300, openb.Pod{MilliCPU: 500, GPUs: 1, GPUMilli: 300, Models: []string{"T4"}, Deleted: 10}),
			pods(100, openb.Pod{MilliCPU: 900, Deleted: 90}))},
		{Name: "small", Pods: pods(2, openb.Pod{GPUs: 2, GPUMilli: 1000, Created: openb.NoTime, Deleted: openb.NoTime})},
	})
	want := &checkpoint.TypicalPods{Family: []string{"large", "small"}, Pods: []checkpoint.TypicalPod{
		{GPU: 2, Frequency: 0.5}, {MilliCPU: 500, GPUMilli: 300, GPUModels: []string{"T4"}, Frequency: 0.375}, {MilliCPU: 900, Frequency: 0.125},
	}}
	if d := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); d != "" {
		t.Error(d)
	}
}
