package value

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
)

// gpuStep returns a step with the idle devices of nodes that have four each, and a vertex of each.
func gpuStep(number uint64, waiting float64, idle ...float32) experience.Step {
	g := &experience.GPUState{Cluster: []float32{1}, Kinds: []experience.MachineKind{{Devices: 4}}, Waiting: waiting}
	for i, v := range idle {
		g.Nodes = append(g.Nodes, experience.GPUAmounts{ID: uint64(i), Idle: v})
		g.Rows = append(g.Rows, int32(i))
		g.Vertices = append(g.Vertices, graph.GPUNode{X: []float32{v}, Free: []float32{v / 4}})
	}
	return experience.Step{Actor: "a", Number: number, GPU: g}
}

// The targets of a snapshot are what its nodes have idle while pods wait, the sooner the more, as calculated by
// hand. A node that goes has no target, and one that comes changes none.
func TestWindowTargets(t *testing.T) {
	w := windows{halfLife: 1}
	for _, s := range []experience.Step{
		gpuStep(1, 9, 4, 1, 2), // weighs nothing: it is the snapshot itself
		gpuStep(2, 0, 3, 1, 2), // nobody waits
		gpuStep(3, 1, 1, 0, 3), // a quarter of the idle devices: 1/4 · 1/4
	} {
		if done := w.take(s); len(done) > 0 {
			t.Fatalf("step %d ends a window: %+v", s.Number, done)
		}
	}
	last := gpuStep(4, 8, 2, 3, 0) // the third node is gone, another has come: 1/8 · 1
	last.GPU.Nodes[0].ID, last.GPU.Nodes[1].ID, last.GPU.Nodes[2].ID = 7, 0, 1
	done := w.take(last)
	if len(done) != 1 || len(done[0].Nodes) != 2 || done[0].Nodes[0].X[0] != 4 || done[0].Nodes[1].X[0] != 1 || done[0].Teacher != -1 {
		t.Fatalf("%+v", done)
	}
	weight := 1./16 + 1./8
	for i, want := range []float64{(1./16*1 + 1./8*3) / weight, (1./16*0 + 1./8*0) / weight} {
		if got := float64(done[0].Targets[i]); math.Abs(got-want) > 1e-6 {
			t.Errorf("target %d is %v, want %v", i, got, want)
		}
	}
}

// Nothing is learned while every pod finds a node, and a window does not reach over a scheduler's restart. A
// lost step only leaves a gap in the sums.
func TestWindowsWithoutTargets(t *testing.T) {
	w := windows{halfLife: 2}
	for number := range uint64(100) {
		if done := w.take(gpuStep(number+1, 0, 1, 2)); len(done) > 0 {
			t.Fatalf("nobody waits, and step %d gives %+v", number, done)
		}
	}
	w = windows{halfLife: 2}
	for number := range uint64(100) {
		s := gpuStep(number+1, 3, 1, 2)
		s.Epoch = number / 5 // it lives for less than a window
		if done := w.take(s); len(done) > 0 {
			t.Fatalf("step %d of another life ends a window: %+v", number, done)
		}
	}
	w = windows{halfLife: 2}
	got := 0
	for number := range uint64(100) {
		if number%3 > 0 {
			got += len(w.take(gpuStep(number+1, 3, 1, 2)))
		}
	}
	if got < 50 {
		t.Errorf("%d of some 66 windows ended", got)
	}
}

// Every target is a mean of what was idle, so it lies between 0 and the node's devices. At most mostPending windows
// wait at a time, however long they are.
func TestWindowsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := windows{halfLife: rapid.Float64Range(0.5, 5000).Draw(t, "half-life")}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		for number := range uint64(600) {
			for _, d := range w.take(gpuStep(number+1, 3*rng.Float64(), 4*rng.Float32(), 4*rng.Float32())) {
				for _, v := range d.Targets {
					if !(v >= 0 && v <= 4) {
						t.Fatalf("target %v", v)
					}
				}
			}
			if len(w.pending) > mostPending+1 {
				t.Fatalf("%d windows", len(w.pending))
			}
		}
	})
}

// The memory takes no more bytes than it may, those of the waiting windows included, and keeps the latest.
func TestMemoryIsBounded(t *testing.T) {
	one := gpuStep(1, 0, 1, 2).GPU
	s := snapshot{Cluster: one.Cluster, Nodes: one.Vertices, Targets: []float32{1, 2}}
	m := memory{limit: 10 * s.bytes()}
	for i := range 100 {
		next := s
		next.Teacher = i
		m.add(next, 3*s.bytes())
		if n := len(m.snapshots); n != min(i+1, 7) || m.bytes != n*s.bytes() || m.snapshots[n-1].Teacher != i {
			t.Fatalf("after %d: %d snapshots of %d bytes", i+1, n, m.bytes)
		}
	}
	if got := m.newest(2*s.bytes() + 1); len(got) != 2 || got[1].Teacher != 99 {
		t.Errorf("the newest are %+v", got)
	}
}

// A good and a bad policy that go on from the same states get different targets, and the targets rank them as the
// allocation over time does.
func TestOnlineTargetsTellPoliciesApart(t *testing.T) {
	_, c := lasting()
	encodes := checkpoint.Random(small().architecture(), rand.New(rand.NewPCG(1, 1)))
	var target, idle [3]float64
	for seed := range uint64(6) {
		for i, choose := range []func(*stream) policy.Policy{
			func(s *stream) policy.Policy { return heuristic.NewFGD(s.env.Typical()) },
			func(s *stream) policy.Policy { s.random = 1; return heuristic.NewFGD(s.env.Typical()) },
			func(*stream) policy.Policy { return spreading{} },
		} {
			s := newStream(t, c, 100+seed, 1500)
			if err := s.load(encodes); err != nil {
				t.Fatal(err)
			}
			s.play = choose(s)
			w, n := windows{halfLife: 64}, 0
			sum := 0.0
			for {
				step, err := s.Next()
				if err != nil {
					break
				}
				idle[i] += step.Before / 9000
				for _, d := range w.take(step) {
					for _, v := range d.Targets {
						sum += float64(v)
						n++
					}
				}
			}
			if n == 0 {
				t.Fatalf("policy %d has no targets", i)
			}
			target[i] += sum / float64(n) / 6
		}
	}
	t.Logf("targets %.3f, idle share %.4f: FGD, random, spreading", target, idle)
	if !(idle[0] < idle[1] && idle[0] < idle[2]) {
		t.Fatalf("idle %v: FGD is not the best here", idle)
	}
	if !(target[0] < 0.9*target[1] && target[0] < 0.9*target[2]) || (target[1] < target[2]) != (idle[1] < idle[2]) {
		t.Errorf("targets %v do not rank the policies as their idle shares %v", target, idle)
	}
}
