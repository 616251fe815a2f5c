package trace

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/workload"
	"gnnsched/workload/usage"
)

// amount is a request and a limit; a limit of 0 means none.
type amount struct{ request, limit int64 }

// pods returns a Deployment of n pods.
func pods(name string, n int, cpu, mem amount) workload.Deployment {
	return workload.Deployment{Name: name, Replicas: n, Shape: workload.Shape{
		Requests: cluster.Resources{MilliCPU: cpu.request, Memory: mem.request, Pods: 1},
		Limits:   cluster.Resources{MilliCPU: cpu.limit, Memory: mem.limit},
	}}
}

func TestReadPlanOfExampleFiles(t *testing.T) {
	const mi, gi = 1 << 20, 1 << 30
	for file, want := range map[string][]workload.Step{
		"aaml.csv": {
			{Action: workload.Add, Deployment: pods("copper-hat", 8, amount{1000, 1000}, amount{2 * gi, 2 * gi})},
			{Action: workload.Add, Deployment: pods("sudden-kite", 14, amount{1000, 1000}, amount{2 * gi, 2 * gi})},
			{Action: workload.Add, Deployment: pods("linear-soup", 5, amount{1000, 1000}, amount{2 * gi, 2 * gi})},
		},
		"aaml-deletes.csv": {
			{Action: workload.Add, Deployment: pods("copper-hat", 3, amount{250, 500}, amount{1536 * mi, 2 * gi})},
			{Action: workload.Add, Deployment: pods("sudden-kite", 1, amount{3500, 3500}, amount{256 * mi, 512 * mi})},
			{Action: workload.Delete, Deployment: pods("copper-hat", 3, amount{250, 500}, amount{1536 * mi, 2 * gi})},
			{Action: workload.Add, Deployment: pods("copper-hat", 2, amount{100, 500}, amount{3584 * mi, 4 * gi})},
		},
		"runsim.csv": {
			{Action: workload.Add, Deployment: pods("brave-otter", 5, amount{250, 500}, amount{512 * mi, 1 * gi})},
			{Action: workload.Add, Deployment: pods("calm-heron", 7, amount{2000, 4000}, amount{2 * gi, 4 * gi})},
			{Action: workload.Reset},
			{Action: workload.Add, Deployment: pods("witty-lynx", 6, amount{500, 1000}, amount{4 * gi, 4 * gi})},
		},
	} {
		f, err := os.Open(filepath.Join("testdata", file))
		fatal.If(t, err)
		got, err := ReadPlan(f, file)
		f.Close()
		if err != nil || len(got.Notes) > 0 {
			t.Errorf("%v, notes %q", err, got.Notes)
		}
		if d := cmp.Diff(want, got.Steps); d != "" {
			t.Errorf("%s:\n%s", file, d)
		}
	}
}

func TestReadPlanIsLiberal(t *testing.T) {
	const head = "name,pod_count,cpu_request,cpu_limit,mem_request,mem_limit,action\n"
	one := []workload.Step{{Action: workload.Add, Deployment: pods("a", 2, amount{100, 0}, amount{1 << 27, 0})}}
	for _, c := range []struct{ name, in string }{
		{"canonical", head + "a,2,100m,,128Mi,,add\n"},
		{"no header", "a,2,100m,,128Mi,,add"},
		{"no header, row number", "0,a,2,100m,,128Mi,,add"},
		{"no header, empty words", "a,2,100m,NaN,128Mi,None,add"},
		{"byte order mark, spaces, CRLF", "\xef\xbb\xbf" + strings.ReplaceAll(head, ",", ", ") + "a , 2, 0.1, nan, 134217728, None, ADD\r\n"},
		{"other order, more columns", "action,MEM_REQUEST,Pod Count,name,cpu_request,cpu_limit,mem_limit,node\ncreate,131072Ki,2.0,a,0.1,,,n1\n"},
		{"no action", "name,pod_count,cpu_request,cpu_limit,mem_request,mem_limit\na,2,0.100,,128Mi,\n"},
		{"comments and blank lines", "# made by hand\n" + head + "\n,,,,,,\n# one\na,2,100m,,128Mi,,deploy\n\n"},
		{"nothing is done", head + "x,0,,,,,nothing\na,2,100m,,128Mi,,add\n"},
	} {
		got, err := ReadPlan(strings.NewReader(c.in), "f")
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if d := cmp.Diff(one, got.Steps); d != "" {
			t.Errorf("%s:\n%s", c.name, d)
		}
	}
}

func TestReadPlanNumbersDoubledNames(t *testing.T) {
	got, err := ReadPlan(strings.NewReader("a,1,1,,1Gi,,add\na,2,1,,1Gi,,add\na,2,1,,1Gi,,delete\na,1,1,,1Gi,,delete\n"), "f")
	fatal.If(t, err)
	var names []string
	for _, s := range got.Steps {
		names = append(names, fmt.Sprint(s.Action, " ", s.Deployment.Name))
	}
	if d := cmp.Diff([]string{"add a", "add a-2", "delete a-2", "delete a"}, names); d != "" {
		t.Error(d)
	}
	if len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "a-2") {
		t.Errorf("notes %q", got.Notes)
	}
}

func TestReadPlanRejects(t *testing.T) {
	const head = "name,pod_count,cpu_request,cpu_limit,mem_request,mem_limit,action\n"
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", "f: the file is empty"},
		{"blank", "\n,,\n", "f: the file is empty"},
		{"header only", head, "f: the file has no deployments"},
		{"something else", "pod_name,action,reward\nx,1,0.9\n", "f:1: the first line is neither a header nor a deployment"},
		{"missing column", "name,pod_count,cpu_request,cpu_limit,mem_request,action\n", "f:1: column mem_limit is missing"},
		{"doubled column", strings.Replace(head, "action", "name", 1), "f:1: column name is there twice"},
		{"action", head + "a,2,1,1,1Gi,1Gi,scale\n", `f:2:17: action: "scale" is not an action`},
		{"cpu", head + "a,2,lots,1,1Gi,1Gi,add\n", `f:2:5: cpu_request: "lots" is not an amount of CPU`},
		{"fine cpu", head + "a,2,0.0001,1,1Gi,1Gi,add\n", `f:2:5: cpu_request: "0.0001" is finer`},
		{"huge cpu", head + "a,2,250000,1,1Gi,1Gi,add\n", `f:2:5: cpu_request: "250000" is more than 10000 cores`},
		{"memory", head + "a,2,1,1,2GB,1Gi,add\n", `f:2:9: mem_request: "2GB" is not an amount of memory`},
		{"milli memory", head + "a,2,1,1,512m,1Gi,add\n", `f:2:9: mem_request: "512m" is in thousandths of a byte`},
		{"negative", head + "a,2,1,1,1Gi,-1,add\n", `f:2:13: mem_limit: "-1" is negative`},
		{"limit", head + "\na,2,1,500m,1Gi,1Gi,add\n", "f:3:7: cpu_limit: 500m is less than the request of 1"},
		{"memory limit", head + "a,2,1,1,1Gi,1Mi,add\n", "f:2:13: mem_limit: 1Mi is less than the request of 1Gi"},
		{"no pods", head + "a,0,1,1,1Gi,1Gi,add\n", "f:2:3: pod_count: a deployment needs at least 1 pod"},
		{"pods", head + "a,2.5,1,1,1Gi,1Gi,add\n", `f:2:3: pod_count: "2.5" is not a number of pods`},
		{"name", head + "A_b,2,1,1,1Gi,1Gi,add\n", `f:2:1: name: "A_b" cannot name a Deployment`},
		{"delete", head + "a,2,1,1,1Gi,1Gi,delete\n", `f:2:1: name: "a" is not deployed at this point`},
		{"delete after reset", head + "a,2,1,1,1Gi,1Gi,add\n,,,,,,reset\na,2,1,1,1Gi,1Gi,delete\n", "f:4:1: name: "},
		{"short", head + "a,2,1\n", "f:2: the row has 3 fields, not 7"},
		{"quotes", head + "\"a,2\n", "f:2:"},
	} {
		_, err := ReadPlan(strings.NewReader(c.in), "f")
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// A plan without labels, node selectors, tolerations and GPUs is unchanged after writing and
// reading its CSV.
func TestPlanRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := workload.Generator{
			Seed: rapid.Uint64().Draw(t, "seed"), Shapes: workload.DefaultShapes(), ReplicasMin: 1, ReplicasMax: 10,
			Fills: rapid.IntRange(1, 3).Draw(t, "fills"), Target: workload.Load{CPU: 0.5, Memory: 0.5, Pods: 0.5},
			Capacity: cluster.Resources{MilliCPU: 64_000, Memory: 256 << 30, Pods: 110},
		}.Plan()
		fatal.If(t, err)
		var b bytes.Buffer
		fatal.If(t, WritePlan(&b, p))
		got, err := ReadPlan(&b, "f")
		fatal.If(t, err)
		for i := range p.Steps {
			p.Steps[i].Deployment.Shape.Name, p.Steps[i].Deployment.Shape.Weight = "", 0
		}
		if d := cmp.Diff(p, got.Plan); d != "" {
			t.Fatal(d)
		}
	})
}

func TestLost(t *testing.T) {
	p := workload.Plan{Steps: []workload.Step{
		{Action: workload.Add, Deployment: workload.Deployment{Name: "a", Shape: workload.Shape{Name: "plain"}}},
		{Action: workload.Add, Deployment: workload.Deployment{Name: "b",
			Shape: workload.Shape{Name: "picky", NodeSelector: map[string]string{"a": "b"}}}},
		{Action: workload.Add, Deployment: workload.Deployment{Name: "c",
			Shape: workload.Shape{Name: "picky", NodeSelector: map[string]string{"a": "b"}}}},
	}}
	want := []string{"picky"}
	for name, s := range map[string]workload.Shape{
		"labels": {Labels: map[string]string{"a": "b"}}, "tolerations": {Tolerations: []cluster.Toleration{{Key: "a"}}},
		"gpus": {Requests: cluster.Resources{GPU: 1}}, "shares": {Requests: cluster.Resources{GPUMilli: 1}}, "models": {GPUModels: []string{"T4"}},
		"usage": {Usage: &usage.Model{}},
	} {
		s.Name = name
		p.Steps, want = append(p.Steps, workload.Step{Deployment: workload.Deployment{Shape: s}}), append(want, name)
	}
	if d := cmp.Diff(want, Lost(p)); d != "" {
		t.Error(d)
	}
}

func FuzzReadPlan(f *testing.F) {
	for _, file := range []string{"aaml.csv", "aaml-deletes.csv", "runsim.csv"} {
		data, err := os.ReadFile(filepath.Join("testdata", file))
		fatal.If(f, err)
		f.Add(data)
	}
	f.Add([]byte("a,1,1,,1Gi,,add\na,2,1,,1.1Gi,,add\na,2,1,,1Gi,,delete\n,,,,,,reset"))
	f.Add([]byte("a,1,nan\n\"x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ReadPlan(bytes.NewReader(data), "f")
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Fatalf("error without the file's name: %v", err)
			}
			return
		}
		if err := p.Validate(); err != nil {
			t.Fatalf("accepted a plan that is not valid: %v", err)
		}
		var b bytes.Buffer
		fatal.If(t, WritePlan(&b, p.Plan))
		again, err := ReadPlan(&b, "f")
		if err != nil || !cmp.Equal(p.Plan, again.Plan) {
			t.Fatalf("not the same after a round trip: %v\n%s", err, cmp.Diff(p.Plan, again.Plan))
		}
	})
}
