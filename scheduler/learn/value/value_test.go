package value

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cluster"
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
	c, err := Read("a.yaml", []byte("encoder: mlp\nhead: actor-critic\niterations: 7\n"))
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
		if _, err := Read("a.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), say) || !strings.HasPrefix(err.Error(), "a.yaml: ") {
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
	if err != nil {
		t.Fatal(err)
	}
	r := newRecorder(c, env, rand.New(rand.NewPCG(1, 2)), heuristic.NewFGD(env.Typical()))
	r.teacher = true
	o, err := eval.Episode(env, 5, r.decide)
	if err != nil {
		t.Fatal(err)
	}
	return r.end(), env, o.GPU.Allocation
}

// Snapshots agree with the cluster: targets are the idle devices at the end, the first placement is the
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
	free := func(x []float32) (sum float32) {
		for _, v := range x {
			sum += v
		}
		return sum
	}
	for _, s := range taken {
		if len(s.idle) != len(s.nodes) || s.teacher != 0 || len(s.before) != len(s.after) || len(s.before) == 0 {
			t.Fatalf("snapshot with %d targets for %d nodes, teacher %d, %d before and %d after", len(s.idle), len(s.nodes), s.teacher, len(s.before), len(s.after))
		}
		for i, n := range s.nodes {
			if left := free(n.Free); s.idle[i] > left+1e-5 {
				t.Fatalf("%v devices are idle at the end, of %v before", s.idle[i], left)
			}
		}
		for i := range s.before {
			if free(s.after[i].Free) > free(s.before[i].Free) || s.after[i].X[0] >= s.before[i].X[0] {
				t.Fatalf("a placement frees resources: %+v became %+v", s.before[i], s.after[i])
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
