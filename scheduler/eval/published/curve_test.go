package published

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/golden"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
	"gnnsched/workload/trace/openb/openbtest"
)

// madeCurve returns a curve of made-up outcomes: gnn is ahead of fgd at 100 % and loses pods of eight GPUs before.
func madeCurve() Curve {
	out := Curve{loads: []float64{0.9, 0.95, 1, 1.3}}
	c := &eval.Comparison{Scenario: eval.Scenario{Name: "default", About: "what is made up"}, Seeds: eval.Seeds(FirstSeed, 3)}
	for i, name := range []string{"fgd", "gpu-best-fit", "gnn"} {
		r := eval.Result{Name: name}
		for k := range c.Seeds {
			g := &sim.GPUOutcome{}
			for n, load := range out.loads {
				l := sim.GPULoad{Load: load, Allocation: min(load, 0.95) + 0.001*float64(k)}
				switch {
				case name == "gpu-best-fit" && load >= 0.95:
					l.Allocation -= 0.02
				case name == "gnn" && load < 1:
					l.Allocation -= 0.01 * float64(n+1)
					l.Left[class("8")] = n + 1
				case name == "gnn":
					l.Allocation += 0.01 + 0.001*float64(n)
				}
				if load >= 1 {
					l.Left[class("share")], l.Left[class("1")] = 100*n+i, 50*n+k
				}
				g.Loads = append(g.Loads, l)
			}
			r.Outcomes = append(r.Outcomes, sim.Outcome{GPU: g})
		}
		c.Results = append(c.Results, r)
	}
	out.curves = []curve{{c, []float64{0.9, 0.95, 0.98, 0.99}}}
	return out
}

// class returns the index of a class of pods.
func class(name string) int { return slices.Index(sim.ClassNames[:], name) }

func TestCurveGolden(t *testing.T) {
	for name, write := range map[string]func(*bytes.Buffer) error{
		"curve.txt": func(b *bytes.Buffer) error { return madeCurve().Write(b, false) },
		"curve.md":  func(b *bytes.Buffer) error { return madeCurve().Write(b, true) },
		"curve.csv": func(b *bytes.Buffer) error { return madeCurve().WriteCSV(b) },
		"curve.json": func(b *bytes.Buffer) error {
			e := json.NewEncoder(b)
			e.SetIndent("", "  ")
			return e.Encode(madeCurve())
		},
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, name, b.String())
	}
}

// Without FGD or any published policy, the verdicts have less to say.
func TestVerdictsAlone(t *testing.T) {
	c := madeCurve()
	c.curves[0].Results = c.curves[0].Results[2:]
	var b bytes.Buffer
	if err := c.Write(&b, false); err != nil || strings.Contains(b.String(), "Difference from") {
		t.Errorf("%v: %s", err, b.String())
	}
}

// writeTrace writes a list of nodes and the list of pods "default".
func writeTrace(t *testing.T, dir, nodes, pods string) {
	t.Helper()
	for name, text := range map[string]string{openb.NodesFile: nodes, "openb_pod_list_default.csv": pods} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A curve repeats what single runs tell, and its bound is never exceeded.
func TestRunCurve(t *testing.T) {
	dir := t.TempDir()
	writeTrace(t, dir, "sn,cpu_milli,memory_mib,gpu,model\na,8000,65536,2,T4\nb,16000,65536,4,P100\nc,4000,65536,1,T4\n",
		"name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np0,1000,64,1,400,\np1,1000,64,1,1000,T4\np2,2000,64,0,0,\np3,2000,64,2,1000,\n")
	c := Config{
		Dir: dir, Workloads: []string{"default", "default+multi4"}, Contenders: contenders(t, "fgd", "random"), Seeds: eval.Seeds(1, 3),
		Loads: []float64{0.5, 1, 2}, Factor: 2,
	}
	curve, err := RunCurve(context.Background(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, load := range c.Loads {
		one := c
		one.Loads, one.Factor = nil, load
		r, err := Run(context.Background(), one, nil)
		if err != nil {
			t.Fatal(err)
		}
		for w, x := range curve.curves {
			for i := range x.Results {
				for seed, o := range x.Results[i].Outcomes {
					if got, want := o.GPU.Loads[k].Allocation, r.comparisons[w].Results[i].Outcomes[seed].GPU.Allocation; got != want {
						t.Errorf("%s at %v: %v, alone %v", x.Scenario.Name, load, got, want)
					}
				}
			}
		}
	}
}

func TestVariants(t *testing.T) {
	dir := openbtest.Dir(t)
	machines, err := openb.LoadNodes(filepath.Join(dir, openb.NodesFile))
	if err != nil {
		t.Fatal(err)
	}
	podsOf := func(workload string) (pods []openb.Pod, err error) {
		nodes, pods, err := read(dir, workload, machines)
		tainted := slices.ContainsFunc(nodes, func(n openb.Node) bool { return len(n.Taints) > 0 })
		if _, v, _ := split(workload); err == nil && tainted != (v != nil && v.taints.Pools > 0) {
			t.Errorf("%s: some nodes are tainted: %v", workload, tainted)
		}
		return pods, err
	}
	base, err := podsOf("default")
	if err != nil {
		t.Fatal(err)
	}
	kinds := func(pods []openb.Pod) (named, share, several, without float64) {
		for _, p := range pods {
			switch {
			case p.GPUs == 0:
				without++
			case p.GPUs > 1:
				several++
			case p.GPUMilli < cluster.DeviceMilli:
				share++
			}
			if len(p.Models) > 0 {
				named++
			}
		}
		return named, share, several, without
	}
	_, _, several, without := kinds(base)
	for _, v := range variants {
		a, err := podsOf("default+" + v.name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := podsOf("default+" + v.name)
		if err != nil || !slices.EqualFunc(a, b, func(x, y openb.Pod) bool {
			return x.Shape().Requests == y.Shape().Requests && slices.Equal(x.Models, y.Models)
		}) {
			t.Errorf("%s is not the same twice, %v", v.name, err)
		}
		gotNamed, gotShare, gotSeveral, gotWithout := kinds(a)
		if n := gotNamed / float64(len(a)); n < v.mix.Named-0.02 || n > v.mix.Named+0.02 {
			t.Errorf("%s: %v of the pods name models", v.name, n)
		}
		if v.mix.Multiple > 1 && gotSeveral != v.mix.Multiple*several || v.mix.WithoutGPU > 1 && gotWithout != v.mix.WithoutGPU*without {
			t.Errorf("%s: %v pods with several devices, %v without", v.name, gotSeveral, gotWithout)
		}
		if v.mix.Sharing == 1 && gotShare != float64(len(a))-gotWithout {
			t.Errorf("%s: %v of %d pods share", v.name, gotShare, len(a))
		}
	}
	if _, err := podsOf("default+none"); err == nil || !strings.Contains(err.Error(), "there are models20") {
		t.Errorf("%v", err)
	}
}

// With a third of the cluster empty the shipped network places what every heuristic places, and at 130 % it is
// ahead of FGD. Without its reserve it left out nine pods of eight devices at 70 %.
func TestShippedNetworkAtEveryLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("plays whole episodes")
	}
	c, err := RunCurve(context.Background(), Config{
		Dir: openbtest.Dir(t), Workloads: []string{"default", "default+models40"}, Contenders: append(contenders(t, "fgd"), shipped(t)),
		Seeds: eval.Seeds(7001, 1), Loads: Loads, Factor: slices.Max(Loads),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range c.curves {
		fgd, net := x.Results[0].Outcomes[0].GPU.Loads, x.Results[1].Outcomes[0].GPU.Loads
		for k, l := range net {
			least := 0.0
			if l.Load >= 1 {
				least = 0.004
			}
			if l.Allocation < fgd[k].Allocation+least-0.001 {
				t.Errorf("%s at %v: %v, with FGD %v", x.Scenario.Name, l.Load, l.Allocation, fgd[k].Allocation)
			}
			for class := range l.Left {
				if l.Load <= crowded && l.Left[class] > fgd[k].Left[class] {
					t.Errorf("%s at %v: %d pods of class %s are left out, with FGD %d",
						x.Scenario.Name, l.Load, l.Left[class], sim.ClassNames[class], fgd[k].Left[class])
				}
			}
		}
	}
}
