package migrun

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/golden"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
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

// Whatever comes and goes, no two partitions overlap, each starts where its profile may, and on a node with its model. A pod is left out only if it fits nowhere.
func TestPartitionsDoNotOverlap(t *testing.T) {
	names := append([]string{"gpu-best-fit", "fgd", "gpu-packing", "kube-scheduler", "random"}, rules...)
	rapid.Check(t, func(t *rapid.T) {
		m := machines(rapid.IntRange(1, 3).Draw(t, "machines"), rapid.IntRange(1, 3).Draw(t, "gpus"), Models[:rapid.IntRange(1, 2).Draw(t, "models")]...)
		c := contender(t, rapid.SampledFrom(names).Draw(t, "policy"))
		p := c.New(policy.Setting{Seed: 1, Typical: m.typical(Mixes[0])})
		if rapid.Bool().Draw(t, "first fit") {
			p = policy.FirstFit(p)
		}
		s := newState(m, p, rand.New(rand.NewPCG(1, 1)))
		type running struct {
			place
			profile mig.Profile
		}
		var now []running
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(now) > 0 && rapid.IntRange(0, 2).Draw(t, "leave") == 0 {
				i := rapid.IntRange(0, len(now)-1).Draw(t, "pod")
				s.remove(now[i].place, now[i].profile)
				now = slices.Delete(now, i, i+1)
			} else {
				a := arrival{model: rapid.IntRange(0, len(m.Models)-1).Draw(t, "model"), profile: rapid.SampledFrom(mig.Profiles()).Draw(t, "profile")}
				at, ok, err := s.place(a)
				if err != nil {
					t.Fatal(err)
				}
				if ok {
					if at.node/m.Each != a.model || !slices.Contains(a.profile.Starts(), at.start) {
						t.Fatalf("%+v is at %+v", a, at)
					}
					now = append(now, running{at, a.profile})
				}
				for i := range m.Each {
					if !ok && slices.ContainsFunc(s.nodes[a.model*m.Each+i].Slices, a.profile.Fits) {
						t.Fatalf("%+v is left out, but fits on %08b", a, s.nodes[a.model*m.Each+i].Slices)
					}
				}
			}
			used := make([][]mig.Slices, len(s.nodes))
			compute := 0
			for i := range used {
				used[i] = make([]mig.Slices, m.GPUs)
			}
			for _, r := range now {
				on := r.profile.On(r.start)
				if used[r.node][r.gpu]&on != 0 {
					t.Fatalf("two partitions overlap: %+v", now)
				}
				used[r.node][r.gpu] |= on
				compute += r.profile.Compute()
			}
			for i, n := range s.nodes {
				if !slices.Equal(n.Slices, used[i]) || slices.Max(n.GPUs) > cluster.DeviceMilli || slices.Min(n.GPUs) < 0 {
					t.Fatalf("node %d has %08b and %v, want %08b", i, n.Slices, n.GPUs, used[i])
				}
			}
			if s.used != compute {
				t.Fatalf("%d compute slices are used, want %d", s.used, compute)
			}
		}
	})
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
		q, err := m.Steady(t.Context(), Mixes[0], contender(t, "mig:value"), load, 7)
		if err != nil {
			t.Fatal(err)
		}
		again, err := m.Steady(t.Context(), Mixes[0], contender(t, "mig:value"), load, 7)
		if err != nil || again != q {
			t.Errorf("%+v, again %+v, %v", q, again, err)
		}
		switch {
		case load < 1 && (q.Waiting != 0 || q.Unscheduled() != 0 || q.Allocation < 0.25 || q.Allocation > 0.35):
			t.Errorf("at 30%%: %+v", q)
		case load > 1 && (q.Waiting < 50 || q.Unscheduled() < 100 || q.Allocation < 0.93 || q.Allocation > 1):
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
	c := Config{Machines: machines(1, 1), Mixes: Mixes[:1], Contenders: []eval.Contender{contender(t, "mig:fgd")}, Seeds: []uint64{1}, Loads: Loads}
	if _, err := Run(ctx, c); err == nil {
		t.Error("cancelled: no error")
	}
}
