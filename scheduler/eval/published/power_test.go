package published

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"gnnsched/internal/golden"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
)

// madePower returns a comparison of made-up outcomes. The network allocates more than FGD with less power, and
// the mix needs the least.
func madePower() Power {
	out := Power{Curve{loads: []float64{0.8, 1.2}}}
	c := &eval.Comparison{Scenario: eval.Scenario{Name: "default", About: "what is made up"}, Seeds: eval.Seeds(FirstSeed, 3)}
	for _, x := range []struct {
		name              string
		watts, allocation float64
	}{{"fgd", 1000, 0.95}, {"pwr+fgd:0.1", 800, 0.90}, {"gpu-gnn", 1100, 0.96}, {"power+gpu-gnn:1", 900, 0.955}} {
		r := eval.Result{Name: x.name}
		for k := range c.Seeds {
			g := &sim.GPUOutcome{}
			for _, load := range out.loads {
				g.Loads = append(g.Loads, sim.GPULoad{
					Load: load, Allocation: min(load, x.allocation+0.001*float64(k)), Watts: x.watts*1000*load + float64(k),
					MeanWatts: x.watts * 500 * load,
				})
			}
			r.Outcomes = append(r.Outcomes, sim.Outcome{GPU: g})
		}
		c.Results = append(c.Results, r)
	}
	out.curves = []curve{{c, []float64{0.8, 0.99}}}
	return out
}

func TestPowerGolden(t *testing.T) {
	for name, write := range map[string]func(*bytes.Buffer) error{
		"power.txt": func(b *bytes.Buffer) error { return madePower().Write(b, false) },
		"power.md":  func(b *bytes.Buffer) error { return madePower().Write(b, true) },
		"power.json": func(b *bytes.Buffer) error {
			e := json.NewEncoder(b)
			e.SetIndent("", "  ")
			return e.Encode(madePower())
		},
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, name, b.String())
	}
}

// The power of an episode is computed by hand: one T4 node, and pods that use its two devices one after the
// other.
func TestRunPower(t *testing.T) {
	dir := t.TempDir()
	writeTrace(t, dir, "sn,cpu_milli,memory_mib,gpu,model\na,48000,65536,2,T4\n",
		"name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np0,1000,64,1,1000,\n")
	c := Config{
		Dir: dir, Workloads: []string{"default"}, Contenders: contenders(t, "fgd", "pwr"), Seeds: eval.Seeds(1, 1), Loads: []float64{0.5, 1, 1.5},
		Factor: 1.5,
	}
	p, err := RunPower(context.Background(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range p.curves[0].Results {
		for k, want := range []struct{ watts, mean float64 }{{165 + 70 + 10, 245}, {165 + 2*70, (245 + 305) / 2}, {305, (245 + 2*305) / 3.}} {
			if l := r.Outcomes[0].GPU.Loads[k]; l.Watts != want.watts || math.Abs(l.MeanWatts-want.mean) > 1e-9 {
				t.Errorf("%s at %v: %v W, mean %v W, want %+v", r.Name, l.Load, l.Watts, l.MeanWatts, want)
			}
		}
	}
	var b bytes.Buffer
	if err := p.Write(&b, false); err != nil || !strings.Contains(b.String(), "default: pods of the openb trace") {
		t.Errorf("%v: %s", err, b.String())
	}
}
