package trace

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/workload"
	"gnnsched/workload/record"
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
		f := fatal.Value(os.Open(filepath.Join("testdata", file)))(t)
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
	got := fatal.Value(ReadPlan(strings.NewReader("a,1,1,,1Gi,,add\na,2,1,,1Gi,,add\na,2,1,,1Gi,,delete\na,1,1,,1Gi,,delete\n"), "f"))(t)
	names := each.Map(got.Steps, func(s workload.Step) string { return fmt.Sprint(s.Action, " ", s.Deployment.Name) })
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
		p := fatal.Value(workload.Generator{
			Seed: rapid.Uint64().Draw(t, "seed"), Shapes: workload.DefaultShapes(), ReplicasMin: 1, ReplicasMax: 10,
			Fills: rapid.IntRange(1, 3).Draw(t, "fills"), Target: workload.Load{CPU: 0.5, Memory: 0.5, Pods: 0.5},
			Capacity: cluster.Resources{MilliCPU: 64_000, Memory: 256 << 30, Pods: 110},
		}.Plan())(t)
		var b bytes.Buffer
		fatal.If(t, WritePlan(&b, p))
		got := fatal.Value(ReadPlan(&b, "f"))(t)
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
		data := fatal.Value(os.ReadFile(filepath.Join("testdata", file)))(f)
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

const (
	podList     = "# the trace\nname,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\na,500,1024,1,250,7,9\nb,500,1024,0,0,5,6\n"
	arrivalsCSV = "name,arrival,lifetime,cpu_request,mem_request\na,7,2,500m,1Gi\nb,5,1,500m,1Gi\n"
	tried       = ": openb needs name,cpu_milli,memory_mib,num_gpu,gpu_milli; "
	// after other formats, if there are any
	triedThen = " arrivals needs arrival,cpu_request,mem_request; plan needs name,pod_count,cpu_request,cpu_limit,mem_request,mem_limit"
	planCSV   = "name,pod_count,cpu_request,cpu_limit,mem_request,mem_limit,action\na,1,500m,,1Gi,,add\nb,1,500m,,1Gi,,add\n"
)

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, text string
		format     string // that reads it
		is         string // the format of the file
		pods       int    // rows of an openb pod list
		first      string // the name of the first arrival
		at         float64
		err        string
	}{
		{name: "openb", text: podList, format: "auto", is: "openb", pods: 2, first: "b", at: 2},
		{name: "openb by name", text: podList, format: "openb", is: "openb", pods: 2, first: "b", at: 2},
		{name: "arrivals", text: arrivalsCSV, format: "auto", is: "arrivals", first: "b", at: 2},
		{name: "plan", text: planCSV, format: "auto", is: "plan", first: "a", at: 1},
		{name: "plan by name", text: planCSV, format: "plan", is: "plan", first: "a", at: 1},
		{name: "plan as arrivals", text: planCSV, format: "arrivals", is: "plan", first: "a", at: 1},
		{name: "plan without a header", text: "a,1,1,,1Gi,,add\nb,1,1,,1Gi,,add\n", format: "auto", is: "plan", first: "a", at: 1},
		{name: "arrivals as openb", text: arrivalsCSV, format: "openb", err: "f:1: column cpu_milli is missing; an openb pod list has"},
		{name: "openb as arrivals", text: podList, format: "arrivals", err: "f:2:6: pod_count: "},
		{name: "node list", text: "sn,cpu_milli,memory_mib,gpu,model\n", format: "auto",
			err: "f:1: this is an openb node list, but an openb pod list is needed"},
		{name: "unknown header", text: "id,cores,start\nx,1,2\n", format: "auto",
			err: "f:1: the first line is neither a header nor a deployment; the formats" + tried},
		{name: "unknown header as wide as a plan", text: "id,cores,start,a,b,c,d\nx,1,2,3,4,5,6\n", format: "auto",
			err: "f:1:4: pod_count: \"cores\" is not a number of pods from 1 to 10000; the first line is not the header of any format" + tried},
		{name: "nothing", format: "auto", err: "f: the file is empty"},
		{name: "fault", text: podList + "c,x,1,0,0,,\n", format: "auto", err: `f:5:3: cpu_milli: "x" is not a whole number`},
	} {
		format := Auto
		for _, f := range formats {
			if f.Name == c.format {
				format = f
			}
		}
		got, err := format.Read(iotest.OneByteReader(strings.NewReader(c.text)), "f")
		if c.err != "" {
			if err == nil || !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", c.name, err, c.err)
			} else if n := strings.Count(err.Error(), "pod_count,"); strings.Contains(c.err, tried) && n != 1 {
				t.Errorf("%s: %v: names the columns of a plan %d times", c.name, err, n)
			} else if named := strings.Contains(err.Error(), tried); named != strings.Contains(c.err, tried) || named &&
				!strings.HasSuffix(err.Error(), triedThen) {
				t.Errorf("%s: %v: it must name all formats, or none if the header is known", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got.Format.Name != c.is || len(got.Pods) != c.pods || len(got.Arrivals) != 2 || got.Arrivals[0].Deployment.Name != c.first ||
			got.Arrivals[1].At != c.at {
			t.Errorf("%s: %+v", c.name, got)
		}
		if c.pods > 0 && (got.Arrivals[0].Lifetime != 1 || got.Arrivals[1].Lifetime != 2 || math.IsInf(got.Arrivals[0].Lifetime, 1)) {
			t.Errorf("%s: lifetimes of %+v", c.name, got.Arrivals)
		}
	}
	if _, err := Auto.Read(iotest.ErrReader(os.ErrPermission), "f"); err == nil || !strings.HasPrefix(err.Error(), "f: ") {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

// FuzzAuto checks that the recognised format reads a file as if it had been named, and that errors begin
// with the file name.
func FuzzAuto(f *testing.F) {
	for _, text := range []string{podList, arrivalsCSV, planCSV, "a,1,1,,1Gi,,add\n", "id,cores,start\n", "# only a comment\n",
		"\xef\xbb\xbfname,arrival\n\"", "sn,cpu_milli\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Auto.Read(bytes.NewReader(data), "f")
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Fatalf("error without the file's name: %v", err)
			}
			return
		}
		if got.Format == Auto || len(got.Arrivals) == 0 {
			t.Fatalf("%d arrivals in the format %v", len(got.Arrivals), got.Format)
		}
		again, err := got.Format.Read(bytes.NewReader(data), "f")
		if err != nil || !cmp.Equal(got, again, cmp.Comparer(func(a, b *Format) bool { return a == b })) {
			t.Fatalf("not the same when read as %s: %v", got.Format.Name, err)
		}
	})
}

func TestLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r.record")
	w := fatal.Value(record.Create(dir, record.Options{}))(t)
	w.Pod(record.Pod{UID: "1", Name: "a", MilliCPU: 100, Arrived: 5000, Bound: 5000, Ended: 9000, Claims: `["data"]`})
	fatal.Value(w.Close())(t)
	f, err := Load(dir)
	if err != nil || len(f.Arrivals) != 1 || f.Arrivals[0].Lifetime != 4 || len(f.Notes) != 1 ||
		!strings.Contains(f.Notes[0], "volume claims (1 pods)") {
		t.Errorf("%+v, %v", f, err)
	}
	csv := filepath.Join(t.TempDir(), "a.csv")
	fatal.If(t, os.WriteFile(csv, []byte("arrival,cpu_request,mem_request\n0,1,1Gi\n"), 0o600))
	if f, err := Load(csv); err != nil || len(f.Arrivals) != 1 {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no part of a record") {
		t.Errorf("an empty folder: %v", err)
	}
}

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
	got := fatal.Value(read(strings.NewReader(exampleTrace), "f"))(t)
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
		{"arrival,app,cpu_request,mem_request\n1,<b>,1,1Gi\n", "f:2:3: app: labels.app: "},
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
	got := fatal.Value(read(strings.NewReader(`name,pod_count,cpu_request,cpu_limit,mem_request,mem_limit,action
a,2,100m,,128Mi,,add
b,1,100m,,128Mi,,add
a,2,100m,,128Mi,,delete
c,1,100m,,128Mi,,add
,,,,,,reset
d,1,100m,,128Mi,,add
`), "f"))(t)
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

// Instances that ran before the trace arrive at its beginning, and what a trace cannot hold is counted.
func TestReadInstances(t *testing.T) {
	got := fatal.Value(Load("testdata/gpu-v2025.csv"))(t)
	pod := func(name, app string, cores, gpu int64, gib float64) workload.Deployment {
		return workload.Deployment{Name: name, Replicas: 1, Shape: workload.Shape{Labels: map[string]string{"app": app},
			Requests: cluster.Resources{MilliCPU: 1000 * cores, Memory: int64(gib * (1 << 30)), GPU: gpu, Pods: 1}}}
	}
	want := workload.Trace{
		{At: 0, Lifetime: math.Inf(1), Deployment: pod("instance-0", "app_0", 8, 1, 40)},
		{At: 0, Lifetime: 4000, Deployment: pod("instance-1", "app_0", 8, 1, 40)},
		{At: 60, Lifetime: math.Inf(1), Deployment: pod("instance-3", "app_1", 48, 0, 937.5)},
		{At: 120.5, Lifetime: 3600, Deployment: pod("instance-2", "app_0", 64, 0, 320)},
	}
	if d := cmp.Diff(want, got.Arrivals); d != "" || got.Format.Name != "gpu-v2025" {
		t.Errorf("%s: %s", got.Format.Name, d)
	}
	if d := cmp.Diff([]string{
		"3 instances may run beside so many others of their application alone, which is not played",
		"4 instances request a share of their node's RDMA card, which is not played",
		"4 instances request disks, which is not played",
		"2 instances ran before the trace, and arrive at its beginning",
		"1 instances ended when they were created, and are left out",
	}, got.Notes); d != "" {
		t.Error(d)
	}
	const head = "instance_sn,app_name,cpu_request,gpu_request,memory_request,creation_time,deletion_time\n"
	for in, want := range map[string]string{
		"instance_sn,app_name\n":               "f:1: column cpu_request is missing",
		head:                                   "f: the file has no instance that ran",
		head + "a,x,1,0,2,5,5\n":               "f: the file has no instance that ran",
		head + "a,x,1,0,2,,\na,x,1,0,2,,\n":    `f:3:1: instance_sn: "a" is also the name`,
		head + "a,x,1,0,2,,\n_,x,1,0,2,,\n":    "f:3:1: instance_sn: ",
		head + "a,x,lots,0,2,,\n":              `f:2:5: cpu_request: "lots" is not an amount of CPU`,
		head + "a,x,1,65,2,,\n":                "f:2:7: gpu_request: ",
		head + "a,x,1,0,2Gi,,\n":               `f:2:9: memory_request: "2Gi" is not an amount of memory in GiB`,
		head + "a,x,1,0,2,soon,\n":             `f:2:11: creation_time: "soon" is not a time in seconds`,
		head + "a,x,1,0,2,-1,\n":               "f:2:11: creation_time: -1 is before the trace",
		head + "a,<b>,1,0,2,,\n":               "f:2:3: app_name: labels.app: ",
		head + "a,x,1,0,-2,,\n":                "f:2:9: memory_request: ",
		head + "a,x,1,0,2,7,\nb,x,1,0,2,1,x\n": "f:3:13: deletion_time: ",
	} {
		if _, err := Auto.Read(strings.NewReader(in), "f"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}
