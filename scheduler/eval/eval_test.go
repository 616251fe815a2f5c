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
	"time"

	"github.com/google/go-cmp/cmp"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/record"
)

// tiny returns a scenario that takes milliseconds.
func tiny(t testing.TB) Scenario {
	s := fatal.Value(Find("mixed"))(t)
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
	return fatal.Value(Compare(t.Context(), s, contenders(), seeds, nil))(t)
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
	alone := fatal.Value(Compare(t.Context(), tiny(t), contenders()[2:], seeds, nil))(t)
	if d := cmp.Diff(a.Results[2], alone.Results[0]); d != "" {
		t.Errorf("alone it differs:\n%s", d)
	}
	if cmp.Equal(a.Results[0].Outcomes, a.Results[1].Outcomes) {
		t.Error("two policies do the same")
	}
}

func TestCompareStops(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that the first seed ends first
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var calls []int
	r, err := Compare(ctx, tiny(t), contenders(), Seeds(1, 50), func(done, total int) {
		if total != 150 {
			t.Errorf("%d episodes in all, want 150", total)
		}
		if calls = append(calls, done); done == 4 {
			cancel()
		}
	})
	// Episodes under way at the cancellation may still finish.
	if n := len(calls); !errors.Is(err, context.Canceled) || n < 4 || n > 5 || !slices.IsSorted(calls) || calls[n-1] != n {
		t.Errorf("%v after %v", err, calls)
	}
	whole := fatal.Value(Compare(t.Context(), tiny(t), contenders(), Seeds(1, 1), nil))(t)
	if d := cmp.Diff(whole.Results, r.Results); d != "" || len(r.Seeds) != 1 {
		t.Errorf("seeds %v are left, with other outcomes:\n%s", r.Seeds, d)
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
				Cost: 0.2 - 0.1*float64(k), MeanCost: 0.3 + 0.15*float64(k), CPUVariance: 0.01, CPUStd: 0.1 - 0.05*float64(k), MemoryStd: 0.2, Imbalance: 0.15 + 0.01*float64(k*i),
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
		fatal.Golden(t, name, b.String())
	}
}

// The scenario tiny also has the optimum. No policy beats it, and the baseline misses it.
func TestCompareWithOptimum(t *testing.T) {
	s := fatal.Value(Find("tiny"))(t)
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
// decisions a second, the simulator's work included, for cheap policies, for networks and for rule.
func BenchmarkPlay(b *testing.B) {
	s, err := Find("mixed")
	fatal.If(b, err)
	s.Config.Turnover = 1
	all := contenders()
	for _, e := range []checkpoint.Encoder{checkpoint.GNN, checkpoint.MLP} {
		net := fatal.Value(infer.New(checkpoint.Random(checkpoint.Architecture{Encoder: e, Head: checkpoint.DQN, Hidden: 32},
			rand.New(rand.NewPCG(1, 2)))))(b)
		all = append(all, Contender{Name: string(e), New: func(policy.Setting) policy.Policy { return neural.New(string(e), net, nil) }})
	}
	all = append(all, Contender{Name: "rule", New: func(policy.Setting) policy.Policy { return linear.Rule() }})
	for _, nodes := range []int{16, 100, 1000} {
		for _, c := range all {
			b.Run(fmt.Sprintf("%s/nodes=%d", c.Name, nodes), func(b *testing.B) {
				s.Config.Nodes = sim.Exactly(nodes)
				env := fatal.Value(sim.New(s.Config))(b)
				decisions := 0
				for i := 0; b.Loop(); i++ {
					o := fatal.Value(Play(env, uint64(i), c.New(policy.Setting{Seed: uint64(i)}), nil))(b)
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
	bestFit := fatal.Value(heuristic.Find("best-fit"))(t)
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

// The hash follows what is played and nothing else.
func TestHash(t *testing.T) {
	hash := func(text string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "s.yaml")
		fatal.If(t, os.WriteFile(filepath.Join(filepath.Dir(file), "t.csv"), []byte(traceText), 0o600))
		s := fatal.Value(Read(file, []byte(text)))(t)
		h, err := s[0].Hash()
		if err != nil || len(h) != 16 {
			t.Fatalf("%q, %v", h, err)
		}
		return h
	}
	source := fatal.Value(Source("tiny"))(t)
	text := string(source)
	plain := hash(text)
	if hash(strings.Replace(text, "name: tiny", "name: other", 1)) != plain {
		t.Error("the name changes the hash")
	}
	if hash(text+"\nwaitCost: 0.5\n") == plain {
		t.Error("the cost of waiting does not change the hash")
	}
	energy, err := Find("tiny")
	fatal.If(t, err)
	if energy.Objective, err = objective.Parse("energy"); err != nil {
		t.Fatal(err)
	}
	if h, err := energy.Hash(); err != nil || h == plain {
		t.Errorf("%s, %v", h, err)
	}
	const traced = "name: x\nnodes: 3\nsizes: [{weight: 1, allocatable: {cpu: 8, memory: 32Gi, pods: 110}}]\ntrace: {file: " +
		"t.csv}\nobjective: balance\n"
	first := hash(traced) // in another folder each time
	if hash(traced) != first {
		t.Error("the folder changes the hash")
	}
	traceText += "9,9,500,1\n"
	if hash(traced) == first {
		t.Error("the trace does not change the hash")
	}
}

var traceText = "arrival,lifetime,cpu_milli,memory_mib\n1,9,500,1\n2,9,500,1\n"

func TestMerge(t *testing.T) {
	of := func(name, hash string, seed uint64, policies ...string) *Comparison {
		c := &Comparison{Scenario: Scenario{Name: name}, Seeds: []uint64{seed}, hash: hash}
		for _, p := range policies {
			c.Results = append(c.Results, Result{Name: p, Outcomes: []sim.Outcome{{Cost: float64(len(p))}}})
		}
		return c
	}
	got, err := Merge([]*Comparison{of("a", "1", 1, "x", "y"), of("a", "1", 1, "x", "zz"), of("a", "1", 2, "x"), of("b", "2", 1, "x"),
		of("a", "", 1, "old")})
	if err != nil || len(got) != 4 || len(got[0].Results) != 3 || got[0].Results[2].Name != "zz" {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := Merge([]*Comparison{of("a", "1", 1, "x"), of("a", "2", 1, "x")}); err == nil ||
		!strings.Contains(err.Error(), "two different files") {
		t.Error(err)
	}
	other := of("a", "1", 1, "x")
	other.Results[0].Outcomes[0].Cost = 7
	if _, err := Merge([]*Comparison{of("a", "1", 1, "x"), other}); err == nil || !strings.Contains(err.Error(), "different outcomes of x") {
		t.Error(err)
	}
}

// The leaderboard's results are of the scenarios of today. Who changes one of them plays docs/results/leaderboard again.
func TestLeaderboard(t *testing.T) {
	files := fatal.Value(filepath.Glob("../../docs/results/leaderboard/*.json"))(t)
	played := map[string]bool{}
	for _, f := range files {
		text := fatal.Value(os.ReadFile(f))(t)
		var old struct{ Rows []jsonComparison } // written by a command that is gone
		if json.Unmarshal(text, &old) != nil {
			fatal.If(t, json.Unmarshal(text, &old.Rows))
		}
		for _, r := range old.Rows {
			if played[r.Scenario] = true; r.Scenario == "openb" { // the user's files
				continue
			}
			s := fatal.Value(Find(r.Scenario))(t)
			if hash, err := s.Hash(); err != nil || hash != r.Hash || len(r.Seeds) == 0 || r.Seeds[0] != 30_001 && r.Seeds[0] != 40_001 {
				t.Errorf("%s: %s was played from another file (%s, not %s), %v, or with other seeds", f, r.Scenario, r.Hash, hash, err)
			}
		}
	}
	if len(played) != 7 {
		t.Errorf("the set is %v", played)
	}
}

const recordBegin = 1_700_000_000_000

// days writes a record of a cluster with two nodes. A pod that never ends came a month before. On each day, a pod of 100 milli-CPU comes
// at 6:00, one of 1,000 plus the day at 18:00, and each runs for an hour. Some days may be without pods.
func days(t *testing.T, number int, without ...int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "prod.record")
	w := fatal.Value(record.Create(dir, record.Options{}))(t)
	for i := range 2 {
		w.Node(record.Node{Name: fmt.Sprint("n", i), From: recordBegin, MilliCPU: 8000, Memory: 32 << 30, Pods: 110})
	}
	pod := func(name string, cpu, at, end int64) {
		p := record.Pod{UID: name, Namespace: "shop", Name: name, MilliCPU: cpu, Memory: 1 << 20, Arrived: at, Bound: at, Ended: end, Node: "n0"}
		if end > 0 {
			p.End = record.Succeeded
		}
		w.Pod(p)
	}
	const hour = 3600_000
	pod("old", 5000, recordBegin-30*24*hour, 0)
	for d := range int64(number) {
		if slices.Contains(without, int(d)) {
			continue
		}
		day := recordBegin + d*24*hour
		pod(fmt.Sprint("morning-", d), 100, day+6*hour, day+7*hour)
		pod(fmt.Sprint("evening-", d), 1000+d, day+18*hour, day+19*hour)
	}
	w.Run(record.Run{ID: "1", Source: "live", From: recordBegin, To: recordBegin + int64(number)*24*hour})
	fatal.Value(w.Close())(t)
	return dir
}

// Whole days are drawn, those to judge on are later ones, and the pod that ran before is in every episode.
func TestOfRecord(t *testing.T) {
	r := fatal.Value(OfRecord(days(t, 11), objective.Mix{{Term: objective.Balance{}, Weight: 1}}, ThreeParts))(t)
	if r.Block != (24*time.Hour).Seconds() || r.learnBlocks != 7 || r.chooseBlocks != 2 || r.judgeBlocks != 2 {
		t.Errorf("%+v", r)
	}
	seen := map[string]map[int64]bool{"record": {}, "record-choosing": {}, "record-later": {}}
	for _, s := range []Scenario{r.Learn, *r.Choose, r.Judge} {
		for seed := range uint64(30) {
			e := fatal.Value(sim.New(s.Config))(t)
			if e.FixedWorkload() {
				t.Errorf("%s: every seed has the same pods", s.Name)
			}
			fatal.If(t, e.Reset(seed))
			if len(e.Snapshot().Nodes) != 2 {
				t.Fatalf("%d nodes", len(e.Snapshot().Nodes))
			}
			for i := 0; !e.Done(); i++ {
				cpu := e.Pending().Requests.MilliCPU
				if (cpu == 5000) != (i == 0) {
					t.Errorf("%s, seed %d: pod %d requests %d", s.Name, seed, i, cpu)
				}
				if (cpu == 100) != (i%2 == 1) && i > 0 {
					t.Errorf("%s, seed %d: pod %d requests %d; the mornings come before the evenings", s.Name, seed, i, cpu)
				}
				if cpu >= 1000 && cpu < 5000 {
					seen[s.Name][cpu-1000] = true
				}
				e.Step(0)
			}
		}
	}
	for day := range int64(11) {
		if seen["record"][day] != (day < 7) || seen["record-choosing"][day] != (day == 7 || day == 8) || seen["record-later"][day] != (day > 8) {
			t.Errorf("day %d: %v", day, seen)
		}
	}
	if got := r.String(); !strings.HasSuffix(got,
		"episodes are drawn from 7 blocks of 24h0m0s; the next 2 blocks are for choosing, 2 later blocks are for judging") {
		t.Error(got)
	}
}

// A record that is too short for three parts has two, with a note if three were requested. With two parts, learning takes all but the last.
func TestPartsOfRecord(t *testing.T) {
	for name, c := range map[string]struct {
		days         int
		without      []int // days on which no pod arrives
		parts        Parts
		learn, judge int
		choose       int
		note         string
	}{
		"two of eleven days": {days: 11, parts: TwoParts, learn: 9, judge: 2},
		"six days":           {days: 6, parts: ThreeParts, learn: 4, choose: 1, judge: 1},
		"five days": {days: 5, parts: ThreeParts, learn: 4, judge: 1,
			note: "5 blocks are too few to divide into three parts: the same blocks choose the best network and judge it, which flatters it"},
		"five days, two parts": {days: 5, parts: TwoParts, learn: 4, judge: 1},
		"nothing to choose on": {days: 7, without: []int{5}, parts: ThreeParts, learn: 6, judge: 1,
			note: "no pod arrives in one of three parts: the same blocks"},
	} {
		t.Run(name, func(t *testing.T) {
			r := fatal.Value(OfRecord(days(t, c.days, c.without...), objective.Mix{{Term: objective.Balance{}, Weight: 1}}, c.parts))(t)
			if r.learnBlocks != c.learn || r.chooseBlocks != c.choose || r.judgeBlocks != c.judge || (r.Choose != nil) != (c.choose > 0) {
				t.Errorf("%d, %d and %d blocks, want %d, %d, %d", r.learnBlocks, r.chooseBlocks, r.judgeBlocks, c.learn, c.choose, c.judge)
			}
			if got := r.String(); !strings.Contains(got, c.note) || strings.Contains(got, "flatters") != (c.note != "") {
				t.Errorf("%s\nlacks %q, or says too much", got, c.note)
			}
		})
	}
}

func TestOfRecordRefuses(t *testing.T) {
	for name, dir := range map[string]string{"is not the folder of a record": t.TempDir(), "some minutes": days(t, 0)} {
		if _, err := OfRecord(dir, nil, ThreeParts); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
