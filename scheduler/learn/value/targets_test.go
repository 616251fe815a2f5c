package value

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
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

// played returns the environment after a policy's episode, and its states: one at each of some arrivals, with all nodes.
func played(t testing.TB, c Config, seed uint64, choose func(*sim.Env) policy.Policy, at ...int) (*sim.Env, []state) {
	t.Helper()
	nodes, w := eights()
	env, err := (&player{c, nodes}).env(w)
	if err != nil {
		t.Fatal(err)
	}
	decide := eval.Deciding(choose(env), nil)
	var states []state
	if _, err := eval.Episode(env, seed, func(env *sim.Env) (eval.Choice, error) {
		if len(at) > len(states) && env.Next() >= at[len(states)] {
			s := state{arrival: env.Next()}
			for row, n := range env.Snapshot().Nodes {
				s.rows, s.idle, s.all = append(s.rows, int32(row)), append(s.idle, idle(n)), s.all+idle(n)
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
	r.states, r.taken = states, make([]snapshot, len(states))
	return r.end()
}

// eventsOf returns the events of an episode that is over.
func eventsOf(env *sim.Env) (out []event) {
	var devices int64
	for _, n := range env.Snapshot().Nodes {
		devices += int64(len(n.GPUs))
	}
	var requested int64
	for i, a := range env.Plan() {
		asked := a.Pod.Requests.TotalGPUMilli()
		requested += asked
		out = append(out, event{a.Pod, cluster.Fraction(requested, devices*cluster.DeviceMilli), float64(asked) / cluster.DeviceMilli,
			env.Row(i)})
	}
	return out
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

func sum(of []float32) (sum float64) {
	for _, v := range of {
		sum += float64(v)
	}
	return sum
}

// If pods of eight devices are lost early, a node that could host one is worth keeping whole: a device that is
// taken from it costs more than one that is taken from a node in use. The idle devices at the end do not tell.
func TestTargetsOfWholeNodes(t *testing.T) {
	first := ends{0.6, 1, 1}
	for seed := range uint64(3) {
		env, states := played(t, Defaults(), seed, find("random"), 12)
		s := &states[0]
		of := targets(eventsOf(env), len(env.Snapshot().Nodes), first, states)[0]
		var whole, used, wholes, useds float64 // targets by idle device
		for i, row := range s.rows {
			if len(env.Snapshot().Nodes[row].GPUs) < 8 || s.idle[i] == 0 {
				continue
			}
			if s.idle[i] == 8 {
				whole, wholes = whole+float64(of[i]), wholes+s.idle[i]
			} else {
				used, useds = used+float64(of[i]), useds+s.idle[i]
			}
		}
		if whole/wholes > used/useds-0.05 {
			t.Errorf("seed %d: an idle device of a whole node counts %.3f, of one in use %.3f", seed, whole/wholes, used/useds)
		}
	}
}

// The targets of all nodes add up to the cost to come, which is counted here pod by pod at a thousand ends.
func TestTargetsAddUp(t *testing.T) {
	nodes, _ := eights()
	rapid.Check(t, func(rt *rapid.T) {
		e := ends{rapid.SampledFrom([]float64{0.5, 0.8, 1}).Draw(rt, "first"), 1.3, rapid.SampledFrom([]float64{0, 0.3, 1}).Draw(rt, "below")}
		if e.first == 1 {
			e.below = 0
		}
		at := rapid.IntRange(0, 150).Draw(rt, "at")
		env, states := played(t, Defaults(), rapid.Uint64Range(1, 20).Draw(rt, "seed"),
			find(rapid.SampledFrom([]string{"random", "fgd"}).Draw(rt, "policy")), at)
		if len(states) == 0 {
			return
		}
		at = states[0].arrival
		capacity := float64(openb.GPUMilli(nodes)) / cluster.DeviceMilli
		var load float64
		cost, weight, lost, idle := 0.0, 0.0, 0.0, states[0].all
		plan := env.Plan()
		for i := range plan {
			gpus := float64(plan[i].Pod.Requests.TotalGPUMilli()) / cluster.DeviceMilli
			from := load
			if load += gpus / capacity; i < at {
				continue
			}
			c := lost // for ends between the arrival before and this one
			if from >= 1 {
				c = idle
			}
			w := max(e.after(from)-e.after(load), 0)
			cost, weight = cost+w*c, weight+w
			if env.Row(i) < 0 {
				lost += gpus
			} else {
				idle -= gpus
			}
		}
		if weight < 1e-3 {
			return
		}
		want := cost / weight
		if got := sum(targets(eventsOf(env), len(env.Snapshot().Nodes), e, states)[0]); math.Abs(got-want) > 0.05*want+0.2 {
			rt.Fatalf("%v from arrival %d on: %v, want %v", e, at, got, want)
		}
	})
}

// The share of ends after a load.
func TestEnds(t *testing.T) {
	for _, x := range []struct {
		e    ends
		load float64
		want float64
	}{
		{ends{0.6, 1.3, 0.5}, 0.2, 1}, {ends{0.6, 1.3, 0.5}, 0.6, 1}, {ends{0.6, 1.3, 0.5}, 0.8, 0.75}, {ends{0.6, 1.3, 0.5}, 1, 0.5},
		{ends{0.6, 1.3, 0.5}, 1.15, 0.25}, {ends{0.6, 1.3, 0.5}, 1.3, 0}, {ends{0.6, 1.3, 0.5}, never, 0},
		{ends{1, 1.3, 0}, 0.9, 1}, {ends{1, 1.3, 0}, 1.15, 0.5}, {ends{1, 1, 0}, 1, 1}, {ends{0.6, 1, 1}, 0.8, 0.5}, {ends{0.6, 1, 1}, 1, 0},
	} {
		if got := x.e.after(x.load); math.Abs(got-x.want) > 1e-9 {
			t.Errorf("%+v after %v: %v, want %v", x.e, x.load, got, x.want)
		}
	}
}

// A pod of which one that asks for less was lost has a price; one that asks for less itself has none.
func TestAsMuch(t *testing.T) {
	pod := func(milliCPU, gpu, milli int64, models ...string) *cluster.Pod {
		return &cluster.Pod{Requests: cluster.Resources{MilliCPU: milliCPU, GPU: gpu, GPUMilli: milli}, GPUModels: models}
	}
	one := pod(1000, 1, 0)
	for _, x := range []struct {
		a, b *cluster.Pod
		want bool
	}{
		{one, one, true}, {pod(2000, 1, 0), one, true}, {one, pod(2000, 1, 0), false}, {pod(1000, 8, 0), one, true},
		{one, pod(1000, 8, 0), false},
		{one, pod(1000, 0, 500), true}, {pod(1000, 0, 500), one, false}, {pod(1000, 1, 0, "T4"), one, true}, {one, pod(1000, 1, 0, "T4"), false},
		{pod(1000, 1, 0, "T4"), pod(1000, 1, 0, "T4", "G2"), true}, {pod(1000, 1, 0, "T4", "G2"), pod(1000, 1, 0, "T4"), false},
	} {
		if got := asMuch(x.a, x.b); got != x.want {
			t.Errorf("%+v asks for as much as %+v: %v", x.a, x.b, got)
		}
	}
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
