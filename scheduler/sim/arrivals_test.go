package sim_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/objective"
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

// A drawn future leaves the present and the environment that it was copied from alone, brings only what has been seen, after
// the rest of the deployment that arrives now, and has the lifetimes of the scenario.
func TestDrawFuture(t *testing.T) {
	for _, placements := range []int{0, 100, 2500} {
		env, copied := at(t, "hetero95", placements)
		before := env.Plan()
		fatal.If(t, copied.DrawFuture(rand.New(rand.NewPCG(1, 2))))
		if d := cmp.Diff(before, env.Plan()); d != "" {
			t.Fatalf("after %d placements the original changed: %s", placements, d)
		}
		if env.Next() != copied.Next() || !slices.Equal(env.Candidates(), copied.Candidates()) || env.Now() != copied.Now() ||
			!slices.Equal(env.Waiting(), copied.Waiting()) {
			t.Errorf("after %d placements the present changed", placements)
		}
		arrived := int(env.Now())
		seen := map[cluster.Resources]bool{}
		for _, a := range before[:arrived] {
			seen[a.Pod.Requests] = true
		}
		after := copied.Plan()
		current := before[arrived-1].Pod.Name
		for i, a := range after {
			switch {
			case i < arrived:
				if a.Pod.Name != before[i].Pod.Name || a.Pod.Requests != before[i].Pod.Requests {
					t.Fatalf("after %d placements, pod %d of the past changed", placements, i)
				}
			case before[i].Pod.Name == current && a.Pod.Name != current:
				t.Errorf("after %d placements, replica %d of the deployment that arrives is missing", placements, i)
			case !seen[a.Pod.Requests]:
				t.Errorf("after %d placements, pod %d requests what was never seen", placements, i)
			}
		}
		if placements == 2500 && cmp.Equal(before[arrived:], after[arrived:]) {
			t.Error("the drawn future is the true one")
		}
	}
}

// Drawn lifetimes have the mean of the true ones.
func TestDrawFutureLifetimes(t *testing.T) {
	env, copied := at(t, "hetero95", 2000)
	mean := func(plans ...[]sim.Arrival) float64 {
		var sum float64
		var n int
		for _, a := range slices.Concat(plans...) {
			sum, n = sum+a.Lifetime, n+1
		}
		return sum / float64(n)
	}
	var drawn [][]sim.Arrival
	for seed := range uint64(10) {
		fatal.If(t, copied.DrawFuture(rand.New(rand.NewPCG(seed, 2))))
		drawn = append(drawn, copied.Plan())
	}
	if got, want := mean(drawn...), mean(env.Plan()); math.Abs(got/want-1) > 0.06 {
		t.Errorf("mean lifetime %.0f, want about %.0f", got, want)
	}
}

// A future with memory cannot be drawn.
func TestDrawFutureRefused(t *testing.T) {
	for _, name := range []string{"lossy", "bursty", "heavytail", "traffic", "harvest"} {
		env, _ := at(t, name, 10)
		if err := env.DrawFuture(rand.New(rand.NewPCG(1, 2))); err == nil {
			t.Errorf("%s: a future was drawn", name)
		}
	}
}

// A copy made anywhere in an episode ends like the original, and what happens in one does not show in
// the other. The scenarios have pods that wait, lost nodes, zones, bursts, usage and traffic.
func TestCopyTo(t *testing.T) {
	for _, name := range []string{"hetero95", "lossy", "zonal", "bursty", "harvest", "blind", "traffic"} {
		t.Run(name, func(t *testing.T) {
			s, err := eval.Find(name)
			fatal.If(t, err)
			env, err := sim.New(s.Config)
			fatal.If(t, err)
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
