package trace

import (
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/workload"
)

// read reads a file in the arrivals format.
func read(r io.Reader, file string) (workload.Trace, error) {
	f, err := arrivals.Read(r, file)
	return f.Arrivals, err
}

const exampleTrace = `# two pods and a deployment, not in order
arrival,lifetime,cpu_request,mem_request,gpu_request,name,pod_count,user
1000.5,,250m,512Mi,,,,ann
990,3600,4,16Gi,1,train,,bob
1000.5,60,1,2Gi,0,web,3,ann
`

func TestReadArrivals(t *testing.T) {
	pod := func(milliCPU, mem, gpu int64) workload.Shape {
		return workload.Shape{Requests: cluster.Resources{MilliCPU: milliCPU, Memory: mem << 20, GPU: gpu, Pods: 1}}
	}
	got, err := read(strings.NewReader(exampleTrace), "f")
	fatal.If(t, err)
	want := workload.Trace{
		{At: 0, Lifetime: 3600, Deployment: workload.Deployment{Name: "train", Replicas: 1, Shape: pod(4000, 16<<10, 1)}},
		{At: 10.5, Lifetime: math.Inf(1), Deployment: workload.Deployment{Name: "pod-0", Replicas: 1, Shape: pod(250, 512, 0)}},
		{At: 10.5, Lifetime: 60, Deployment: workload.Deployment{Name: "web", Replicas: 3, Shape: pod(1000, 2<<10, 0)}},
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
		{"arrival,cpu_request,mem_request\n", "f: the file has a header but no pods"},
		{"arrival,cpu_request,mem_request\nsoon,1,1Gi\n", `f:2:1: arrival: "soon" is not a time in seconds`},
		{"arrival,cpu_request,mem_request\n1,1,1Gi\n1,1,1GB\n", `f:3:5: mem_request: "1GB"`},
		{"arrival,lifetime,cpu_request,mem_request\n1,-2,1,1Gi\n", "f:2:3: lifetime: -2 is negative"},
		{"arrival,name,cpu_request,mem_request\n1,No Name,1,1Gi\n", "f:2:3: name: "},
		{"arrival,cpu_request,mem_request,gpu_request\n1,1,1Gi,half\n", `f:2:9: gpu_request: "half"`},
		{"arrival,cpu_request,mem_request,usage\n1,1,1Gi,\"{\"\"cpu\"\":-1}\"\n", `f:2:9: usage: cpu: -1 is not 0 to 10000`},
		{"arrival,cpu_request,mem_request\n1,1\n", "f:2: the row has 2 fields, not 3"},
	} {
		if _, err := read(strings.NewReader(c.text), "f"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q in it", c.text, err, c.want)
		}
	}
}

// A plan is a trace with one step a unit of time; pods live until a delete or a reset.
func TestPlanAsTrace(t *testing.T) {
	got, err := read(strings.NewReader(`name,pod_count,cpu_request,cpu_limit,mem_request,mem_limit,action
a,2,100m,,128Mi,,add
b,1,100m,,128Mi,,add
a,2,100m,,128Mi,,delete
c,1,100m,,128Mi,,add
,,,,,,reset
d,1,100m,,128Mi,,add
`), "f")
	fatal.If(t, err)
	var at, lifetimes []float64
	for _, a := range got {
		at, lifetimes = append(at, a.At), append(lifetimes, a.Lifetime)
	}
	if !slices.Equal(at, []float64{0, 1, 3, 5}) || !slices.Equal(lifetimes, []float64{2, 3, 1, math.Inf(1)}) || got.Pods() != 5 {
		t.Errorf("%v for %v", at, lifetimes)
	}
}

func FuzzArrivals(f *testing.F) {
	f.Add(exampleTrace)
	f.Add("arrival,cpu_request,mem_request\n-1e9,1e-3,.5\n1e300,1,1\n")
	f.Add("name,pod_count,cpu_request,cpu_limit,mem_request,mem_limit,action\na,2,100m,,128Mi,,add\n")
	f.Fuzz(func(t *testing.T, text string) {
		trace, err := read(strings.NewReader(text), "f")
		if err != nil {
			return
		}
		last := 0.0
		for _, a := range trace {
			if !(a.At >= last) || !(a.Lifetime > 0) {
				t.Fatalf("from %q: %+v after %v", text, a, last)
			}
			last = a.At
			if err := (workload.Plan{Steps: []workload.Step{{Deployment: a.Deployment}}}).Validate(); err != nil {
				t.Fatalf("from %q: %v", text, err)
			}
		}
	})
}
