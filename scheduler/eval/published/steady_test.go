package published

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gnnsched/internal/golden"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
)

// madeSteady returns made-up outcomes. At 95% half as many GPU hours are waited with gnn as with fgd, and only pods of
// eight GPUs wait; at 50% a pod waits for a minute with fgd.
func madeSteady(seeds int) Steady {
	out := Steady{warmUp: 1, days: 2}
	for _, load := range []float64{0.5, 0.95} {
		c := &eval.Comparison{Scenario: eval.Scenario{Name: "default", About: "what is made up"}, Seeds: eval.Seeds(FirstSeed, seeds)}
		for i, name := range []string{"fgd", "gnn"} {
			r := eval.Result{Name: name}
			for k := range c.Seeds {
				o := &sim.SteadyOutcome{Allocation: load - 0.01 + 0.01*float64(i) + 0.001*float64(k*k), Rejected: k}
				o.Classes[class("share")] = sim.Waits{Pods: 100, Mean: 0.5, GPUHours: 1}
				o.GPUHours = 0.1
				if i > 0 || load > 0.9 {
					o.Waiting, o.GPUHours = 10.5, float64(100*(k+2)/(i+1))
					o.Classes[class("8")] = sim.Waits{Pods: 20 + k, Waited: 10, Mean: 120.25, P95: 3600, GPUHours: o.GPUHours, Unfinished: 2}
				}
				r.Outcomes = append(r.Outcomes, sim.Outcome{Steady: o})
			}
			c.Results = append(c.Results, r)
		}
		out.runs = append(out.runs, steadyRun{c, load})
	}
	return out
}

// all returns s with every class in its tables.
func (s Steady) all() Steady {
	s.All = true
	return s
}

// totals returns s without tables of classes.
func (s Steady) totals() Steady {
	s.Totals = true
	return s
}

func TestSteadyGolden(t *testing.T) {
	for name, write := range map[string]func(*bytes.Buffer) error{
		"steady.txt":        func(b *bytes.Buffer) error { return madeSteady(6).Write(b, false) },
		"steady-all.txt":    func(b *bytes.Buffer) error { return madeSteady(6).all().Write(b, false) },
		"steady-once.txt":   func(b *bytes.Buffer) error { return madeSteady(1).Write(b, false) },
		"steady-totals.txt": func(b *bytes.Buffer) error { return madeSteady(6).totals().Write(b, false) },
		"steady.md":         func(b *bytes.Buffer) error { return madeSteady(6).Write(b, true) },
		"steady.csv":        func(b *bytes.Buffer) error { return madeSteady(2).WriteCSV(b) },
		"steady.json": func(b *bytes.Buffer) error {
			e := json.NewEncoder(b)
			e.SetIndent("", "  ")
			return e.Encode(madeSteady(2))
		},
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, name, b.String())
	}
}

// Equal seeds give equal figures, other policies get the same arrivals, and more pods wait with an offered load of twice the GPUs than with
// half.
func TestRunSteady(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		openb.NodesFile: "sn,cpu_milli,memory_mib,gpu,model\na,8000,65536,2,T4\nb,16000,65536,4,P100\n",
		"openb_pod_list_default.csv": "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n" +
			"p0,1000,64,1,400,,0,9000\np1,1000,64,1,1000,T4,10,20000\np2,2000,64,0,0,,20,500\np3,2000,64,2,1000,,30,7000\n",
		"openb_pod_list_timeless.csv": "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1000,64,1,400\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := Config{
		Dir: dir, Workloads: []string{"default", "default+multi4"}, Contenders: contenders(t, "fgd", "random", "random"), Seeds: eval.Seeds(1, 3),
		Loads: []float64{0.5, 2}, WarmUp: 1, Days: 0.5,
	}
	c.Contenders[2].Name, c.Contenders[2].Moves = "moving", func(env *sim.Env) error {
		return env.Every(3600, func() {
			for at := range env.Running {
				if err := env.Move(at); err != nil {
					t.Error(err)
				}
				break
			}
		})
	}
	told := 0
	s, err := RunSteady(context.Background(), c, func(part, parts int, _ string) func(done, total int) {
		return func(done, total int) {
			if told++; told != part*total+done || parts != 4 {
				t.Errorf("%d of %d in part %d of %d", done, total, part, parts)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if told != 36 || len(s.runs) != 4 {
		t.Fatalf("%d episodes, %d runs", told, len(s.runs))
	}
	again, err := RunSteady(context.Background(), c, nil)
	if err != nil || !reflect.DeepEqual(s.runs[1].Results, again.runs[1].Results) {
		t.Errorf("the same seeds gave other figures: %v", err)
	}
	for i, x := range s.runs {
		fgd, random := x.Results[0].Outcomes, x.Results[1].Outcomes
		if names := x.metrics(); x.Results[2].Mean(names[len(names)-2]) == 0 || x.Results[1].Mean(names[len(names)-2]) != 0 {
			t.Errorf("%s at %v: the wrong pods move", x.Scenario.Name, x.load)
		}
		for k := range c.Seeds {
			if fgd[k].Arrived != random[k].Arrived || fgd[k].Steady.Classes[0].Pods != random[k].Steady.Classes[0].Pods {
				t.Errorf("%s, seed %d: %d pods arrive with fgd and %d with random", x.Scenario.Name, c.Seeds[k], fgd[k].Arrived, random[k].Arrived)
			}
			if i%2 == 1 && fgd[k].Steady.Waiting <= s.runs[i-1].Results[0].Outcomes[k].Steady.Waiting {
				t.Errorf("%s: %v pods wait at %v, %v at %v",
					x.Scenario.Name, fgd[k].Steady.Waiting, x.load, s.runs[i-1].Results[0].Outcomes[k].Steady.Waiting, s.runs[i-1].load)
			}
		}
	}
	// A list without times is refused before another one is played.
	c.Workloads = []string{"default", "timeless"}
	_, err = RunSteady(context.Background(), c, func(_, _ int, name string) func(int, int) {
		t.Errorf("%s is played", name)
		return nil
	})
	if err == nil || !strings.Contains(err.Error(),
		"timeless: the pods have no creation_time and deletion_time, so their lifetimes are not known") {
		t.Errorf("got %v", err)
	}
}
