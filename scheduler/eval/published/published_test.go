package published

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/golden"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
	"gnnsched/workload/trace/openb/openbtest"
)

func contenders(t testing.TB, names ...string) (out []eval.Contender) {
	t.Helper()
	for _, n := range names {
		h, err := heuristic.Find(n)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, eval.Contender{Name: h.Name, New: h.New, RandomTies: h.RandomTies})
	}
	return out
}

// Every policy with published figures exists, and has a figure on every workload.
func TestFigures(t *testing.T) {
	contenders(t, Policies...)
	for _, w := range []string{"default", "cpu100", "gpushare40", "gpuspec10", "multigpu20"} {
		for _, p := range Policies {
			f, known := find(w, p)
			if !known || f.Mean130 < f.Mean100 || f.Mean100 < 80 || f.Mean130 > 100 || f.SD130 <= 0 || f.SD130 > 1 {
				t.Errorf("%s on %s: %+v", p, w, f)
			}
		}
	}
	if len(table()) != 30 {
		t.Errorf("%d figures", len(table()))
	}
	if _, known := find("default", "gnn"); known {
		t.Error("gnn has no published figure, and find returned one")
	}
	f, _ := find("default", "fgd")
	if f.Mean130 != 95.391 || f.tolerance() != 0.3 || !f.reproduces(95.1) || f.reproduces(95.7) {
		t.Errorf("fgd: %+v", f)
	}
	if f, _ := find("default", "gpu-packing"); math.Abs(f.tolerance()-1.09) > 1e-9 {
		t.Errorf("packing: %+v", f)
	}
}

// made returns a report of made-up outcomes.
func made(factor float64) Report {
	c := &eval.Comparison{Scenario: eval.Scenario{Name: "default", About: "what is made up"}, Seeds: eval.Seeds(FirstSeed, 3)}
	for i, name := range []string{"fgd", "gnn", "random"} {
		r := eval.Result{Name: name}
		for k := range c.Seeds {
			x := 0.954 + 0.01*float64(i%2) - 0.05*float64(i/2) + 0.001*float64(k)
			r.Outcomes = append(r.Outcomes, sim.Outcome{Arrived: 100, Placed: 80 + i, Unscheduled: 20 - i, GPU: &sim.GPUOutcome{
				Allocation: x, AllocationAtFull: x - 0.002, Stranded: 0.01 * float64(i), UnscheduledCPU: i, UnscheduledShare: 5,
				UnscheduledWhole: 15 - 2*i,
			}})
		}
		c.Results = append(c.Results, r)
	}
	return Report{factor: factor, comparisons: []*eval.Comparison{c}, bounds: [][]float64{{0.97, 0.98, 0.975}}}
}

func TestReportsGolden(t *testing.T) {
	for name, write := range map[string]func(*bytes.Buffer) error{
		"table.txt":    func(b *bytes.Buffer) error { return made(Factor).Write(b, false) },
		"markdown.md":  func(b *bytes.Buffer) error { return made(Factor).Write(b, true) },
		"other.txt":    func(b *bytes.Buffer) error { return made(1.1).Write(b, false) },
		"outcomes.csv": func(b *bytes.Buffer) error { return made(Factor).WriteCSV(b) },
		"report.json": func(b *bytes.Buffer) error {
			e := json.NewEncoder(b)
			e.SetIndent("", "  ")
			return e.Encode(made(Factor))
		},
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, name, b.String())
	}
}

// Missed tells of published figures only, not of other policies or factors.
func TestMissed(t *testing.T) {
	missed := made(Factor).Missed()
	if len(missed) != 1 || !strings.Contains(missed[0], "random on default: 90.50, published 87.47") {
		t.Errorf("%q", missed)
	}
	if missed := made(1.1).Missed(); len(missed) > 0 {
		t.Errorf("%q", missed)
	}
}

func TestRunRefuses(t *testing.T) {
	dir := t.TempDir()
	c := Config{Dir: dir, Workloads: []string{"none"}, Contenders: contenders(t, "fgd"), Seeds: []uint64{1}, Factor: Factor}
	check := func(want string) {
		t.Helper()
		if _, err := Run(context.Background(), c, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check("holds no " + openb.NodesFile)
	put(openb.NodesFile, "sn,cpu_milli,memory_mib,gpu,model\na,8000,65536,2,T4\n")
	check("holds no openb_pod_list_*.csv")
	put("openb_pod_list_few.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1000,64,1,400\n")
	check(dir + `: no pod list is called "none"; there are few`)
	c.Workloads, c.Factor = []string{"few"}, 0
	check("the factor must be over 0")
	c.Factor = 1
	var told []int
	r, err := Run(context.Background(), c, func(_, _ int, _ string) func(int, int) {
		return func(done, _ int) { told = append(told, done) }
	})
	// A share of 400 fits four times on two devices, 80%; five ask for all there is.
	if err != nil || r.comparisons[0].Results[0].Outcomes[0].GPU.Allocation != 0.8 || len(told) != 1 {
		t.Errorf("%+v, %v, told %v", r, err, told)
	}
}

// Six policies reproduce the published figures on the default workload with ten seeds.
func TestReproduces(t *testing.T) {
	c := Config{
		Dir: openbtest.Dir(t), Workloads: []string{"default"}, Contenders: contenders(t, Policies...), Seeds: eval.Seeds(FirstSeed, Seeds),
		Factor: Factor,
	}
	if testing.Short() {
		t.Skip("sixty episodes")
	}
	r, err := Run(context.Background(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if missed := r.Missed(); len(missed) > 0 {
		t.Errorf("%s", strings.Join(missed, "\n"))
	}
}

// The shipped network beats FGD on arrivals of a seed outside the published ones.
func TestShippedNetworkBeatsFGD(t *testing.T) {
	if testing.Short() {
		t.Skip("plays whole episodes")
	}
	dir := openbtest.Dir(t)
	r, err := Run(context.Background(), Config{
		Dir: dir, Workloads: []string{"default"}, Contenders: append(contenders(t, "fgd"), shipped(t)), Seeds: eval.Seeds(7001, 1),
		Factor: Factor,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := r.comparisons[0]
	if gain := c.Difference(c.Results[1], allocation).Mean; gain < 0.5 {
		t.Errorf("%+.2f points against FGD", gain)
	}
}

func shipped(t testing.TB) eval.Contender {
	t.Helper()
	c, err := checkpoint.Shipped("gpu-gnn")
	if err != nil {
		t.Fatal(err)
	}
	net, err := infer.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return eval.Contender{Name: "gpu-gnn", New: func(s policy.Setting) policy.Policy { return neural.New("gpu-gnn", net, s.Typical) }}
}

// BenchmarkEpisode plays one episode of the default workload: 1,213 nodes, about 10,800 pods.
func BenchmarkEpisode(b *testing.B) {
	dir := openbtest.Dir(b)
	for _, x := range append(contenders(b, Policies...), shipped(b)) {
		b.Run(x.Name, func(b *testing.B) {
			s := scenario("default", "arrive", sim.OpenB{
				NodesFile: filepath.Join(dir, openb.NodesFile), PodsFile: filepath.Join(dir, "openb_pod_list_default.csv"), Factor: Factor,
			})
			env, err := sim.New(s.Config)
			if err != nil {
				b.Fatal(err)
			}
			pods := 0
			for seed := uint64(FirstSeed); b.Loop(); seed++ {
				o, err := eval.Play(env, seed, x.New(policy.Setting{Seed: seed, Typical: env.Typical()}), x.Ties(seed))
				if err != nil {
					b.Fatal(err)
				}
				pods += o.Arrived
			}
			b.ReportMetric(float64(pods)/b.Elapsed().Seconds(), "pods/s")
		})
	}
}
