package eval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/internal/golden"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/sim"
)

// tiny returns a scenario that takes milliseconds.
func tiny(t testing.TB) Scenario {
	s, err := Find("mixed")
	fatal.If(t, err)
	s.Name, s.About = "tiny", "mixed on six nodes"
	s.Config.Nodes, s.Config.Turnover = sim.Exactly(6), 1
	return s
}

func fixed(p policy.Policy, ties bool) Contender {
	return Contender{Name: p.Name(), New: func(policy.Setting) policy.Policy { return p }, RandomTies: ties}
}

func contenders() []Contender {
	bestFit, err := heuristic.Find("best-fit")
	if err != nil {
		panic(err)
	}
	return []Contender{
		fixed(heuristic.Kubernetes{}, true), {Name: bestFit.Name, New: bestFit.New},
		{Name: "random", New: func(s policy.Setting) policy.Policy { return heuristic.NewRandom(rand.New(rand.NewPCG(s.Seed, 9))) }},
	}
}

func compare(t testing.TB, s Scenario, seeds []uint64) *Comparison {
	c, err := Compare(t.Context(), s, contenders(), seeds, nil)
	fatal.If(t, err)
	return c
}

// Comparing twice gives the same results, every contender meets the same arrivals, and a contender's
// result does not depend on the other contenders.
func TestCompareIsPairedAndRepeatable(t *testing.T) {
	seeds := Seeds(40, 3)
	a, b := compare(t, tiny(t), seeds), compare(t, tiny(t), seeds)
	if d := cmp.Diff(a.Results, b.Results); d != "" {
		t.Errorf("another run differs:\n%s", d)
	}
	for i := range seeds {
		for _, r := range a.Results {
			if r.Outcomes[i].Arrived != a.Results[0].Outcomes[i].Arrived || r.Outcomes[i].Nodes != 6 {
				t.Errorf("seed %d: %s met other arrivals: %+v", seeds[i], r.Name, r.Outcomes[i])
			}
		}
	}
	alone, err := Compare(t.Context(), tiny(t), contenders()[2:], seeds, nil)
	fatal.If(t, err)
	if d := cmp.Diff(a.Results[2], alone.Results[0]); d != "" {
		t.Errorf("alone it differs:\n%s", d)
	}
	if cmp.Equal(a.Results[0].Outcomes, a.Results[1].Outcomes) {
		t.Error("two policies do the same")
	}
}

func TestCompareStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var calls []int
	_, err := Compare(ctx, tiny(t), contenders(), Seeds(1, 50), func(done, total int) {
		if total != 150 {
			t.Errorf("%d episodes in all, want 150", total)
		}
		if calls = append(calls, done); done == 4 {
			cancel()
		}
	})
	// Episodes under way at the cancellation may still finish.
	if n := len(calls); !errors.Is(err, context.Canceled) || n < 4 || n > 4+runtime.GOMAXPROCS(0) || !slices.IsSorted(calls) ||
		calls[n-1] != n {
		t.Errorf("%v after %v", err, calls)
	}
	if _, err := Compare(t.Context(), tiny(t), nil, Seeds(1, 5), nil); err == nil {
		t.Error("no error without policies")
	}
	broken := tiny(t)
	broken.Config.Shapes = nil
	if _, err := Compare(t.Context(), broken, contenders(), Seeds(1, 5), nil); err == nil || !strings.Contains(err.Error(), "tiny") {
		t.Errorf("broken scenario: %v", err)
	}
}

// failing is a policy whose Score always fails.
type failing struct{ heuristic.Kubernetes }

var errUndecided = errors.New("cannot decide")

func (failing) Score(*cluster.Snapshot, *cluster.Pod, []int32, []float32) error { return errUndecided }

func TestCompareReportsWhoFailed(t *testing.T) {
	_, err := Compare(t.Context(), tiny(t), []Contender{fixed(failing{}, false)}, []uint64{77}, nil)
	if !errors.Is(err, errUndecided) || !strings.Contains(err.Error(), "seed 77") {
		t.Errorf("got %v", err)
	}
}

func TestChoose(t *testing.T) {
	scores := []float32{1, 3, 2, 3, 3}
	if got := choose(scores, nil); got != 1 {
		t.Errorf("without ties: %d, want the first best", got)
	}
	var count [5]int
	rng := rand.New(rand.NewPCG(1, 2))
	const rounds = 9000
	for range rounds {
		count[choose(scores, rng)]++
	}
	for i, n := range count {
		want := 0
		if scores[i] == 3 {
			want = rounds / 3
		}
		if n < want-360 || n > want+360 { // eight standard deviations
			t.Errorf("%d was chosen %d times of %d, want about %d", i, n, rounds, want)
		}
	}
}

// made returns a comparison with known figures.
func made(seeds int) *Comparison {
	c := &Comparison{Scenario: Scenario{Name: "made", About: "figures made up for a test"}, Seeds: Seeds(1, seeds)}
	for k, name := range []string{"base", "other"} {
		r := Result{Name: name}
		for i := range seeds {
			r.Outcomes = append(r.Outcomes, sim.Outcome{
				Cost: 0.2 - 0.1*float64(k), CPUVariance: 0.01, CPUStd: 0.1 - 0.05*float64(k), MemoryStd: 0.2, Imbalance: 0.15 + 0.01*float64(k*i),
				NodesInUse: 10 - k, MeanNodesInUse: 9.5 - float64(k), Nodes: 10,
				Arrived: 100, Placed: 98, Unscheduled: 2 + k*i, Waited: 4, Room: 0.25 + 0.5*float64(k),
			})
		}
		c.Results = append(c.Results, r)
	}
	return c
}

// packed is made with three zones and an objective about room or fragmentation.
func packed(seeds int, goal string) *Comparison {
	c := made(seeds)
	c.Scenario.Objective, _ = objective.Parse(goal) // a wrong goal has no objective and no column
	for k, r := range c.Results {
		for i := range r.Outcomes {
			r.Outcomes[i].ZoneStd = 0.04 * float64(k+i)
			r.Outcomes[i].Fragmentation = 0.125
		}
	}
	return c
}

func TestDifference(t *testing.T) {
	c := made(4)
	for name, want := range map[string]float64{"cpuStd": -0.05, "imbalance": 0.015, "unscheduled": 1.5, "nodesInUse": -1, "memoryStd": 0} {
		if got := c.Difference(c.Results[1], metric(name)); math.Abs(got.Mean-want) > 1e-12 || got.Low > got.Mean || got.High < got.Mean {
			t.Errorf("%s: %+v, want %v", name, got, want)
		}
	}
}

// Differences of rounding error count as zero in Wilcoxon's test.
func TestDifferenceOfRounding(t *testing.T) {
	c := made(8)
	for i := range c.Seeds {
		x := 0.1 + 0.01*float64(i)
		c.Results[0].Outcomes[i].Cost = x
		c.Results[1].Outcomes[i].Cost = math.Nextafter(x, 1)
	}
	if d := c.Difference(c.Results[1], Objective); d.P != 1 {
		t.Errorf("%+v", d)
	}
}

func TestReportsGolden(t *testing.T) {
	for name, write := range map[string]func(*bytes.Buffer) error{
		"table.txt":             func(b *bytes.Buffer) error { return made(4).WriteTable(b) },
		"one-seed.txt":          func(b *bytes.Buffer) error { return made(1).WriteTable(b) },
		"summary.txt":           func(b *bytes.Buffer) error { return made(8).WriteSummary(b) },
		"summary-few.txt":       func(b *bytes.Buffer) error { return made(4).WriteSummary(b) },
		"summary-one-seed.txt":  func(b *bytes.Buffer) error { return made(1).WriteSummary(b) },
		"summary-judged.txt":    func(b *bytes.Buffer) error { return judged(t).WriteSummary(b) },
		"summary-no-others.txt": func(b *bytes.Buffer) error { c := made(8); c.Results = c.Results[:1]; return c.WriteSummary(b) },
		"csv.csv":               func(b *bytes.Buffer) error { return WriteCSV(b, []*Comparison{made(2), made(1)}) },
		"judged.txt":            func(b *bytes.Buffer) error { return judged(t).WriteTable(b) },
		"packed.txt":            func(b *bytes.Buffer) error { return packed(4, "pack").WriteTable(b) },
		"pieces.txt":            func(b *bytes.Buffer) error { return packed(1, "balance=0.5,fragmentation").WriteTable(b) },
		"metrics.md":            func(b *bytes.Buffer) error { return made(4).WriteMetrics(b, []Metric{Objective, Unscheduled}, true) },
		"metrics-one-seed.txt":  func(b *bytes.Buffer) error { return made(1).WriteMetrics(b, []Metric{Objective}, false) },
		"markdown.md":           func(b *bytes.Buffer) error { return made(4).WriteMarkdown(b) },
		"json.json": func(b *bytes.Buffer) error {
			e := json.NewEncoder(b)
			e.SetIndent("", "  ")
			return e.Encode(made(2))
		},
	} {
		var b bytes.Buffer
		fatal.If(t, write(&b))
		golden.Check(t, name, b.String())
	}
}

// The scenario tiny also has the optimum. No policy beats it, and the baseline misses it.
func TestCompareWithOptimum(t *testing.T) {
	s, err := Find("tiny")
	fatal.If(t, err)
	c := compare(t, s, Seeds(1, 10))
	best := c.Results[len(c.Results)-1]
	if best.Name != Optimum || len(c.Results) != len(contenders())+1 {
		t.Fatalf("the last of %d results is of %s", len(c.Results), best.Name)
	}
	for _, r := range c.Results {
		for i, o := range r.Outcomes {
			if b := best.Outcomes[i]; o.Arrived != b.Arrived || o.Unscheduled < b.Unscheduled || o.Unscheduled == b.Unscheduled &&
				o.Cost < b.Cost-1e-12 {
				t.Errorf("seed %d: %s %+v, the optimum is %+v", c.Seeds[i], r.Name, o, b)
			}
		}
	}
	if c.Results[0].Mean(Objective) <= best.Mean(Objective) {
		t.Error("the baseline reaches the optimum: the scenario tells nothing")
	}
}

// judged is made with a threshold that holds and a threshold that does not.
func judged(t testing.TB) *Comparison {
	c := made(2)
	fatal.If(t, c.Judge([]Threshold{threshold(t, "other.cpuStd < 0.75*base.cpuStd"),
		threshold(t, "other.unscheduled <= base.unscheduled")}))
	return c
}

// BenchmarkPlay plays episodes of the mixed scenario on clusters of several sizes and reports
// decisions a second, the simulator's work included, for cheap policies and for networks.
func BenchmarkPlay(b *testing.B) {
	s, err := Find("mixed")
	fatal.If(b, err)
	s.Config.Turnover = 1
	all := contenders()
	for _, e := range []checkpoint.Encoder{checkpoint.GNN, checkpoint.MLP} {
		net, err := infer.New(checkpoint.Random(checkpoint.Architecture{Encoder: e, Head: checkpoint.DQN, Hidden: 32},
			rand.New(rand.NewPCG(1, 2))))
		fatal.If(b, err)
		all = append(all, Contender{Name: string(e), New: func(policy.Setting) policy.Policy { return neural.New(string(e), net, nil) }})
	}
	for _, nodes := range []int{16, 100, 1000} {
		for _, c := range all {
			b.Run(fmt.Sprintf("%s/nodes=%d", c.Name, nodes), func(b *testing.B) {
				s.Config.Nodes = sim.Exactly(nodes)
				env, err := sim.New(s.Config)
				fatal.If(b, err)
				decisions := 0
				for i := 0; b.Loop(); i++ {
					o, err := Play(env, uint64(i), c.New(policy.Setting{Seed: uint64(i)}), nil)
					fatal.If(b, err)
					decisions += o.Placed
				}
				b.ReportMetric(float64(decisions)/b.Elapsed().Seconds(), "decisions/s")
			})
		}
	}
}

// A trace gives each seed another workload, the same for all policies: two names of one policy differ by
// nothing, and two policies by another amount on each seed. Played as recorded it is one sample: no
// interval, no p below 1, and nothing significant.
func TestCompareOnATrace(t *testing.T) {
	var rows strings.Builder
	rng := rand.New(rand.NewPCG(4, 4))
	for i := range 300 {
		fmt.Fprintf(&rows, "%d,%d,%d,%dGi\n", i, 50+rng.IntN(200), 1+rng.IntN(6), 1+rng.IntN(8))
	}
	file := filepath.Join(t.TempDir(), "trace.csv")
	fatal.If(t, os.WriteFile(file, []byte("arrival,lifetime,cpu_request,mem_request\n"+rows.String()), 0o600))
	s := tiny(t)
	s.Config = sim.Config{Nodes: s.Nodes, Sizes: s.Sizes, Objective: s.Objective, Trace: &sim.Trace{File: file}}
	bestFit, err := heuristic.Find("best-fit")
	fatal.If(t, err)
	players := []Contender{
		fixed(heuristic.Kubernetes{}, false), {Name: "same", New: fixed(heuristic.Kubernetes{}, false).New},
		{Name: bestFit.Name, New: bestFit.New},
	}
	c, err := Compare(t.Context(), s, players, Seeds(1, 10), nil)
	fatal.If(t, err)
	same, other := c.Difference(c.Results[1], Objective), c.Difference(c.Results[2], Objective)
	if same.P != 1 || same.Interval != (Interval{}) {
		t.Errorf("a policy and itself: %+v", same)
	}
	if c.Samples() != 10 || other.Low == other.High || other.P == 1 {
		t.Errorf("%d samples, %+v", c.Samples(), other)
	}
	costs := map[float64]bool{}
	for _, o := range c.Results[0].Outcomes {
		costs[o.Cost] = true
	}
	if len(costs) != 10 {
		t.Errorf("%d different outcomes on ten seeds", len(costs))
	}

	s.Config, _ = s.Resampled(false)
	if c, err = Compare(t.Context(), s, players, Seeds(1, 10), nil); err != nil {
		t.Fatal(err)
	}
	var summary, long bytes.Buffer
	fatal.If(t, errors.Join(c.WriteSummary(&summary), c.WriteMarkdown(&long)))
	if d := c.Difference(c.Results[2], Objective); c.Samples() != 1 || d.Mean == 0 || d.Low != d.Mean || d.High != d.Mean || d.P != 1 {
		t.Errorf("as recorded: %d samples, %+v", c.Samples(), d)
	}
	for _, text := range []string{summary.String(), long.String()} {
		if !strings.Contains(text, "one sample") || strings.Contains(text, " to +") || strings.Contains(text, "0.00195") ||
			strings.Contains(text, "better") && strings.Contains(text, "worse") {
			t.Errorf("as recorded:\n%s", text)
		}
	}
}

func TestParseMetrics(t *testing.T) {
	got, err := ParseMetrics("joulesOfWork, unscheduled")
	if err != nil || len(got) != 2 || got[0].Name != "joulesOfWork" || got[1].Name != "unscheduled" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := ParseMetrics("cost,luck"); err == nil || !strings.Contains(err.Error(), `"luck"`) {
		t.Errorf("%v", err)
	}
}
