package sim_test

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
)

// at returns an environment of a scenario after some placements, and a copy.
func at(t *testing.T, name string, placements int) (env, copied *sim.Env) {
	t.Helper()
	s, err := eval.Find(name)
	fatal.If(t, err)
	if env, err = sim.New(s.Config); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, env.Reset(7))
	for i := range placements {
		env.Step(i % len(env.Candidates()))
	}
	copied = &sim.Env{}
	env.CopyTo(copied)
	return env, copied
}

// A copy made anywhere in an episode ends like the original, and what happens in one does not show in
// the other. The scenarios have pods that wait, lost nodes, zones, bursts, usage and traffic.
func TestCopyTo(t *testing.T) {
	for _, name := range []string{"hetero95", "lossy", "zonal", "bursty", "harvest", "blind", "traffic"} {
		t.Run(name, func(t *testing.T) {
			s := fatal.Value(eval.Find(name))(t)
			env := fatal.Value(sim.New(s.Config))(t)
			var dst sim.Env // used again for every copy
			var whole sim.Outcome
			for _, at := range []int{-1, 0, 700, 1900} {
				fatal.If(t, env.Reset(3))
				for i := 0; i != at && !env.Done(); i++ {
					env.Step(i % len(env.Candidates()))
				}
				if at < 0 {
					whole = env.Outcome()
					continue
				}
				env.CopyTo(&dst)
				if d := math.Abs(dst.Cost() - env.Cost()); d > 1e-9 {
					t.Errorf("after %d steps the costs differ by %v", at, d)
				}
				for i := range 50 { // another policy, for a while
					if dst.Done() {
						break
					}
					dst.Step((i * 7) % len(dst.Candidates()))
				}
				env.CopyTo(&dst)
				for _, e := range []*sim.Env{env, &dst} {
					for i := at; !e.Done(); i++ {
						e.Step(i % len(e.Candidates()))
					}
					if d := cmp.Diff(whole, e.Outcome(), cmpopts.EquateApprox(1e-9, 1e-12)); d != "" {
						t.Errorf("after %d steps: %s", at, d)
					}
				}
			}
		})
	}
}

// This plays one episode. Each pod goes to the first node that it fits on.
func Example() {
	env, err := sim.New(sim.Config{
		Nodes:     sim.Exactly(4),
		Sizes:     []sim.NodeSize{{Weight: 1, Allocatable: cluster.Resources{MilliCPU: 16_000, Memory: 64 << 30, Pods: 110}}},
		Shapes:    []workload.Shape{{Name: "web", Weight: 1, Requests: cluster.Resources{MilliCPU: 2000, Memory: 8 << 30, Pods: 1}}},
		Replicas:  sim.IntRange{Min: 1, Max: 4},
		Load:      sim.FloatRange{Min: 0.5, Max: 0.5},
		Objective: objective.Mix{{Term: objective.Pack{}, Weight: 1}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := env.Reset(1); err != nil {
		fmt.Println(err)
		return
	}
	var sum float64
	for !env.Done() {
		sum += env.Step(0) // the first of env.Candidates()
	}
	o := env.Outcome()
	fmt.Printf("%d of %d pods placed on %d of %d nodes; rewards add up to %.2f\n", o.Placed, o.Arrived, o.NodesInUse, o.Nodes, sum)
	// Output:
	// 17 of 17 pods placed on 3 of 4 nodes; rewards add up to -0.75
}

// After the fill, two more fills of pods arrive in bursts while others leave.
func ExampleArrivals() {
	env, err := sim.New(sim.Config{
		Nodes:     sim.Exactly(4),
		Sizes:     []sim.NodeSize{{Weight: 1, Allocatable: cluster.Resources{MilliCPU: 16_000, Memory: 64 << 30, Pods: 110}}},
		Shapes:    []workload.Shape{{Name: "web", Weight: 1, Requests: cluster.Resources{MilliCPU: 2000, Memory: 8 << 30, Pods: 1}}},
		Replicas:  sim.Exactly(1),
		Load:      sim.FloatRange{Min: 0.5, Max: 0.5},
		Turnover:  2,
		Arrivals:  sim.Arrivals{Process: "bursts", Size: 0.25},
		Lifetimes: sim.Lifetimes{Distribution: "pareto", Alpha: 2},
		Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := env.Reset(1); err != nil {
		fmt.Println(err)
		return
	}
	plan := env.Plan()
	times := map[float64]int{}
	for _, a := range plan[16:] {
		times[a.At]++
	}
	fmt.Printf("%d pods arrive, the last %d in %d bursts\n", len(plan), len(plan)-16, len(times))
	// Output:
	// 48 pods arrive, the last 32 in 8 bursts
}

var rules = []string{"mig:first-fit", "mig:best-fit", "mig:placements", "mig:blocked", "mig:fgd", "mig:value"}

func contender(t rapid.TB, name string) eval.Contender {
	t.Helper()
	h := fatal.Value(heuristic.Find(name))(t)
	return eval.Contender{Name: name, New: h.New, RandomTies: h.RandomTies}
}

// given returns an environment in which these pods come to the machines and leave.
func given(m sim.MIG, all []sim.Arrival, end float64) (*sim.Env, error) {
	env, err := sim.New(sim.Config{MIG: &m, Preferences: preference.Off})
	if err != nil {
		return nil, err
	}
	g := *env.Config().Given
	g.Pods, g.WarmUp, g.End = func(uint64) []sim.Arrival { return all }, 0, end
	return sim.New(sim.Config{Given: &g, Preferences: preference.Off})
}

// place is where a partition lies.
type place struct {
	node, gpu, start int
}

// placeOf returns where a choice puts the pending pod.
func placeOf(env *sim.Env, c eval.Choice) place {
	return place{int(env.Candidates()[c.Candidate]), bits.TrailingZeros64(uint64(c.Devices)), c.Start}
}

// checked follows an episode, whose pods' partitions must not overlap.
type checked struct {
	rapid.TB
	m   sim.MIG
	all []sim.Arrival
	at  map[int]place // by arrival
}

// check compares the nodes with the running pods. Of the waiting pods, those before a number must fit nowhere.
func (c checked) check(env *sim.Env, before int) {
	used := make([][]mig.Slices, len(env.Nodes()))
	for i := range used {
		used[i] = make([]mig.Slices, c.m.GPUs)
	}
	for i, p := range c.at {
		if !env.Runs(i) {
			continue
		}
		on := c.all[i].Pod.Partition.On(p.start)
		if used[p.node][p.gpu]&on != 0 {
			c.Fatalf("two partitions overlap: %+v", c.at)
		}
		used[p.node][p.gpu] |= on
	}
	for i, n := range env.Nodes() {
		if !slices.Equal(n.Slices, used[i]) || slices.Max(n.GPUs) > cluster.DeviceMilli || slices.Min(n.GPUs) < 0 {
			c.Fatalf("node %d has %08b and %v, want %08b", i, n.Slices, n.GPUs, used[i])
		}
	}
	for _, w := range env.Waiting() {
		a := c.all[w]
		for _, n := range env.Nodes() {
			if w < before && c.mayRun(a.Pod, n) && slices.ContainsFunc(n.Slices, a.Pod.Partition.Fits) {
				c.Fatalf("%+v is left out, but fits on %08b", a, n.Slices)
			}
		}
	}
}

// mayRun reports whether a node has a model that the pod names, or the pod names none.
func (c checked) mayRun(p *cluster.Pod, n *cluster.Node) bool {
	return len(p.GPUModels) == 0 || slices.Contains(p.GPUModels, n.GPUModel)
}

// Whatever comes and goes, no two partitions overlap, each starts where its profile may, and on a node with its
// model. A pod is left out only if it fits nowhere.
func TestPartitionsDoNotOverlap(t *testing.T) {
	names := append([]string{"gpu-best-fit", "fgd", "gpu-packing", "kube-scheduler", "random"}, rules...)
	rapid.Check(t, func(t *rapid.T) {
		c := checked{TB: t, at: map[int]place{}}
		c.m = sim.MIG{
			Machines: rapid.IntRange(1, 3).Draw(t, "machines"), GPUs: rapid.IntRange(1, 3).Draw(t, "gpus"), Mix: "uniform",
			Models: []string{"A100", "H100"}[:rapid.IntRange(1, 2).Draw(t, "models")], Load: 1,
		}
		end := 0.0
		for range rapid.IntRange(1, 60).Draw(t, "pods") {
			all := c.m.Arrivals(rapid.Uint64().Draw(t, "pod"))
			a := all[0] // of some model and profile
			a.At, a.Lifetime = end, rapid.Float64Range(0.1, 30).Draw(t, "life")
			c.all = append(c.all, a)
			end += rapid.Float64Range(0, 2).Draw(t, "gap")
		}
		env, err := given(c.m, c.all, end+10)
		fatal.If(t, err)
		p := contender(t, rapid.SampledFrom(names).Draw(t, "policy")).New(policy.Setting{Seed: 1, Typical: env.Typical()})
		if rapid.Bool().Draw(t, "first fit") {
			p = policy.FirstFit(p)
		}
		decide := eval.Deciding(p, rand.New(rand.NewPCG(1, 1)))
		var used float64
		got, err := eval.Episode(env, 1, func(env *sim.Env) (eval.Choice, error) {
			i := env.Next()
			c.check(env, i)
			choice, err := decide(env)
			a, at := c.all[i], placeOf(env, choice)
			if err == nil && (!c.mayRun(a.Pod, env.Nodes()[at.node]) || !slices.Contains(a.Pod.Partition.Starts(), at.start)) {
				t.Fatalf("%+v is at %+v", a, at)
			}
			c.at[i] = at
			used += float64(a.Pod.Partition.Compute()) * (min(env.Now()+a.Lifetime, end+10) - env.Now())
			return choice, err
		})
		fatal.If(t, err)
		c.check(env, len(c.all))
		if want := used / (end + 10) / float64(len(c.m.Models)*c.m.Machines*c.m.GPUs*mig.Compute); math.Abs(got.Partitions.Allocation-want) > 1e-9 {
			t.Fatalf("allocation %v, want %v", got.Partitions.Allocation, want)
		}
	})
}

// An episode goes on in a copy as in its original, which does not see what happens there.
func TestCopyOfPartitions(t *testing.T) {
	m := sim.MIG{Models: []string{"A100", "H100"}, Machines: 2, GPUs: 2, Mix: "uniform", Load: 1}
	env, err := given(m, m.Arrivals(1)[:100], 8)
	fatal.If(t, err)
	var copied sim.Env
	var want sim.Outcome
	for _, at := range []int{-1, 0, 20, 60} {
		decide := eval.Deciding(contender(t, "mig:best-fit").New(policy.Setting{Typical: env.Typical()}), nil)
		step := func(e *sim.Env) {
			c := fatal.Value(decide(e))(t)
			e.StepAt(c.Candidate, c.Devices, c.Start)
		}
		fatal.If(t, env.Reset(1))
		for i := 0; i != at && !env.Done(); i++ {
			step(env)
		}
		if at < 0 {
			want = env.Outcome()
			continue
		}
		env.CopyTo(&copied)
		for range 10 {
			copied.Step(len(copied.Candidates()) - 1)
		}
		env.CopyTo(&copied)
		for _, e := range []*sim.Env{env, &copied} {
			for !e.Done() {
				step(e)
			}
			if d := cmp.Diff(want, e.Outcome(), cmpopts.EquateApprox(1e-9, 1e-12)); d != "" {
				t.Errorf("after %d steps: %s", at, d)
			}
		}
	}
}

func TestMIGSteady(t *testing.T) {
	for _, load := range []float64{0.3, 1.5} {
		m := sim.MIG{Machines: 4, GPUs: 8, Mix: "uniform", Load: load}
		env := fatal.Value(sim.New(sim.Config{MIG: &m, Preferences: preference.Off}))(t)
		x := contender(t, "mig:value")
		o := fatal.Value(x.Episode(t.Context(), env, 7))(t)
		again, err := x.Episode(t.Context(), env, 7)
		if d := cmp.Diff(o, again); err != nil || d != "" {
			t.Errorf("again %s, %v", d, err)
		}
		switch q := o.Partitions; {
		case load < 1 && (q.Waiting != 0 || o.Unscheduled != 0 || q.Allocation < 0.25 || q.Allocation > 0.35):
			t.Errorf("at 30%%: %+v", q)
		case load > 1 && (q.Waiting < 50 || o.Unscheduled < 100 || q.Allocation < 0.93 || q.Allocation > 1):
			t.Errorf("at 150%%: %+v", q)
		}
	}
}

// The learned values, which never saw these mixes, leave no more idle than FGD on any mix, and less on mostly small profiles.
func TestLearnedValuesAreAheadOfFGD(t *testing.T) {
	for _, x := range sim.MIGMixes {
		m := sim.MIG{Machines: 8, GPUs: 8, Mix: x.Name, Loads: []float64{1.1}}
		env := fatal.Value(sim.New(sim.Config{MIG: &m, Preferences: preference.Off}))(t)
		var gain float64
		for seed := range uint64(6) {
			for name, sign := range map[string]float64{"mig:value": 1, "mig:fgd": -1} {
				o := fatal.Value(contender(t, name).Episode(t.Context(), env, 100+seed))(t)
				gain += sign * 100 * o.Partitions.Loads[0].Allocation / 6
			}
		}
		if least := map[string]float64{"skew-small": 1}[x.Name]; gain < least-0.3 {
			t.Errorf("%s: %+.2f points", x.Name, gain)
		}
	}
}

func TestMIGRefuses(t *testing.T) {
	for want, edit := range map[string]func(*sim.MIG){
		"there are A100, H100": func(m *sim.MIG) { m.Models = []string{"T4"} }, "A100 is there twice": func(m *sim.MIG) { m.Models = []string{"A100", "A100"} },
		"there are uniform": func(m *sim.MIG) { m.Mix = "odd" }, "machines": func(m *sim.MIG) { m.Machines = 0 },
		"gpus": func(m *sim.MIG) { m.GPUs = 65 }, "load -1": func(m *sim.MIG) { m.Loads = []float64{-1} },
		"either loads": func(m *sim.MIG) { m.Load = 1 }, "ascend": func(m *sim.MIG) { m.Loads = []float64{1, 0.5} },
	} {
		m := sim.MIG{Machines: 1, GPUs: 1, Mix: "uniform", Loads: []float64{1}}
		edit(&m)
		if err := (sim.Config{MIG: &m}).Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
