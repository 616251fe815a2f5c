package eval

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
)

// No mark contradicts the interval in its row, for any values: better and worse have an interval on one side of 0 and a p below 0.05, and
// "no" has neither. Too few seeds mark nothing.
func TestMarksNeverContradictIntervals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seeds, policies := rapid.IntRange(1, 14).Draw(t, "seeds"), rapid.IntRange(1, 4).Draw(t, "policies")
		value := rapid.OneOf(rapid.Map(rapid.IntRange(-3, 3), func(i int) float64 { return float64(i) }), rapid.Float64Range(-1, 1))
		var list []Difference
		var all []*Difference
		for range policies {
			shift := rapid.Float64Range(-1, 1).Draw(t, "shift")
			ours, theirs := rapid.SliceOfN(value, seeds, seeds).Draw(t, "ours"), make([]float64, seeds)
			for i := range ours {
				ours[i] += shift
			}
			list = append(list, paired(ours, theirs))
		}
		for i := range list {
			all = append(all, &list[i])
		}
		together(all...)
		for _, d := range list {
			apart, likely := d.Low > 0 || d.High < 0, d.Adjusted < level
			var want Mark
			switch {
			case seeds < MinSeeds(policies):
				want = Unmarked
			case apart && likely && d.Mean < 0:
				want = Lower
			case apart && likely:
				want = Higher
			case apart || likely:
				want = Unclear
			default:
				want = None
			}
			if d.Mark != want {
				t.Fatalf("%+v is marked %q, want %q", d, d.Mark, want)
			}
			if likely && seeds < MinSeeds(policies) {
				t.Fatalf("%+v: p %v on %d seeds, where no p can be so low", d, d.Adjusted, seeds)
			}
		}
	})
}

func TestMinSeeds(t *testing.T) {
	for comparisons, want := range map[int]int{0: 6, 1: 6, 2: 7, 3: 7, 4: 8, 13: 10, 28: 11} {
		if got := MinSeeds(comparisons); got != want {
			t.Errorf("%d comparisons: %d seeds, want %d", comparisons, got, want)
		}
	}
}

// The rule names the actual and the required number of seeds.
func TestRule(t *testing.T) {
	for _, c := range []struct {
		samples, comparisons int
		want                 string
	}{
		{5, 1, "Nothing is marked: a mark takes at least 6 seeds; you have 5."},
		{5, 13, "Nothing is marked: a mark takes at least 6 seeds; you have 5. Marks among 13 comparisons take 10."},
		{7, 13, "Nothing is marked: marks among 13 comparisons take at least 10 seeds; you have 7."},
		{10, 13, "Better and worse mark a difference whose 95% interval excludes 0 and whose p is below 0.05 (Wilcoxon's signed-rank test, " +
			"adjusted by Holm for 13 comparisons); unclear marks one with only one of the two."},
	} {
		if got := strings.ReplaceAll(Words.Rule(c.samples, c.comparisons), "\n", " "); got != c.want {
			t.Errorf("%d seeds, %d comparisons: %q, want %q", c.samples, c.comparisons, got, c.want)
		}
	}
}

func TestWilcoxon(t *testing.T) {
	for _, c := range []struct {
		name        string
		differences []float64
		want        float64
	}{
		{"nothing", nil, 1},
		{"no difference", []float64{0, 0, 0}, 1},
		// The depression scores of Hollander & Wolfe (1973), p. 29; p from R's wilcox.test(paired = TRUE).
		{"depression", []float64{1.83 - 0.878, 0.50 - 0.647, 1.62 - 0.598, 2.48 - 2.05, 1.68 - 1.06, 1.88 - 1.29, 1.55 - 1.06, 3.06 - 3.14,
			1.30 - 1.29}, 0.0390625},
		// Darwin's fifteen pairs of Zea mays, as in SciPy's documentation of scipy.stats.wilcoxon.
		{"maize", []float64{6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75}, 0.041259765625},
		{"ten of one sign", []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 2.0 / 1024},
		{"even", []float64{1, -2, -3, 4}, 1},
		{"ties", []float64{1, 1, 2, 3}, 2.0 / 16},
		{"five equal ones", []float64{1, 1, 1, 1, 1}, 2.0 / 32}, // the normal approximation would give 0.037
		// Ranks 1.5 1.5 3; one 1.5 is negative: 4 of the 8 signs have a sum of 1.5 or less, or of 4.5 or more.
		{"a tie of two signs", []float64{-1, 1, 2}, 6.0 / 8},
		{"a zero leaves three", []float64{0, 1, 2, 3}, 2.0 / 8},
		// By hand: fifty equal ones have ranks 25.5: W = 1275, mean 637.5, variance 10731.25 - 124950/48.
		{"fifty", slices.Repeat([]float64{1}, 50), math.Erfc(637 / math.Sqrt(10731.25-124950.0/48) / math.Sqrt2)},
	} {
		if got := Wilcoxon(c.differences); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// For few differences, also with zeros and ties, p equals the fraction of sign patterns that are at least as one-sided.
func TestExactWilcoxonAgainstEnumeration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SliceOfN(rapid.Map(rapid.IntRange(-6, 6), func(i int) float64 { return float64(i) }), 1, 9).Draw(t, "differences")
		ranks, sum, _ := signedRanks(d)
		most := each.Sum(ranks, func(r int) int { return r })
		far := 0
		for signs := range 1 << len(ranks) {
			s := 0
			for i, r := range ranks {
				if signs>>i&1 == 1 {
					s += r
				}
			}
			if max(s, most-s) >= max(sum, most-sum) {
				far++
			}
		}
		if got, want := Wilcoxon(d), float64(far)/math.Exp2(float64(len(ranks))); math.Abs(got-want) > 1e-12 {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

// p is a probability that does not change with the order, the scale or the common sign.
func TestWilcoxonProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SliceOfN(rapid.Map(rapid.IntRange(-30, 30), func(i int) float64 { return float64(i) }), 1, 70).Draw(t, "differences")
		p := Wilcoxon(d)
		if !(p > 0 && p <= 1) {
			t.Fatalf("p = %v", p)
		}
		other := slices.Clone(d)
		slices.Reverse(other)
		for i := range other {
			other[i] *= -4
		}
		if q := Wilcoxon(other); math.Abs(p-q) > 1e-9 {
			t.Fatalf("p = %v, reversed, negated and scaled %v", p, q)
		}
	})
}

// The interval contains the true mean in about 95% of the cases, for few values and for many, and for any distribution. Only very skewed
// values (a lognormal with a skewness of 6) need more than ten.
func TestMeanIntervalCovers(t *testing.T) {
	lognormal := func(sigma float64) func(*rand.Rand) float64 {
		return func(r *rand.Rand) float64 { return math.Exp(sigma * r.NormFloat64()) }
	}
	for _, c := range []struct {
		name  string
		draw  func(*rand.Rand) float64
		mean  float64
		least map[int]float64 // of the share of intervals that contain the mean, by the number of values
	}{
		{"normal", (*rand.Rand).NormFloat64, 0, map[int]float64{4: 0.93, 10: 0.94, 100: 0.94}},
		{"uniform", (*rand.Rand).Float64, 0.5, map[int]float64{4: 0.93, 10: 0.94, 100: 0.94}},
		{"exponential", (*rand.Rand).ExpFloat64, 1, map[int]float64{4: 0.90, 10: 0.925, 100: 0.94}},
		{"lognormal with skewness 0.8", lognormal(0.25), math.Exp(0.25 * 0.25 / 2), map[int]float64{4: 0.93, 10: 0.94, 100: 0.94}},
		{"lognormal with skewness 1.8", lognormal(0.5), math.Exp(0.5 * 0.5 / 2), map[int]float64{4: 0.92, 10: 0.93, 100: 0.94}},
		{"lognormal with skewness 6.2", lognormal(1), math.Exp(0.5), map[int]float64{10: 0.89, 100: 0.925}},
		{"difference of two exponentials", func(r *rand.Rand) float64 { return r.ExpFloat64() - r.ExpFloat64() }, 0,
			map[int]float64{4: 0.93, 10: 0.93, 100: 0.935}},
	} {
		for n, least := range c.least {
			r := rand.New(rand.NewPCG(95, uint64(n)))
			values := make([]float64, n)
			const trials = 5000
			hits := 0
			for range trials {
				for i := range values {
					values[i] = c.draw(r)
				}
				if v := meanInterval(values); v.Low <= c.mean && c.mean <= v.High {
					hits++
				}
			}
			share := float64(hits) / trials
			t.Logf("%s, %d values: %.3f", c.name, n, share)
			if share < least || share > 0.985 {
				t.Errorf("%s: %.3f of the intervals of %d values contain the mean, want %.3f to 0.985", c.name, share, n, least)
			}
		}
	}
}

// Without skewness the interval is Student's: for the values 1 to 5, 3 ± 2.776·√0.5.
func TestMeanIntervalOfSymmetricValues(t *testing.T) {
	got := meanInterval([]float64{1, 2, 3, 4, 5})
	const half = 1.963243 // 2.776445 · 0.707107
	if got.Mean != 3 || math.Abs(got.Low-3+half) > 1e-5 || math.Abs(got.High-3-half) > 1e-5 {
		t.Errorf("%+v, want 3 ± %v", got, half)
	}
	for _, equal := range [][]float64{{2}, {2, 2, 2}} {
		if got := meanInterval(equal); got != (Interval{2, 2, 2}) {
			t.Errorf("%v: %+v", equal, got)
		}
	}
}

// unskewed inverts Hall's transformation.
func TestUnskewed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Float64Range(2, 1000).Draw(t, "n")
		g := rapid.Float64Range(-3, 3).Draw(t, "skewness")
		q := rapid.Float64Range(-13, 13).Draw(t, "quantile")
		x := unskewed(q, g, n)
		root := math.Sqrt(n)
		if back := x + g*x*x/(3*root) + g*g*x*x*x/(27*n) + g/(6*root); math.Abs(back-q) > 1e-4*(1+x*x) {
			t.Fatalf("%v gives %v, and that %v", q, x, back)
		}
	})
}

// The interval contains the mean, and it shifts, scales and turns with the values.
func TestMeanIntervalProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-100, 100), 1, 12).Draw(t, "values")
		v := meanInterval(values)
		const tiny = 1e-9
		if v.Low > v.Mean+tiny || v.High < v.Mean-tiny {
			t.Fatalf("%+v of %v", v, values)
		}
		if slices.Max(values)-slices.Min(values) < 1e-3 {
			return // equal except for rounding
		}
		moved := slices.Clone(values)
		for i := range moved {
			moved[i] = -2*moved[i] + 7
		}
		size := 1e-6 * (1 + v.High - v.Low)
		if w := meanInterval(moved); math.Abs(w.Low+2*v.High-7) > size || math.Abs(w.High+2*v.Low-7) > size {
			t.Fatalf("%+v, times -2 and moved by 7: %+v", v, w)
		}
	})
}

func TestHolm(t *testing.T) {
	// R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")
	got, want := holm([]float64{0.01, 0.04, 0.03, 0.005}), []float64{0.03, 0.06, 0.06, 0.02}
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-15 {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOf(rapid.Float64Range(0, 1)).Draw(t, "p")
		for i, x := range holm(p) {
			if x < p[i] || x > min(float64(len(p))*p[i], 1)+1e-12 {
				t.Fatalf("%v became %v of %v", p[i], x, p)
			}
			for k, y := range holm(p) {
				if p[i] < p[k] && x > y {
					t.Fatalf("the order of %v and %v changed", p[i], p[k])
				}
			}
		}
	})
}

// With 20 policies that differ by chance alone, one or more are called significant in 5% of the
// comparisons at most. Without the correction it would be about 64%.
func TestDifferencesByChance(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const trials, policies, seeds = 400, 20, 12
	wrong, uncorrected := 0, 0
	for range trials {
		c := made(seeds)
		c.Results = c.Results[:0]
		for range policies + 1 {
			x := Result{}
			for range seeds {
				o := made(1).Results[0].Outcomes[0]
				o.Cost = r.NormFloat64()
				x.Outcomes = append(x.Outcomes, o)
			}
			c.Results = append(c.Results, x)
		}
		found, raw := 0, 0
		for _, d := range c.Differences([]Metric{Objective})[0] {
			if d.Mark == Lower || d.Mark == Higher {
				found++
			}
			if d.P < level {
				raw++
			}
		}
		wrong += min(found, 1)
		uncorrected += min(raw, 1)
	}
	if wrong > trials*8/100 || uncorrected < trials*3/10 {
		t.Errorf("of %d comparisons, %d have a significant difference, %d without the correction", trials, wrong, uncorrected)
	}
}

func env(t rapid.TB, c sim.Config) *sim.Env {
	return fatal.Value(sim.New(c))(t)
}

func size(weight float64, cpu, gi int64) sim.NodeSize {
	return sim.NodeSize{Weight: weight, Allocatable: cluster.Resources{MilliCPU: 1000 * cpu, Memory: gi << 30, Pods: 110}}
}

func shape(name string, cpu, gi int64) workload.Shape {
	return workload.Shape{Name: name, Weight: 1, Requests: cluster.Resources{MilliCPU: 1000 * cpu, Memory: gi << 30, Pods: 1}}
}

func fewNodes(o objective.Term) sim.Config {
	return sim.Config{
		Nodes: sim.Exactly(3), Sizes: []sim.NodeSize{size(1, 4, 8), size(1, 6, 6)},
		Shapes:   []workload.Shape{shape("a", 1, 1), shape("b", 2, 1), shape("c", 1, 3)},
		Replicas: sim.IntRange{Min: 1, Max: 2}, Load: sim.FloatRange{Min: 0.7, Max: 0.7},
		Objective: objective.Mix{{Term: o, Weight: 1}},
	}
}

// No policy has fewer pods unscheduled, or as few at a lower cost.
func TestNoPolicyBeatsTheOptimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := fewNodes(rapid.SampledFrom([]objective.Term{objective.Balance{}, objective.Pack{}}).Draw(t, "objective"))
		c.Nodes = sim.Exactly(rapid.IntRange(1, 3).Draw(t, "nodes"))
		load := rapid.Float64Range(0.2, 1.1).Draw(t, "load")
		c.Load = sim.FloatRange{Min: load, Max: load}
		c.ControlPlane = rapid.Bool().Draw(t, "control plane")
		seed := rapid.Uint64Range(0, 1000).Draw(t, "seed")
		e := env(t, c)
		best := fatal.Value(bestOutcome(e, seed))(t)
		for _, h := range heuristic.List() {
			if h.GPU {
				continue
			}
			o := fatal.Value(Play(e, seed, h.New(policy.Setting{Seed: seed}), rand.New(rand.NewPCG(seed, 1))))(t)
			if o.Arrived != best.Arrived || o.Unscheduled < best.Unscheduled || o.Unscheduled == best.Unscheduled && o.Cost < best.Cost-1e-12 {
				t.Fatalf("%s: %+v, the optimum is %+v", h.Name, o, best)
			}
		}
	})
}

// The optimum equals the best of all placements, tried one by one.
func TestOptimumAgainstEveryPlacement(t *testing.T) {
	for seed := range uint64(20) {
		c := fewNodes(objective.Balance{})
		c.Nodes, c.Load = sim.Exactly(2), sim.FloatRange{Min: 0.6, Max: 1}
		e := env(t, c)
		got := fatal.Value(bestOutcome(e, seed))(t)
		nodes, plan := e.Snapshot().Nodes, e.Plan()
		out, cost := len(plan), math.Inf(1)
		var place func(i, left int)
		place = func(i, left int) {
			if i == len(plan) {
				if now := c.Objective.Cost(nodes); left < out || left == out && now < cost {
					out, cost = left, now
				}
				return
			}
			for _, n := range nodes {
				if n.Fit(plan[i].Pod) == cluster.Fits {
					n.Add(plan[i].Pod.Requests)
					place(i+1, left)
					n.Remove(plan[i].Pod.Requests, 0)
				}
			}
			if left < out {
				place(i+1, left+1)
			}
		}
		place(0, 0)
		if got.Unscheduled != out || math.Abs(got.Cost-cost) > 1e-12 || got.Placed+got.Unscheduled != got.Arrived {
			t.Errorf("seed %d: %+v, want %d unscheduled at %v", seed, got, out, cost)
		}
	}
}

func TestOptimumRefuses(t *testing.T) {
	leaving := fewNodes(objective.Balance{})
	leaving.Turnover = 1
	if _, err := bestOutcome(env(t, leaving), 1); err == nil || !strings.Contains(err.Error(), "leave") {
		t.Errorf("pods leave: %v", err)
	}
	large := fewNodes(objective.Balance{})
	large.Nodes = sim.Exactly(40)
	if _, err := bestOutcome(env(t, large), 1); !errors.Is(err, errTooLarge) {
		t.Errorf("forty nodes: %v", err)
	}
}

func TestParseThreshold(t *testing.T) {
	for text, want := range map[string]string{
		"gnn.cpuStd<=0.75*kube-scheduler.cpuStd":                 "gnn.cpuStd <= 0.75*kube-scheduler.cpuStd",
		" a.unscheduled < b.unscheduled+0.5 ":                    "a.unscheduled < b.unscheduled + 0.5",
		"aaml: gnn.cpuVariance < 4e-4":                           "aaml: gnn.cpuVariance < 0.0004",
		"hetero*:1*a.cost + -2 * v1.2.cost>3":                    "hetero*: a.cost + -2*v1.2.cost > 3",
		"kube-scheduler.nodesInUse>=best-fit.nodesInUse + 1e300": "kube-scheduler.nodesInUse >= best-fit.nodesInUse + 1e300",
		`"greedy:pack".cost<gnn.cost`:                            `"greedy:pack".cost < gnn.cost`,
		`zon*: a.cost >= 2 * "greedy:pack=0.5+zones".zoneStd+1`:  `zon*: a.cost >= 2*"greedy:pack=0.5+zones".zoneStd + 1`,
		`"gnn".cost<"my <net> *2".cost`:                          `gnn.cost < "my <net> *2".cost`,
	} {
		got, err := ParseThreshold(text)
		if err != nil || got.String() != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for text, say := range map[string]string{
		"":                                 "write <, <=, > or >= between",
		"a.cpuStd = b.cpuStd":              "write <, <=, > or >= between",
		"a.cpuStd <":                       `"" is neither`,
		"a.cpuStd < b":                     `"b" is neither`,
		"a.cpuSdt < 1":                     `no metric is called "cpuSdt" (did you mean cpuStd?); there are cost, meanCost, cpuStd`,
		"x*a.cpuStd < 1":                   `"x" is not a number before a *`,
		"a.cpuStd < 1e999":                 `"1e999" is neither`,
		"a.cpuStd < NaN":                   `"NaN" is neither`,
		"a.cpuStd < b.cpuStd < 1":          "neither",
		": a.cpuStd < 1":                   "the colon has no scenario before it",
		"[: a.cpuStd < 1":                  "not a pattern",
		"a.cost < greedy:pack.cost":        `double quotes, as in "greedy:pack".cost`,
		"x: a.cost < greedy:pack=0.5.cost": `double quotes, as in "greedy:pack".cost`,
		`"a.cost < 1`:                      "not closed",
		`"".cost < 1`:                      "neither",
		`"a".cost" < 1"`:                   "write <, <=, > or >= between",
		`"a"b.cost < 1`:                    "neither",
		`a"b".cost < 1`:                    "neither",
		`"a.cost" < 1`:                     "neither",
	} {
		if _, err := ParseThreshold(text); err == nil || !strings.Contains(err.Error(), say) || !strings.Contains(err.Error(), "threshold") {
			t.Errorf("%q: %v, want %q", text, err, say)
		}
	}
}

// The String of a threshold parses again, to the same threshold.
func FuzzParseThreshold(f *testing.F) {
	for _, s := range []string{"gnn.cpuStd<=0.75*kube-scheduler.cpuStd", "aaml: a.cost + 2 < 1e300", "a.b.cost>-3*b.waited+1", "x:<", "*<*",
		`"greedy:pack=0.5+zones".cost<2*"a b".cost`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseThreshold(text)
		if err != nil {
			return
		}
		b, err := ParseThreshold(a.String())
		if err != nil || b.String() != a.String() {
			t.Fatalf("%q became %q, which became %q, %v", text, a, b, err)
		}
	})
}

func threshold(t testing.TB, text string) Threshold {
	return fatal.Value(ParseThreshold(text))(t)
}

func TestJudge(t *testing.T) {
	c := made(4) // cpuStd 0.1 and 0.05, unscheduled 2 and 3.5
	c.Scenario.Thresholds = []Threshold{threshold(t, "other.unscheduled <= base.unscheduled")}
	given := []Threshold{
		threshold(t, "other.cpuStd<=0.5*base.cpuStd"), threshold(t, "moon: other.cpuStd > 7"),
		threshold(t, "ma*: base.cpuStd + 2*other.cpuStd + 1 < 1.2"),
	}
	fatal.If(t, c.Judge(given))
	got := each.Map(c.Verdicts, Verdict.String)
	want := `PASS other.cpuStd <= 0.5*base.cpuStd (0.05 and 0.05, p 1)
FAIL ma*: base.cpuStd + 2*other.cpuStd + 1 < 1.2 (1.2 and 1.2, p 1)
FAIL other.unscheduled <= base.unscheduled (3.5 and 2, p 0.75)`
	if strings.Join(got, "\n") != want || math.Abs(c.Verdicts[1].Left-1.2) > 1e-12 {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	if err := c.Judge([]Threshold{threshold(t, "gnn.cpuStd < 1")}); err == nil || !strings.Contains(err.Error(), "base, other") {
		t.Errorf("a policy that is not in the comparison: %v", err)
	}
}
