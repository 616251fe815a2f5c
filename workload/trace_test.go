package workload

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/internal/cluster"
)

const exampleTrace = `# two pods and a deployment, not in order
arrival,lifetime,cpu_request,mem_request,gpu_request,name,pod_count,user
1000.5,,250m,512Mi,,,,ann
990,3600,4,16Gi,1,train,,bob
1000.5,60,1,2Gi,0,web,3,ann
`

func TestReadTrace(t *testing.T) {
	pod := func(milliCPU, mem, gpu int64) Shape {
		return Shape{Requests: cluster.Resources{MilliCPU: milliCPU, Memory: mem << 20, GPU: gpu, Pods: 1}}
	}
	got, err := ReadTrace(strings.NewReader(exampleTrace), "f")
	if err != nil {
		t.Fatal(err)
	}
	want := Trace{
		{At: 0, Lifetime: 3600, Deployment: Deployment{Name: "train", Replicas: 1, Shape: pod(4000, 16<<10, 1)}},
		{At: 10.5, Lifetime: math.Inf(1), Deployment: Deployment{Name: "pod-0", Replicas: 1, Shape: pod(250, 512, 0)}},
		{At: 10.5, Lifetime: 60, Deployment: Deployment{Name: "web", Replicas: 3, Shape: pod(1000, 2<<10, 0)}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got.Pods() != 5 {
		t.Errorf("%d pods", got.Pods())
	}
	for _, c := range []struct{ text, want string }{
		{"", "f: the file is empty"},
		{"arrival,cpu_request\n1,1\n", "column mem_request is missing"},
		{"arrival,arrival,cpu_request,mem_request\n", "column arrival is there twice"},
		{"arrival,cpu_request,mem_request\n", "f: it holds no pod"},
		{"arrival,cpu_request,mem_request\nsoon,1,1Gi\n", `f:2:1: arrival: "soon" is no time in seconds`},
		{"arrival,cpu_request,mem_request\n1,1,1Gi\n1,1,1GB\n", `f:3:5: mem_request: "1GB"`},
		{"arrival,lifetime,cpu_request,mem_request\n1,-2,1,1Gi\n", "f:2:3: lifetime: -2 is negative"},
		{"arrival,name,cpu_request,mem_request\n1,No Name,1,1Gi\n", "f:2:3: name: "},
		{"arrival,cpu_request,mem_request,gpu_request\n1,1,1Gi,half\n", `f:2:9: gpu_request: "half"`},
		{"arrival,cpu_request,mem_request\n1,1\n", "f:2: it has 2 fields where 3 are due"},
	} {
		if _, err := ReadTrace(strings.NewReader(c.text), "f"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q in it", c.text, err, c.want)
		}
	}
}

// A recorded run is a trace, a step a unit of time: pods live until they are deleted or reset.
func TestReadTraceOfPlan(t *testing.T) {
	got, err := ReadTrace(strings.NewReader(`name,pod_count,cpu_request,cpu_limit,mem_request,mem_limit,action
a,2,100m,,128Mi,,add
b,1,100m,,128Mi,,add
a,2,100m,,128Mi,,delete
c,1,100m,,128Mi,,add
,,,,,,reset
d,1,100m,,128Mi,,add
`), "f")
	if err != nil {
		t.Fatal(err)
	}
	var at, lifetimes []float64
	for _, a := range got {
		at, lifetimes = append(at, a.At), append(lifetimes, a.Lifetime)
	}
	if !slices.Equal(at, []float64{0, 1, 3, 5}) || !slices.Equal(lifetimes, []float64{2, 3, 1, math.Inf(1)}) || got.Pods() != 5 {
		t.Errorf("%v for %v", at, lifetimes)
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add(exampleTrace)
	f.Add("arrival,cpu_request,mem_request\n-1e9,1e-3,.5\n1e300,1,1\n")
	f.Add("name,pod_count,cpu_request,cpu_limit,mem_request,mem_limit,action\na,2,100m,,128Mi,,add\n")
	f.Fuzz(func(t *testing.T, text string) {
		trace, err := ReadTrace(strings.NewReader(text), "f")
		if err != nil {
			return
		}
		last := 0.0
		for _, a := range trace {
			if !(a.At >= last) || !(a.Lifetime > 0) {
				t.Fatalf("from %q: %+v after %v", text, a, last)
			}
			last = a.At
			if err := a.Deployment.validate(); err != nil {
				t.Fatalf("from %q: %v", text, err)
			}
		}
	})
}

// What pods ask for stays in its range, is spread over it, and looks as people write it.
func TestRequestsDraw(t *testing.T) {
	r := Requests{
		CPU:    Distribution{Kind: LogUniform, Min: 100, Max: 6400},
		Memory: Distribution{Kind: LogNormal, Min: 64 << 20, Max: 64 << 30, Median: 2 << 30, Sigma: 1},
	}
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	var cpu, mem []float64
	for range 20_000 {
		s := r.Draw(rng)
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		q := s.Requests
		if q.MilliCPU < 100 || q.MilliCPU > 6400 || q.Memory < 64<<20 || q.Memory > 64<<30 || q.MilliCPU > 1000 && q.MilliCPU%100 != 0 {
			t.Fatalf("%+v", q)
		}
		cpu, mem = append(cpu, float64(q.MilliCPU)), append(mem, math.Log(float64(q.Memory)/(2<<30)))
	}
	slices.Sort(cpu)
	slices.Sort(mem)
	// A loguniform amount has its median at the geometric mean of its ends; a standard normal
	// one has 0.8413 of its values up to 1.
	if m := cpu[10_000]; m < 760 || m > 840 {
		t.Errorf("median of %v thousandths", m)
	}
	if m, up := mem[10_000], mem[16_826]; math.Abs(m) > 0.04 || math.Abs(up-1) > 0.05 {
		t.Errorf("median %v, 84th percentile %v", m, up)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var again Requests
	if err := json.Unmarshal(b, &again); err != nil || again != r {
		t.Errorf("%s became %+v: %v", b, again, err)
	}
}

// A shape survives the way through JSON, and a plan may draw what its pods ask for.
func TestShapeJSON(t *testing.T) {
	s := Shape{
		Name: "a", Weight: 2, Requests: cluster.Resources{MilliCPU: 500, Memory: 1 << 30, GPU: 1, Pods: 1}, Limits: cluster.Resources{MilliCPU: 1000},
		NodeSelector: map[string]string{"pool": "gpu"}, Tolerations: []cluster.Toleration{{Key: "gpu", Exists: true, Effect: cluster.NoSchedule}},
	}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var again Shape
	if err := json.Unmarshal(b, &again); err != nil || !cmp.Equal(s, again) {
		t.Errorf("%s: %v\n%s", b, err, cmp.Diff(s, again))
	}
	g := generator()
	g.Requests = &Requests{CPU: Distribution{Kind: LogUniform, Min: 100, Max: 200}, Memory: Distribution{Kind: LogUniform, Min: 1 << 20, Max: 1 << 30}}
	if _, err := g.Plan(); err == nil {
		t.Error("shapes and requests are accepted together")
	}
	g.Shapes = nil
	if p, err := g.Plan(); err != nil || p.Validate() != nil {
		t.Errorf("%v, %v", err, p.Validate())
	}
}
