package openb

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/workload"
)

func check(t *testing.T, name string, got any) {
	t.Helper()
	b := fatal.Value(json.MarshalIndent(got, "", " "))(t)
	fatal.Golden(t, name, string(b)+"\n")
}

func TestGolden(t *testing.T) {
	pods := fatal.Value(LoadPods("testdata/pods.csv"))(t)
	check(t, "pods.json", pods)
	nodes := fatal.Value(LoadNodes("testdata/nodes.csv"))(t)
	check(t, "nodes.json", nodes)
	if got := GPUMilli(nodes); got != 10_000 {
		t.Errorf("the nodes have %d thousandths of a GPU", got)
	}
	want := &cluster.Node{
		Name: "node-0", Allocatable: cluster.Resources{MilliCPU: 64000, Memory: 256 << 30, GPU: 2, Pods: 1001},
		GPUModel: "P100", GPUs: []int64{0, 0},
	}
	got := nodes[0].Cluster()
	want.Version = got.Version
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if nodes[1].Cluster().HasDevices() {
		t.Error("a node without GPUs has devices")
	}
}

// Columns may come in any order and beside others, and optional ones may be missing.
func TestColumns(t *testing.T) {
	want := []Pod{{Name: "a", MilliCPU: 500, MemoryMiB: 1024, GPUs: 1, GPUMilli: 250, Created: NoTime, Deleted: NoTime, Scheduled: NoTime}}
	for name, text := range map[string]string{
		"few columns":        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,500,1024,1,250\n",
		"other order":        "gpu_milli,num_gpu,memory_mib,cpu_milli,name\n250,1,1024,500,a\n",
		"more columns":       ",user,name,cpu_milli,memory_mib,num_gpu,gpu_milli\n7,ann,a,500,1024,1,250\n",
		"pandas":             "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time\na,500.0,1024.0,1,250,nan,NaN\n",
		"spaces, case, CRLF": "\xef\xbb\xbfName, CPU milli ,memory_mib,num_gpu,gpu_milli\r\n a , 500,1024,1,250\r\n",
		"comments":           "# by hand\nname,cpu_milli,memory_mib,num_gpu,gpu_milli\n\n# one\na,500,1024,1,250\n",
	} {
		got, err := ReadPods(strings.NewReader(text), "f")
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s:\n%s", name, d)
		}
	}
}

func TestErrors(t *testing.T) {
	const pods, nodes = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n",
		"sn,cpu_milli,memory_mib,gpu,model\n"
	for _, c := range []struct{ text, want string }{
		{"", "f: the file is empty"},
		{pods, "f: the file has a header but no rows"},
		{"name,cpu_milli,memory_mib,num_gpu\n", "f:1: column gpu_milli is missing; an openb pod list has the columns name, cpu_milli, "},
		{"name,name,cpu_milli,memory_mib,num_gpu,gpu_milli\n", "f:1: column name is there twice"},
		{nodes, "f:1: this is an openb node list, but an openb pod list is needed"},
		{pods + "a,x,1,0,0,,,\n", `f:2:3: cpu_milli: "x" is not a whole number`},
		{pods + "a,1.5,1,0,0,,,\n", `f:2:3: cpu_milli: "1.5" is not a whole number`},
		{pods + "a,-1,1,0,0,,,\n", "f:2:3: cpu_milli: -1 is negative; write 0 or more"},
		{pods + "a,,1,0,0,,,\n", "f:2:3: cpu_milli: is empty"},
		{pods + "a,1,1,,0,,,\n", "f:2:7: num_gpu: is empty"},
		{pods + "a,1,99999999999,0,0,,,\n", "f:2:5: memory_mib: 99999999999 is more than 16777216 MiB; is it in another unit?"},
		{pods + "a,1,1,0,0,,,\nb,1,1,0,5,,,\n", "f:3:9: gpu_milli: 5 with a num_gpu of 0; write 0 here or 1 there"},
		{pods + "a,1,1,1,0,,,\n", "f:2:9: gpu_milli: 0 is not 1 to 1000 thousandths of the GPU"},
		{pods + "a,1,1,1,1001,,,\n", "f:2:9: gpu_milli: 1001 is not 1 to 1000"},
		{pods + "a,1,1,2,500,,,\n", "f:2:9: gpu_milli: 500 with a num_gpu of 2; only a pod with one GPU can share it, other pods have 1000"},
		{pods + "a,1,1,65,1000,,,\n", "f:2:7: num_gpu: 65 is more than the 64 devices"},
		{pods + "a,1,1,1,500,T4||G2,,\n", "f:2:13: gpu_spec: has an empty model between two |"},
		{pods + "a,1,1,1,500,,9,8\n", "f:2:16: deletion_time: 8 is before the creation_time 9"},
		{pods + "a,1,1,1,500,,-9,8\n", "f:2:14: creation_time: -9 is negative"},
		{pods + "a,1,1,1,500,,soon,8\n", `f:2:14: creation_time: "soon" is not a time in seconds`},
		{pods + "a,1,1,1\n", "f:2: the row has 4 fields, not 8"},
		{pods + "a,1,1,0,0,,,\na,1,1,0,0,,,\n", `f:3:1: name: "a" is also the name of an earlier row`},
		{pods + "A b,1,1,0,0,,,\n", `f:2:1: name: "A b" is not a valid name: `},
		{pods + "\"a,1\n", "f:2:6: extraneous or missing \" in quoted-field"},
	} {
		_, err := ReadPods(strings.NewReader(c.text), "f")
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q:\n got %v\nwant %s", c.text, err, c.want)
		}
	}
	for _, c := range []struct{ text, want string }{
		{pods, "f:1: this is an openb pod list, but an openb node list is needed"},
		{"sn,cpu_milli,memory_mib,gpu\n", "f:1: column model is missing; an openb node list has the columns sn, "},
		{nodes + "n,0,1,0,\n", "f:2:3: cpu_milli: is 0; a node must offer CPU"},
		{nodes + "n,1,0,0,\n", "f:2:5: memory_mib: is 0; a node must offer memory"},
		{nodes + "n,1,1,65,T4\n", "f:2:7: gpu: 65 is more than the 64 devices"},
		{nodes + "n,1,1,1,\n", "f:2:9: model: is empty on a node with GPUs"},
		{nodes + "n,1,1,0,\nn,1,1,0,\n", `f:3:1: sn: "n" is also the name of an earlier row`},
	} {
		_, err := readNodes(strings.NewReader(c.text), "f")
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q:\n got %v\nwant %s", c.text, err, c.want)
		}
	}
	if _, err := LoadPods("testdata/nowhere.csv"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestTrace(t *testing.T) {
	pods := fatal.Value(LoadPods("testdata/pods.csv"))(t)
	type row struct {
		name         string
		at, lifetime float64
	}
	got := each.Map(Trace(pods), func(a workload.Arrival) row { return row{a.Deployment.Name, a.At, a.Lifetime} })
	want := []row{{"pod-3", 0, 87}, {"pod-0", 2, 12537491}, {"pod-1", 427058, 12475899}, {"pod-2", 427058, 1}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	share := workload.Shape{
		Weight: 1, GPUModels: []string{"V100M16", "V100M32"},
		Requests: cluster.Resources{MilliCPU: 6000, Memory: 12 << 30, GPUMilli: 460, Pods: 1},
	}
	if d := cmp.Diff(share, pods[1].Shape()); d != "" {
		t.Error(d)
	}
	if r := pods[3].Requests(); r.GPU != 8 || r.GPUMilli != 0 {
		t.Errorf("eight GPUs became %+v", r)
	}
	for i, a := range InOrder(pods) {
		if a.At != float64(i) || !math.IsInf(a.Lifetime, 1) || a.Deployment.Name != pods[i].Name {
			t.Errorf("arrival %d is %+v", i, a)
		}
	}
	untimed := []Pod{{Name: "a", Created: NoTime, Deleted: NoTime}, {Name: "b", Created: NoTime, Deleted: NoTime}}
	if tr := Trace(untimed); tr[0].At != 0 || tr[1].At != 1 || !math.IsInf(tr[1].Lifetime, 1) {
		t.Errorf("pods without times became %+v", tr)
	}
}

// Inflate stops as soon as enough is requested, repeats pods only after every pod came once,
// and gives equal arrivals for equal seeds.
func TestInflate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "pods")
		pods := make([]Pod, n)
		var all int64
		for i := range pods {
			pods[i] = Pod{
				Name: "p" + string(rune('a'+i%26)) + strings.Repeat("x", i/26), GPUs: 1, GPUMilli: int64(rapid.IntRange(0, 10).Draw(t, "tenths")) * 100,
			}
			if pods[i].GPUMilli == 0 {
				pods[i].GPUs = 0
			}
			all += pods[i].GPUMilli
		}
		capacity, seed := int64(rapid.IntRange(1, 20).Draw(t, "devices"))*1000, rapid.Uint64().Draw(t, "seed")
		got, err := Inflate(pods, 1.3, capacity, seed)
		if all == 0 {
			if !errors.Is(err, ErrNoGPU) {
				t.Fatalf("got %v", err)
			}
			return
		}
		fatal.If(t, err)
		again, _ := Inflate(pods, 1.3, capacity, seed)
		if !slices.EqualFunc(got, again, func(a, b Pod) bool { return a.Name == b.Name }) {
			t.Fatal("the same seed gave other arrivals")
		}
		var asked int64
		names := map[string]bool{}
		for i, p := range got {
			if float64(asked) >= 1.3*float64(capacity) {
				t.Fatalf("%d of %d pods are enough", i, len(got))
			}
			asked += p.GPUMilli
			if names[p.Name] {
				t.Fatalf("%s is there twice", p.Name)
			}
			names[p.Name] = true
			if i < n && !slices.ContainsFunc(pods, func(q Pod) bool { return q.Name == p.Name }) {
				t.Fatalf("arrival %d is %s, before every pod was there once", i, p.Name)
			}
		}
		if float64(asked) < 1.3*float64(capacity) {
			t.Fatalf("%d thousandths are requested, of %d", asked, capacity)
		}
	})
	for _, c := range []struct {
		factor   float64
		capacity int64
	}{{0, 1000}, {-1, 1000}, {math.NaN(), 1000}, {130, 1000}, {1.3, 0}} {
		if _, err := Inflate([]Pod{{Name: "a", GPUs: 1, GPUMilli: 1}}, c.factor, c.capacity, 1); err == nil {
			t.Errorf("factor %v of %d is accepted", c.factor, c.capacity)
		}
	}
}

func TestSample(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		models := []string{"", "T4", "G2", "P100"}
		nodes := make([]Node, rapid.IntRange(1, 300).Draw(t, "nodes"))
		all := map[machine]int{}
		for i := range nodes {
			m := rapid.IntRange(0, 3).Draw(t, "model")
			nodes[i] = Node{MilliCPU: 1000, MemoryMiB: 1, GPUs: int64(m), Model: models[m]}
			all[nodes[i].machine()]++
		}
		count := rapid.IntRange(1, len(nodes)).Draw(t, "count")
		got := Sample(nodes, count)
		if len(got) < count || len(got) > count+2*len(all)+1 {
			t.Fatalf("%d nodes of %d, where %d were asked for", len(got), len(nodes), count)
		}
		have := map[machine]int{}
		for _, n := range got {
			have[n.machine()]++
		}
		for m, n := range all {
			due := float64(n) * float64(count) / float64(len(nodes))
			if h := float64(have[m]); h < 1 || h < due-1 || h > due*1.1+1.5 {
				t.Fatalf("%v nodes of %v, %.1f are due", h, m, due)
			}
		}
	})
}

// The published trace has the published numbers of nodes, GPUs and pods.
func TestPublishedTrace(t *testing.T) {
	nodes := fatal.Value(LoadNodes(fatal.OpenBFile(t, "openb_node_list_gpu_node.csv")))(t)
	cores := each.Sum(nodes, func(n Node) int64 { return n.MilliCPU })
	if len(nodes) != 1213 || GPUMilli(nodes) != 6_212_000 || cores != 107_018_000 {
		t.Errorf("%d nodes, %d thousandths of a GPU, %d of a core", len(nodes), GPUMilli(nodes), cores)
	}
	if all, err := LoadNodes(fatal.OpenBFile(t, "openb_node_list_all_node.csv")); err != nil || len(all) <= len(nodes) ||
		GPUMilli(all) != 6_212_000 {
		t.Errorf("%d nodes, %v", len(all), err)
	}
	for name, want := range map[string]int{"cpu100": 7853, "default": 8152, "gpushare40": 8152, "gpuspec10": 8152, "multigpu20": 8324} {
		pods, err := LoadPods(fatal.OpenBFile(t, "openb_pod_list_"+name+".csv"))
		if err != nil || len(pods) != want {
			t.Errorf("%s: %d pods, want %d, %v", name, len(pods), want, err)
			continue
		}
		arrivals, err := Inflate(pods, 1.3, 6_212_000, 42)
		if err != nil || len(arrivals) <= want {
			t.Errorf("%s: %d arrivals, %v", name, len(arrivals), err)
		}
		if err := checkPlan(InOrder(arrivals)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func checkPlan(t workload.Trace) error {
	var p workload.Plan
	for _, a := range t {
		p.Steps = append(p.Steps, workload.Step{Action: workload.Add, Deployment: a.Deployment})
	}
	return p.Validate()
}

// FuzzPods checks that accepted files are valid workloads, and that errors begin with the file
// name.
func FuzzPods(f *testing.F) {
	b, err := os.ReadFile("testdata/pods.csv")
	fatal.If(f, err)
	f.Add(string(b))
	f.Add("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,500,1024,1,250\n\"")
	f.Fuzz(func(t *testing.T, text string) {
		pods, err := ReadPods(strings.NewReader(text), "f")
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Fatal(err)
			}
			return
		}
		trace := Trace(pods)
		fatal.If(t, checkPlan(trace))
		for i, a := range trace {
			if !(a.Lifetime > 0) || a.At < 0 || i > 0 && a.At < trace[i-1].At {
				t.Fatalf("arrival %d is %+v", i, a)
			}
		}
	})
}

// FuzzNodes checks that accepted nodes can hold pods, and that errors begin with the file name.
func FuzzNodes(f *testing.F) {
	b, err := os.ReadFile("testdata/nodes.csv")
	fatal.If(f, err)
	f.Add(string(b), 2)
	f.Fuzz(func(t *testing.T, text string, count int) {
		nodes, err := readNodes(strings.NewReader(text), "f")
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Fatal(err)
			}
			return
		}
		for _, n := range nodes {
			c := n.Cluster()
			if c.Fit(&cluster.Pod{Requests: cluster.Resources{MilliCPU: n.MilliCPU, GPU: n.GPUs, Pods: 1}}) != cluster.Fits {
				t.Fatalf("a pod as large as %+v does not fit it", n)
			}
		}
		if got := Sample(nodes, max(1, count)); len(got) < min(max(1, count), len(nodes)) {
			t.Fatalf("%d of %d nodes", len(got), len(nodes))
		}
	})
}

func TestPodLists(t *testing.T) {
	dir := t.TempDir()
	if names, err := PodLists(dir); err == nil || !strings.Contains(err.Error(), "holds no openb_pod_list_*.csv") {
		t.Errorf("an empty folder: %v, %v", names, err)
	}
	for _, name := range []string{NodesFile, "openb_pod_list_gpuspec33.csv", "openb_pod_list_default.csv", "notes.csv"} {
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	names, err := PodLists(dir)
	if want := []string{"default", "gpuspec33"}; err != nil || !slices.Equal(names, want) {
		t.Fatalf("%v, %v, want %v", names, err, want)
	}
	for _, name := range names {
		if path := PodsFile(dir, name); filepath.Dir(path) != dir || ListName(path) != name {
			t.Errorf("list %s is in %s", name, path)
		}
	}
	if got := ListName("my/own.csv"); got != "own" {
		t.Errorf("another file's list is called %q", got)
	}
}
