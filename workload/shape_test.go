package workload

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/workload/usage"
)

func TestExampleShapesFile(t *testing.T) {
	data := fatal.Value(os.ReadFile("testdata/shapes.yaml"))(t)
	got := fatal.Value(ReadShapes("shapes.yaml", data))(t)
	want := []Shape{
		{
			Name: "frontend", Weight: 3, Labels: map[string]string{"tier": "web"},
			Requests: cluster.Resources{MilliCPU: 250, Memory: 512 << 20, Pods: 1},
			Limits:   cluster.Resources{Memory: 1 << 30},
		},
		{
			Name: "training", Weight: 1, NodeSelector: map[string]string{"pool": "batch"},
			Requests:    cluster.Resources{MilliCPU: 4000, Memory: 16 << 30, Pods: 1},
			Limits:      cluster.Resources{MilliCPU: 8000, Memory: 16 << 30},
			Tolerations: []cluster.Toleration{{Key: "dedicated", Value: "batch", Effect: cluster.NoSchedule}},
			NodeAffinity: [][]cluster.Requirement{
				{{Key: "cores", Operator: "Gt", Values: []string{"16"}}, {Key: "spot", Operator: "DoesNotExist"}},
				{{Key: "zone", Operator: "In", Values: []string{"a", "b"}}},
			},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// The comment in shapes_default.yaml names the resource that ends a fill on usual nodes.
func TestDefaultShapesFillTheCPUFirst(t *testing.T) {
	var sum cluster.Resources
	var weight float64
	for _, s := range DefaultShapes() {
		sum = sum.Plus(s.Requests.Times(int64(s.Weight)))
		weight += s.Weight
	}
	l := LoadOf(sum, cluster.Resources{MilliCPU: 64_000, Memory: 256 << 30, Pods: 110})
	if l.CPU < l.Pods || l.Pods < l.Memory || l.Pods < 0.9*l.CPU {
		t.Errorf("mean pod asks for %v of a node, want cpu first and pods close behind", l)
	}
	if weight != 12 || len(DefaultShapes()) != 5 {
		t.Errorf("%d shapes of weight %v", len(DefaultShapes()), weight)
	}
}

func TestReadShapesRejects(t *testing.T) {
	const ok = "shapes: [{name: a, requests: {cpu: 1}}]"
	if _, err := ReadShapes("f", []byte("# only a comment\n---\n"+ok)); err != nil {
		t.Fatalf("a leading comment document: %v", err)
	}
	for _, c := range []struct{ name, yaml, want string }{
		{"empty", "", "f: the file is empty"},
		{"no shapes", "shapes: []", "f: shapes: the list is empty"},
		{"not yaml", "shapes: [", "f: "},
		{"a list", "- a", "f: "},
		{"unknown field", "shapes: [{name: a, request: {cpu: 1}}]", `unknown field "shapes[0].request"`},
		{"unknown top field", ok + "\nshape: 1", `unknown field "shape"`},
		{"doubled field", "shapes: [{name: a, name: b}]", `"name" already set`},
		{"two documents", ok + "\n---\n" + ok, "more than one YAML document"},
		{"no name", "shapes: [{requests: {cpu: 1}}]", "f: shapes[0].name: is missing"},
		{"bad name", "shapes: [{name: 'a b'}]", `f: shapes[0].name: "a b"`},
		{"name twice", "shapes: [{name: a}, {name: a}]", `f: shapes[1].name: "a" is also the name of shapes[0]`},
		{"negative weight", "shapes: [{name: a, weight: -1}]", "f: shapes[0].weight: -1 must be 0 or more"},
		{"no weight at all", "shapes: [{name: a, weight: 0}]", "f: shapes: every weight is 0"},
		{"cpu", "shapes: [{name: a, requests: {cpu: much}}]", `f: shapes[0].requests.cpu: "much" is not an amount of CPU`},
		{"cpu type", "shapes: [{name: a, requests: {cpu: [1]}}]", `f: shapes[0].requests.cpu: "[1]" is not an amount of CPU`},
		{"memory", "shapes: [{name: b}, {name: a, limits: {memory: 1GB}}]", `f: shapes[1].limits.memory: "1GB" is not an amount of memory`},
		{"negative", "shapes: [{name: a, requests: {memory: -1Mi}}]", `f: shapes[0].requests.memory: "-1Mi" is negative`},
		{"limit", "shapes: [{name: a, requests: {cpu: 2}, limits: {cpu: 1}}]", "f: shapes[0].limits.cpu: 1 is less than the request of 2"},
		{"memory limit", "shapes: [{name: a, requests: {memory: 2Gi}, limits: {memory: 1Gi}}]", "f: shapes[0].limits.memory: 1Gi is less than"},
		{"label", "shapes: [{name: a, labels: {'x y': z}}]", "f: shapes[0].labels.x y: "},
		{"label value", "shapes: [{name: a, labels: {x: 'y z'}}]", `f: shapes[0].labels.x: "y z"`},
		{"our label", "shapes: [{name: a, labels: {gnnsched.io/run: z}}]", "f: shapes[0].labels.gnnsched.io/run: is set by runsim"},
		{"selector", "shapes: [{name: a, nodeSelector: {x: '*'}}]", `f: shapes[0].nodeSelector.x: "*"`},
		{"affinity operator", "shapes: [{name: a, nodeAffinity: [[{key: k, operator: Like}]]}]",
			`f: shapes[0].nodeAffinity[0][0].operator: "Like"`},
		{"affinity values", "shapes: [{name: a, nodeAffinity: [[{key: k, operator: In}]]}]", "f: shapes[0].nodeAffinity[0][0]: values: "},
		{"affinity number", "shapes: [{name: a, nodeAffinity: [[{key: k, operator: Gt, values: [x]}]]}]",
			"f: shapes[0].nodeAffinity[0][0]: values"},
		{"affinity key", "shapes: [{name: a, nodeAffinity: [[{key: '*', operator: Exists}]]}]", "f: shapes[0].nodeAffinity[0][0]: key: "},
		{"affinity term", "shapes: [{name: a, nodeAffinity: [[]]}]", "f: shapes[0].nodeAffinity[0]: a term without"},
		{"operator", "shapes: [{name: a, tolerations: [{key: k, operator: In}]}]", `f: shapes[0].tolerations[0].operator: "In"`},
		{"effect", "shapes: [{name: a, tolerations: [{key: k, effect: Never}]}]", `f: shapes[0].tolerations[0].effect: "Never"`},
		{"toleration key", "shapes: [{name: a, tolerations: [{value: v}]}]", "f: shapes[0].tolerations[0].key: is required"},
		{"usage", "shapes: [{name: a, usage: {cpu: {day: {low: 2, high: 1}}, memory: x}}]", `f: shapes[0].usage.memory: "x" is not an amount`},
		{"usage bounds", "shapes: [{name: a, usage: {cpu: {day: {low: 2, high: 1}}}}]", "f: shapes[0].usage.cpu.day.low: 2 is more than high, 1"},
		{"usage field", "shapes: [{name: a, usage: {gpu: 1}}]", `f: shapes[0].usage.unknown field "gpu"`},
		{"toleration value", "shapes: [{name: a, tolerations: [{key: k, operator: Exists, value: v}]}]",
			"f: shapes[0].tolerations[0].value: must be empty"},
	} {
		_, err := ReadShapes("f", []byte(c.yaml))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// Every fault of a file is reported, not only the first.
func TestReadShapesReportsAll(t *testing.T) {
	_, err := ReadShapes("f", []byte("shapes: [{name: a, requests: {cpu: x, memory: y}}, {weight: -1}]"))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"shapes[0].requests.cpu", "shapes[0].requests.memory", "shapes[1].weight", "shapes[1].name"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

func FuzzReadShapes(f *testing.F) {
	for _, file := range []string{"testdata/shapes.yaml", "shapes_default.yaml"} {
		data := fatal.Value(os.ReadFile(file))(f)
		f.Add(data)
	}
	f.Add([]byte("shapes: [{name: a, usage: {cpu: {bursts: {high: 2, every: 60, length: 5}}, memory: 1Gi, work: 60}}]"))
	f.Add([]byte("shapes: [{name: a, requests: {cpu: 1e-3, memory: .5}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		shapes, err := ReadShapes("f", data)
		if err != nil {
			return
		}
		for _, s := range shapes {
			if err := s.Validate(); err != nil {
				t.Fatalf("accepted %+v, which is not valid: %v", s, err)
			}
		}
		g := generator()
		g.Shapes = shapes
		if p, err := g.Plan(); err != nil || p.Validate() != nil {
			t.Fatalf("no plan from accepted shapes: %v, %v", err, p.Validate())
		}
	})
}

// A shape is unchanged after writing and reading its JSON, and a generator accepts either shapes
// or requests.
func TestShapeJSON(t *testing.T) {
	s := Shape{
		Name: "a", Weight: 2, Requests: cluster.Resources{MilliCPU: 500, Memory: 1 << 30, GPU: 1, Pods: 1},
		Limits:       cluster.Resources{MilliCPU: 1000},
		Usage:        &usage.Model{Curves: [usage.Dimensions]usage.Curve{usage.CPU: usage.Constant(0.25)}},
		NodeSelector: map[string]string{"pool": "gpu"}, Tolerations: []cluster.Toleration{{Key: "gpu", Exists: true, Effect: cluster.NoSchedule}},
	}
	b := fatal.Value(json.Marshal(s))(t)
	var again Shape
	if err := json.Unmarshal(b, &again); err != nil || !cmp.Equal(s, again) {
		t.Errorf("%s: %v\n%s", b, err, cmp.Diff(s, again))
	}
	g := generator()
	g.Requests = &Requests{
		CPU: Distribution{Kind: LogUniform, Min: 100, Max: 200}, Memory: Distribution{Kind: LogUniform, Min: 1 << 20, Max: 1 << 30},
	}
	if _, err := g.Plan(); err == nil {
		t.Error("shapes and requests are accepted together")
	}
	g.Shapes = nil
	if p, err := g.Plan(); err != nil || p.Validate() != nil {
		t.Errorf("%v, %v", err, p.Validate())
	}
}

// Random requests stay in their range, have the distribution's quantiles and are rounded.
func TestRequestsDraw(t *testing.T) {
	r := Requests{
		CPU:    Distribution{Kind: LogUniform, Min: 100, Max: 6400},
		Memory: Distribution{Kind: LogNormal, Min: 64 << 20, Max: 64 << 30, Median: 2 << 30, Sigma: 1},
	}
	fatal.If(t, r.Validate())
	rng := rand.New(rand.NewPCG(1, 1))
	var cpu, mem []float64
	for range 20_000 {
		s := r.Draw(rng)
		fatal.If(t, s.Validate())
		q := s.Requests
		if q.MilliCPU < 100 || q.MilliCPU > 6400 || q.Memory < 64<<20 || q.Memory > 64<<30 || q.MilliCPU > 1000 && q.MilliCPU%100 != 0 {
			t.Fatalf("%+v", q)
		}
		cpu, mem = append(cpu, float64(q.MilliCPU)), append(mem, math.Log(float64(q.Memory)/(2<<30)))
	}
	slices.Sort(cpu)
	slices.Sort(mem)
	// The median of a loguniform amount is the geometric mean of its ends. 0.8413 of the values of
	// a standard normal distribution are at most 1.
	if m := cpu[10_000]; m < 760 || m > 840 {
		t.Errorf("median of %v thousandths", m)
	}
	if m, up := mem[10_000], mem[16_826]; math.Abs(m) > 0.04 || math.Abs(up-1) > 0.05 {
		t.Errorf("median %v, 84th percentile %v", m, up)
	}
	b := fatal.Value(json.Marshal(r))(t)
	var again Requests
	if err := json.Unmarshal(b, &again); err != nil || again != r {
		t.Errorf("%s became %+v: %v", b, again, err)
	}
}
