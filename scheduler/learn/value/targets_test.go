package value

import (
	"fmt"
	"slices"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
)

// eights returns a cluster and pods, a few of which request eight devices.
func eights() ([]openb.Node, Workload) {
	var nodes []openb.Node
	for i := range 50 {
		n := openb.Node{Name: fmt.Sprintf("node-%d", i), MilliCPU: 96_000, MemoryMiB: 512 << 10, GPUs: 8, Model: "G2"}
		if i%5 > 2 {
			n.GPUs, n.Model = 2, "T4"
		}
		nodes = append(nodes, n)
	}
	w := Workload{Name: "eights"}
	for i := range 200 {
		p := openb.Pod{Name: fmt.Sprintf("pod-%d", i), MilliCPU: 8000, MemoryMiB: 8 << 10, GPUs: 1, GPUMilli: 1000}
		switch {
		case i%40 == 0:
			p.GPUs, p.MilliCPU = 8, 64_000
		case i%3 == 0:
			p.GPUMilli = []int64{460, 540, 810}[i%9/3]
		}
		w.Pods = append(w.Pods, p)
	}
	return nodes, w
}

// breaker is a policy that scores the nodes whose devices are all free higher, and so leaves fewer for pods with many.
type breaker struct {
	policy.Policy
	by float32
}

// always is by how much breaker scores them higher if it takes them first, whatever else the policy says.
const always = 1e6

func (b breaker) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	if err := b.Policy.Score(s, pod, candidates, scores); err != nil {
		return err
	}
	for i, row := range candidates {
		if n := s.Nodes[row]; len(n.GPUs) == 8 && n.IdleGPUMilli() == 8000 {
			scores[i] += b.by
		}
	}
	return nil
}

// state holds some nodes at one decision, by row, and the idle devices of each.
type state struct {
	rows []int32
	idle []float64
}

// played returns the environment after a policy's episode, and its states: one at each of some arrivals, with all nodes.
func played(t testing.TB, c Config, seed uint64, choose func(*sim.Env) policy.Policy, at ...int) (*sim.Env, []state) {
	t.Helper()
	nodes, w := eights()
	env, err := (&player{c, nodes}).env(w)
	fatal.If(t, err)
	decide := eval.Deciding(choose(env), nil)
	var states []state
	if _, err := eval.Episode(env, seed, func(env *sim.Env) (eval.Choice, error) {
		if len(at) > len(states) && env.Next() >= at[len(states)] {
			var s state
			for row, n := range env.Snapshot().Nodes {
				s.rows, s.idle = append(s.rows, int32(row)), append(s.idle, idle(n))
			}
			states = append(states, s)
		}
		return decide(env)
	}); err != nil {
		t.Fatal(err)
	}
	return env, states
}

// learned returns the snapshots of an episode that is over, with the targets that a configuration learns.
func learned(c Config, env *sim.Env, states []state) []snapshot {
	r := newRecorder(c, env, nil, nil)
	r.rows = append(r.rows, each.Map(states, func(s state) []int32 { return s.rows })...)
	r.taken = make([]snapshot, len(states))
	return r.end()
}

func fgd(env *sim.Env) policy.Policy { return heuristic.NewFGD(env.Typical()) }

func find(name string) func(*sim.Env) policy.Policy {
	return func(env *sim.Env) policy.Policy {
		h, err := heuristic.Find(name)
		if err != nil {
			panic(err)
		}
		return h.New(policy.Setting{Seed: 1, Typical: env.Typical()})
	}
}

// mean returns the mean allocation at some of the loads of an episode.
func mean(env *sim.Env, at []float64) (sum float64) {
	for _, l := range env.Outcome().GPU.Loads {
		if slices.Contains(at, l.Load) {
			sum += l.Allocation / float64(len(at))
		}
	}
	return sum
}

func sum(of []float32) float64 {
	return each.Sum(of, func(v float32) float64 { return float64(v) })
}

// A node's target is the devices that are idle there after the last arrival, in whichever state the node was seen.
func TestIdleTargets(t *testing.T) {
	c := Defaults()
	env, states := played(t, c, 3, fgd, 0, 60, 150)
	if len(states) != 3 {
		t.Fatalf("%d states, want 3", len(states))
	}
	changed := 0
	for i, s := range learned(c, env, states) {
		for j, row := range states[i].rows {
			n := env.Snapshot().Nodes[row]
			if want := float32(n.IdleGPUMilli()) / 1000; s.Targets[j] != want {
				t.Fatalf("state %d, node %d: target %v, want %v", i, row, s.Targets[j], want)
			}
			if i == 0 && states[0].idle[j] != float64(s.Targets[j]) {
				changed++
			}
		}
	}
	if changed == 0 {
		t.Error("no node's idle devices changed from the first state to the end: the test shows nothing")
	}
}
