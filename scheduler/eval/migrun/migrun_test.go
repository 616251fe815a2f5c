package migrun

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/golden"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/sim"
)

var rules = []string{"mig:first-fit", "mig:best-fit", "mig:placements", "mig:blocked", "mig:fgd", "mig:value"}

func contender(t rapid.TB, name string) eval.Contender {
	t.Helper()
	h, err := heuristic.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return eval.Contender{Name: name, New: h.New, RandomTies: h.RandomTies}
}

// upstream chooses nodes as kube-scheduler, and devices as its allocator.
func upstream(t rapid.TB) eval.Contender {
	c := contender(t, "kube-scheduler")
	of := c.New
	c.Name, c.New = "first-fit:kube-scheduler", func(s policy.Setting) policy.Policy { return policy.FirstFit(of(s)) }
	return c
}

func machines(each, gpus int, models ...Model) Machines {
	if len(models) == 0 {
		models = Models[:1]
	}
	return Machines{Models: models, Each: each, GPUs: gpus}
}

// env returns an environment in which pods of a mix arrive.
func (m Machines) env(x Mix, all []arrival, of sim.Given) (*sim.Env, error) {
	return sim.New(m.scenario(x, of, func(uint64) []arrival { return all }).Config)
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
	m   Machines
	all []arrival
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
		on := c.all[i].profile.On(p.start)
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
		for _, n := range env.Nodes()[a.model*c.m.Each:][:c.m.Each] {
			if w < before && slices.ContainsFunc(n.Slices, a.profile.Fits) {
				c.Fatalf("%+v is left out, but fits on %08b", a, n.Slices)
			}
		}
	}
}

// Whatever comes and goes, no two partitions overlap, each starts where its profile may, and on a node with its
// model. A pod is left out only if it fits nowhere.
func TestPartitionsDoNotOverlap(t *testing.T) {
	names := append([]string{"gpu-best-fit", "fgd", "gpu-packing", "kube-scheduler", "random"}, rules...)
	rapid.Check(t, func(t *rapid.T) {
		c := checked{TB: t, at: map[int]place{}}
		c.m = machines(rapid.IntRange(1, 3).Draw(t, "machines"), rapid.IntRange(1, 3).Draw(t, "gpus"),
			Models[:rapid.IntRange(1, 2).Draw(t, "models")]...)
		end := 0.0
		for range rapid.IntRange(1, 60).Draw(t, "pods") {
			a := arrival{model: rapid.IntRange(0, len(c.m.Models)-1).Draw(t, "model"),
				profile: rapid.SampledFrom(mig.Profiles()).Draw(t, "profile"), at: end}
			a.life = rapid.Float64Range(0.1, 30).Draw(t, "life")
			c.all = append(c.all, a)
			end += rapid.Float64Range(0, 2).Draw(t, "gap")
		}
		env, err := c.m.env(Mixes[0], c.all, sim.Given{End: end + 10, Leave: true})
		if err != nil {
			t.Fatal(err)
		}
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
			if err == nil && (at.node/c.m.Each != a.model || !slices.Contains(a.profile.Starts(), at.start)) {
				t.Fatalf("%+v is at %+v", a, at)
			}
			c.at[i] = at
			used += float64(a.profile.Compute()) * (min(env.Now()+a.life, end+10) - env.Now())
			return choice, err
		})
		if err != nil {
			t.Fatal(err)
		}
		c.check(env, len(c.all))
		if want := used / (end + 10) / float64(c.m.compute()); math.Abs(got.Partitions.Allocation-want) > 1e-9 {
			t.Fatalf("allocation %v, want %v", got.Partitions.Allocation, want)
		}
	})
}

// An episode goes on in a copy as in its original, which does not see what happens there.
func TestCopyOfPartitions(t *testing.T) {
	m := machines(2, 2, Models...)
	env, err := m.env(Mixes[0], m.steady(Mixes[0], 1, 8, 1), sim.Given{WarmUp: 1, End: 8, Leave: true})
	if err != nil {
		t.Fatal(err)
	}
	var copied sim.Env
	var want sim.Outcome
	for _, at := range []int{-1, 0, 20, 60} {
		decide := eval.Deciding(contender(t, "mig:best-fit").New(policy.Setting{Typical: env.Typical()}), nil)
		step := func(e *sim.Env) {
			c, err := decide(e)
			if err != nil {
				t.Fatal(err)
			}
			e.StepAt(c.Candidate, c.Devices, c.Start)
		}
		if err := env.Reset(1); err != nil {
			t.Fatal(err)
		}
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

// everyPlacement returns the most compute slices that pods can get, by trying everything.
func everyPlacement(pods []mig.Profile, gpus []mig.Slices) (best int) {
	if len(pods) == 0 {
		return 0
	}
	best = everyPlacement(pods[1:], gpus)
	for i, used := range gpus {
		for s := range pods[0].Free(used) {
			gpus[i] = used | pods[0].On(s)
			best = max(best, pods[0].Compute()+everyPlacement(pods[1:], gpus))
		}
		gpus[i] = used
	}
	return best
}

// The optimum is the best of all placements, and the relaxed program's is no less.
func TestOptimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := rapid.SliceOfN(rapid.SampledFrom(mig.Profiles()), 0, 6).Draw(t, "pods")
		gpus := rapid.IntRange(1, 2).Draw(t, "gpus")
		var n [mig.Count]int
		for _, p := range pods {
			n[p]++
		}
		got, err := optimum(n, gpus)
		if err != nil {
			t.Fatal(err)
		}
		if want := everyPlacement(pods, make([]mig.Slices, gpus)); got != want {
			t.Fatalf("%v on %d GPUs: %d, want %d", pods, gpus, got, want)
		}
		relaxed, err := relaxed(n, gpus)
		if err != nil || relaxed < float64(got)-1e-6 || relaxed > float64(gpus*mig.Compute)+1e-6 {
			t.Fatalf("%v on %d GPUs: relaxed %v, optimum %d, %v", pods, gpus, relaxed, got, err)
		}
	})
}

// No policy allocates more than the bounds say, at any load.
func TestNoPolicyExceedsTheBounds(t *testing.T) {
	m := machines(1, 4)
	for _, x := range Mixes {
		for seed := range uint64(3) {
			relaxed, err := m.bound(x, Loads, seed, relaxed)
			if err != nil {
				t.Fatal(err)
			}
			optimum, err := m.bound(x, Loads, seed, func(pods [mig.Count]int, gpus int) (float64, error) {
				n, err := optimum(pods, gpus)
				return float64(n), err
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range rules {
				f, err := m.Fill(t.Context(), x, contender(t, name), Loads, seed)
				if err != nil {
					t.Fatal(err)
				}
				for k := range Loads {
					if f[k].Allocation > optimum[k]+1e-9 || optimum[k] > relaxed[k]+1e-9 {
						t.Errorf("%s, %s at %v: %v, optimum %v, bound %v", x.Name, name, Loads[k], f[k].Allocation, optimum[k], relaxed[k])
					}
				}
			}
		}
	}
}

// Too many placements are an error, not hours of work.
func TestOptimumTooLarge(t *testing.T) {
	pods := [mig.Count]int{0, 5, 5, 5, 5, 5, 5}
	if _, err := optimumWithin(pods, 8, 5); !errors.Is(err, errTooLarge) {
		t.Errorf("with few states: %v", err)
	}
	if n, err := optimum(pods, 8); err != nil || n < 8*mig.Compute-1 {
		t.Errorf("with many: %d, %v", n, err)
	}
}

// Pods that come and go hold what they request as long as nobody waits, and the same seed gives the same outcome.
func TestSteady(t *testing.T) {
	m := machines(4, 8)
	for _, load := range []float64{0.3, 1.5} {
		c := Config{Machines: m, Mixes: Mixes[:1], Contenders: []eval.Contender{contender(t, "mig:value")}, Seeds: []uint64{7},
			Loads: []float64{load}, Steady: true}
		r, err := Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		o := r.Mixes[0].At[0].Results[0].Outcomes[0]
		again, err := Run(t.Context(), c)
		if d := cmp.Diff(o, again.Mixes[0].At[0].Results[0].Outcomes[0]); err != nil || d != "" {
			t.Errorf("again %s, %v", d, err)
		}
		q, left := o.Partitions, unscheduled.Of(o)
		switch {
		case load < 1 && (q.Waiting != 0 || left != 0 || q.Allocation < 0.25 || q.Allocation > 0.35):
			t.Errorf("at 30%%: %+v, left %v", q, left)
		case load > 1 && (q.Waiting < 50 || left < 100 || q.Allocation < 0.93 || q.Allocation > 1):
			t.Errorf("at 150%%: %+v", q)
		}
	}
}

// The learned values, which never saw these mixes, leave no more idle than FGD on any mix, and less on mostly small profiles.
func TestLearnedIsAheadOfFGD(t *testing.T) {
	m := machines(8, 8)
	for _, x := range Mixes {
		var gain float64
		for seed := range uint64(6) {
			for name, sign := range map[string]float64{"mig:value": 1, "mig:fgd": -1} {
				f, err := m.Fill(t.Context(), x, contender(t, name), []float64{1.1}, 100+seed)
				if err != nil {
					t.Fatal(err)
				}
				gain += sign * 100 * f[0].Allocation / 6
			}
		}
		if least := map[string]float64{"skew-small": 1}[x.Name]; gain < least-0.3 {
			t.Errorf("%s: %+.2f points", x.Name, gain)
		}
	}
}

func TestReport(t *testing.T) {
	for name, c := range map[string]Config{
		"fill":   {Machines: machines(1, 4), Loads: []float64{0.9, 1.3}},
		"steady": {Machines: machines(1, 4, Models...), Loads: []float64{0.95}, Steady: true},
	} {
		c.Mixes, c.Seeds = Mixes[:2], []uint64{1, 2, 3}
		c.Contenders = []eval.Contender{upstream(t), contender(t, "mig:fgd"), contender(t, "mig:value")}
		r, err := Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for _, markdown := range []bool{false, true} {
			var b bytes.Buffer
			if err := r.Write(&b, markdown); err != nil {
				t.Fatal(err)
			}
			suffix := map[bool]string{false: ".txt", true: ".md"}[markdown]
			golden.Check(t, name+suffix, b.String())
		}
		var b bytes.Buffer
		if err := r.WriteCSV(&b); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, name+".csv", b.String())
	}
}

func TestRunRefuses(t *testing.T) {
	if _, err := Run(t.Context(), Config{}); err == nil {
		t.Error("nothing to compare: no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := Config{Machines: machines(1, 1), Mixes: Mixes[:1], Contenders: []eval.Contender{contender(t, "mig:fgd")}, Seeds: []uint64{1},
		Loads: Loads}
	if _, err := Run(ctx, c); err == nil {
		t.Error("cancelled: no error")
	}
}
