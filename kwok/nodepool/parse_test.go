package nodepool

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
)

var quantities = cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })

func TestExamplesParse(t *testing.T) {
	files, err := filepath.Glob("../testdata/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("found %d examples: %v", len(files), err)
	}
	for _, f := range files {
		if _, err := Load(f); err != nil {
			t.Errorf("%v", err)
		}
	}
}

// TestDocsParse decodes every pool file in docs/reference/nodes.md and docs/how-to/simulate.md.
func TestDocsParse(t *testing.T) {
	var b []byte
	for _, page := range []string{"reference/nodes.md", "how-to/simulate.md"} {
		text := fatal.Value(os.ReadFile("../../docs/" + page))(t)
		b = append(append(b, text...), '\n')
	}
	shown := 0
	for i, block := range strings.Split(string(b), "```") {
		body, isYAML := strings.CutPrefix(block, "yaml\n")
		if i%2 == 0 || !isYAML || !strings.Contains(body, "pools:") {
			continue
		}
		shown++
		if _, err := Parse("docs", []byte(body)); err != nil {
			t.Errorf("%v, in\n%s", err, body)
		}
	}
	if shown < 2 {
		t.Errorf("the documentation shows %d pool files", shown)
	}
}

func TestDefaultIsTheExample(t *testing.T) {
	want := fatal.Value(Load("../testdata/default.yaml"))(t)
	if d := cmp.Diff(want, Default(10), quantities, cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
	if err := Validate(Default(0)); err != nil {
		t.Error(err)
	}
}

func TestParse(t *testing.T) {
	got := fatal.Value(Parse("p", []byte(`
pools:
- &base
  name: gpu
  count: 2
  capacity: {cpu: 1500m, memory: "1Gi", nvidia.com/gpu: 8}
  zone: b
  taints: [{key: k, value: v, effect: NoExecute}]
- name: other
  count: 0
  capacity: {cpu: .5, memory: 1e9}
  labels: {a: "1", b: ""}
  devices: [{product: T4, count: 2, shares: 1000}, {driver: d.example.com, count: 1, memory: 80Gi, mig: [3g.40gb]}]
  taints:
  zones: [x, "2"]
`)))(t)
	q := resource.MustParse
	want := []Pool{{
		Name: "gpu", Count: 2, Zones: []string{"b"},
		Capacity: corev1.ResourceList{"cpu": q("1.5"), "memory": q("1Gi"), "nvidia.com/gpu": q("8")},
		Taints:   []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute}},
	}, {
		Name: "other", Zones: []string{"x", "2"}, Labels: map[string]string{"a": "1", "b": ""},
		Capacity: corev1.ResourceList{"cpu": q("500m"), "memory": q("1G")},
		Devices: []Devices{
			{Product: "T4", Count: 2, Shares: 1000}, {Driver: "d.example.com", Count: 1, Memory: q("80Gi"), MIG: []string{"3g.40gb"}},
		},
	}}
	if d := cmp.Diff(want, got, quantities); d != "" {
		t.Error(d)
	}
}

func TestParseErrors(t *testing.T) {
	const ok = "capacity: {cpu: 1, memory: 1Gi}"
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", "p.yaml: is empty"},
		{"nothing", "---\n", "p.yaml: pools: must list at least one pool"},
		{"no pools", "pools: []", "p.yaml: pools: must list at least one pool"},
		{"not YAML", "pools:\n  - {", "p.yaml:2: is not YAML: did not find expected node content"},
		{"tab", "pools:\n\t- a", "p.yaml:2: is not YAML: found character that cannot start any token"},
		{"two documents", "pools: []\n---\npools: []", "p.yaml:2: has more than one YAML document; put all pools in one list"},
		{"a list", "- name: a", "p.yaml:1: must be fields and values, not a list"},
		{"not a list", "pools: 3", "p.yaml:1: pools: must be a list, not a number"},
		{"unknown field", "pools:\n- name: a\n  count: 1\n  " + ok + "\n  size: 3",
			"p.yaml:5: pools[0].size: unknown field; the fields are capacity, count, devices, labels, name, taints, zone, zones"},
		{"unknown top field", "pool:\n- name: a", "p.yaml:1: pool: unknown field; the fields are pools"},
		{"twice", "pools:\n- name: a\n  name: b\n  count: 1\n  " + ok, "p.yaml:3: pools[0].name: is repeated; it is first in line 2"},
		{"no count", "pools:\n- name: a\n  " + ok, "p.yaml:2: pools[0].count: is required: the number of nodes"},
		{"count is text", "pools:\n- name: a\n  count: many\n  " + ok, "p.yaml:3: pools[0].count: must be a whole number, not text"},
		{"count is a fraction", "pools:\n- name: a\n  count: 1.5\n  " + ok, "p.yaml:3: pools[0].count: must be a whole number, not a number"},
		{"negative count", "pools:\n- name: a\n  count: -1\n  " + ok, "p.yaml:3: pools[0].count: -1 is not between 0 and 100000"},
		{"too many", "pools:\n- {name: a, count: 60000, " + ok + "}\n- {name: b, count: 60000, " + ok + "}",
			"p.yaml:1: pools: 120000 nodes in total are more than the 100000 that are allowed"},
		{"no name", "pools:\n- count: 1\n  " + ok, "p.yaml:2: pools[0].name: is required: it is the prefix of the nodes' names"},
		{"long name", "pools:\n- {name: " + strings.Repeat("a", 58) + ", count: 1, " + ok + "}",
			"p.yaml:2: pools[0].name: has 58 characters, more than the 57 that are allowed"},
		{"same name", "pools:\n- {name: a, count: 1, " + ok + "}\n- {name: a, count: 1, " + ok + "}",
			`p.yaml:3: pools[1].name: "a" is also the name of pools[0]`},
		{"bad quantity", "pools:\n- name: a\n  count: 1\n  capacity:\n    cpu: 64x\n    memory: 1Gi",
			`p.yaml:5: pools[0].capacity.cpu: "64x" is not a quantity such as 64, 500m or 256Gi`},
		{"no quantity", "pools:\n- name: a\n  count: 1\n  capacity:\n    cpu:\n    memory: 1Gi",
			`p.yaml:5: pools[0].capacity.cpu: must be a quantity such as 64, 500m or 256Gi, not nothing`},
		{"endless quantity", "pools:\n- {name: a, count: 1, capacity: {memory: 1, cpu: " + strings.Repeat("9", 41) + "}}",
			`p.yaml:2: pools[0].capacity.cpu: is longer than 40 characters`},
		{"negative quantity", "pools:\n- {name: a, count: 1, capacity: {cpu: -1, memory: 1}}", "p.yaml:2: pools[0].capacity.cpu: -1 is negative"},
		{"endless CPU", "pools:\n- {name: a, count: 1, capacity: {cpu: 1e2147483647, memory: 1}}",
			"p.yaml:2: pools[0].capacity.cpu: is more than 8e+15"},
		{"half a GPU", "pools:\n- {name: a, count: 1, capacity: {cpu: 1, memory: 1, nvidia.com/gpu: 500m}}",
			`p.yaml:2: pools[0].capacity["nvidia.com/gpu"]: 500m is not a whole number`},
		{"no memory", "pools:\n- name: a\n  count: 1\n  capacity: {cpu: 1}", "p.yaml:4: pools[0].capacity: must include memory"},
		{"unknown resource", "pools:\n- {name: a, count: 1, capacity: {cpu: 1, memory: 1, gpu: 1}}",
			`p.yaml:2: pools[0].capacity.gpu: "gpu" is not a resource of a node: use cpu, memory, ephemeral-storage, pods, hugepages-SIZE, or an extended resource with its domain, such as nvidia.com/gpu`},
		{"label is a number", "pools:\n- name: a\n  count: 1\n  " + ok + "\n  labels: {tier: 1}",
			`p.yaml:5: pools[0].labels.tier: 1 is a number in YAML; write "1" in quotes`},
		{"label is a boolean", "pools:\n- name: a\n  count: 1\n  " + ok + "\n  labels: {gpu: true}",
			`p.yaml:5: pools[0].labels.gpu: true is true or false in YAML; write "true" in quotes`},
		{"reserved label", "pools:\n- name: a\n  count: 1\n  " + ok + "\n  labels:\n    kubernetes.io/hostname: x",
			`p.yaml:6: pools[0].labels["kubernetes.io/hostname"]: is set by kwokcluster on every node`},
		{"no effect", "pools:\n- name: a\n  count: 1\n  " + ok + "\n  taints:\n  - key: k",
			`p.yaml:6: pools[0].taints[0].effect: "" is not NoSchedule, PreferNoSchedule or NoExecute`},
		{"zone and zones", "pools:\n- name: a\n  count: 1\n  " + ok + "\n  zone: a\n  zones: [b]",
			"p.yaml:2: pools[0].zone: set either zone or zones, not both"},
		{"bad zone", "pools:\n- name: a\n  count: 1\n  " + ok + "\n  zone: a b",
			"p.yaml:5: pools[0].zones[0]: \"a b\" is not a label value: " + labelRule},
		{"zone as a label too", "pools:\n- name: a\n  count: 1\n  " + ok + "\n  zone: a\n  labels: {topology.kubernetes.io/zone: b}",
			`p.yaml:6: pools[0].labels["topology.kubernetes.io/zone"]: is also set by zone or zones; keep one of them`},
		{"two faults", "pools:\n- name: a\n  count: x\n  foo: 1\n  " + ok, "p.yaml:3: pools[0].count: must be a whole number, " +
			"not text\np.yaml:4: pools[0].foo: unknown field; the fields are capacity, count, devices, labels, name, taints, zone, zones"},
		{"no devices", devicesYAML("{count: 0}"),
			"p.yaml:5: pools[0].devices[0].count: 0 is not between 1 and 64, the number of devices on each node"},
		{"unknown field of devices", devicesYAML("{count: 1, kind: A100}"),
			"p.yaml:5: pools[0].devices[0].kind: unknown field; the fields are count, driver, memory, mig, product, shares"},
		{"too many devices", devicesYAML("{count: 40}, {count: 40}"),
			"p.yaml:5: pools[0].devices[1].count: a node has more than 64 devices of driver gpu.nvidia.com"},
		{"bad driver", devicesYAML("{count: 1, driver: A_B}"), `p.yaml:5: pools[0].devices[0].driver: "A_B": ` + subdomainRule},
		{"driver of partitions", devicesYAML("{count: 1, driver: mig.nvidia.com}"),
			`p.yaml:5: pools[0].devices[0].driver: "mig.nvidia.com": a driver is named like gpu.nvidia.com, and not mig.…, which names the class of partitions`},
		{"shares and partitions", devicesYAML("{count: 1, memory: 40Gi, shares: 4, mig: [1g.5gb]}"),
			"p.yaml:5: pools[0].devices[0].shares: is not for devices with mig: a device is given out in shares or in partitions"},
		{"negative shares", devicesYAML("{count: 1, shares: -1}"), "p.yaml:5: pools[0].devices[0].shares: -1 is not between 0 and 1000000"},
		{"half a byte", devicesYAML("{count: 1, memory: 500m}"),
			"p.yaml:5: pools[0].devices[0].memory: 500m is not a whole number of bytes up to 8e+15"},
		{"no such profile", devicesYAML("{count: 1, memory: 40Gi, mig: [5g.20gb]}"),
			`p.yaml:5: pools[0].devices[0].mig[0]: "5g.20gb" is not a MIG profile of a device with 40Gi; those are 1g.5gb, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb, 7g.40gb`},
		{"profile without memory", devicesYAML("{count: 1, mig: [1g.5gb]}"),
			`p.yaml:5: pools[0].devices[0].mig[0]: "1g.5gb" needs the devices' memory of 8Gi or more, of which a partition gets a part`},
		{"profile twice", devicesYAML("{count: 1, memory: 40Gi, mig: [1g.5gb, 1g.5gb]}"),
			`p.yaml:5: pools[0].devices[0].mig[1]: "1g.5gb" is repeated`},
		{"two drivers of one class", devicesYAML("{count: 1, driver: a.x.com, memory: 40Gi, mig: [1g.5gb]}, {count: 1, driver: b.x.com, " +
			"memory: 40Gi, mig: [1g.5gb]}"), "p.yaml:5: pools[0].devices[1].driver: drivers a.x.com and b.x.com would both have the " +
			"DeviceClass mig.x.com"},
		{"GPUs that contradict devices", "pools:\n- name: a\n  count: 1\n  capacity: {cpu: 1, memory: 1Gi, nvidia.com/gpu: " +
			"2}\n  devices: [{count: 4}]", `p.yaml:4: pools[0].capacity["nvidia.com/gpu"]: is 2, but devices has 4 of driver gpu.nvidia.com, which are the same GPUs; leave one of them out or make them equal`},
		{"large", strings.Repeat("#", maxFile+1), "p.yaml: is larger than 1048576 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pools, err := Parse("p.yaml", []byte(c.in))
			if err == nil {
				t.Fatalf("accepted: %+v", pools)
			}
			if d := cmp.Diff(c.want, err.Error()); d != "" {
				t.Error(d)
			}
			if exit.Code(err) != exit.Usage {
				t.Errorf("exit code %d", exit.Code(err))
			}
		})
	}
}

func devicesYAML(list string) string {
	return "pools:\n- name: a\n  count: 1\n  capacity: {cpu: 1, memory: 1Gi}\n  devices: [" + list + "]"
}

const subdomainRule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', " +
	"and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is " +
	"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"

const labelRule = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', " +
	"and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', " +
	"regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"

func TestLoadErrors(t *testing.T) {
	for _, path := range []string{filepath.Join(t.TempDir(), "missing.yaml"), t.TempDir()} {
		if _, err := Load(path); exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// FuzzParse checks that accepted files are valid and unchanged after writing and reading them
// again, and that other files give a usage error. Run it with -fuzzminimizetime=10x: coverage
// depends on the random order of maps, which Go's minimiser takes for progress.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("../testdata/*.yaml")
	fatal.If(f, err)
	for _, path := range files {
		b := fatal.Value(os.ReadFile(path))(f)
		f.Add(b)
	}
	f.Add([]byte("pools:\n- &a {name: a, count: 1, capacity: {cpu: 1, memory: 1Gi}}\n- *a\n"))
	f.Add([]byte("{pools: [{? [a] : b}, 1, null]}\n---\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		pools, err := Parse("fuzz.yaml", b)
		if err != nil {
			var e *exit.Error
			if !errors.As(err, &e) || e.Code != exit.Usage || !strings.HasPrefix(e.Error(), "fuzz.yaml") {
				t.Fatalf("not a usage error: %#v", err)
			}
			return
		}
		if err := Validate(pools); err != nil {
			t.Fatalf("accepted and invalid: %v", err)
		}
		text, err := json.Marshal(map[string]any{"pools": pools})
		fatal.If(t, err)
		if text, err = yaml.JSONToYAML(text); err != nil {
			t.Fatal(err)
		}
		again, err := Parse("again.yaml", text)
		if err != nil {
			t.Fatalf("%v, in\n%s", err, text)
		}
		if d := cmp.Diff(pools, again, quantities, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
}

// The pool file in docs/how-to/simulate.md can be read.
func TestHowToParses(t *testing.T) {
	const page = "docs/how-to/simulate.md"
	text := fatal.Value(os.ReadFile("../../" + page))(t)
	_, file, found := strings.Cut(string(text), "```yaml\npools:")
	file, _, _ = strings.Cut(file, "```")
	if !found {
		t.Fatalf("%s shows no pools", page)
	}
	if _, err := Parse(page, []byte("pools:"+file)); err != nil {
		t.Error(err)
	}
}

// Translated back, the simulated nodes equal the nodes that they were made from.
func TestSingle(t *testing.T) {
	nodes := []*cluster.Node{
		{Name: "node-0000", Allocatable: cluster.Resources{MilliCPU: 96_000, Memory: 1 << 30, GPU: 8, Pods: 1001}, GPUModel: "G2",
			GPUs: make([]int64, 8)},
		{Name: "node-0001", Allocatable: cluster.Resources{MilliCPU: 32_000, Memory: 2 << 30, Pods: 1001}},
	}
	pools := Single(nodes, InCapacity)
	fatal.If(t, Validate(pools))
	for i, p := range pools {
		want := nodes[i]
		n := p.Node(0)
		got := kube.Node(n)
		if got.Allocatable != want.Allocatable || got.GPUModel != want.GPUModel || len(got.GPUs) != len(want.GPUs) {
			t.Errorf("%s became %+v", want.Name, got)
		}
		if name := want.Name + "-0"; n.Name != name {
			t.Errorf("%s is named %s, want %s", want.Name, n.Name, name)
		}
	}
}

// By turns, nodes with GPUs offer them in both ways and in slices only. Nodes without GPUs have no turn.
func TestSingleOffersByTurns(t *testing.T) {
	var nodes []*cluster.Node
	for i, gpus := range []int64{2, 0, 2, 2} {
		nodes = append(nodes,
			&cluster.Node{Name: fmt.Sprint("n", i), Allocatable: cluster.Resources{MilliCPU: 1000, Memory: 1 << 30, GPU: gpus, Pods: 10}})
	}
	var got [][2]int64
	for i, p := range Single(nodes, InTurns) {
		inSlices := 0
		for _, s := range p.resourceSlices(fmt.Sprintf("n%d-0", i)) {
			inSlices += len(s.Spec.Devices)
		}
		got = append(got, [2]int64{kube.Node(p.Node(0)).Allocatable.GPU, int64(inSlices)})
	}
	if want := [][2]int64{{2, 2}, {0, 0}, {0, 2}, {2, 2}}; !slices.Equal(got, want) {
		t.Errorf("GPUs in the capacity and in slices: %v, want %v", got, want)
	}
}

// Nodes offer their GPUs in their capacity, in slices with a thousand shares of each device, or both.
func TestSingleOffers(t *testing.T) {
	node := &cluster.Node{
		Name: "n", Allocatable: cluster.Resources{MilliCPU: 1000, Memory: 1 << 30, GPU: 2, Pods: 10}, GPUModel: "T4", GPUs: make([]int64, 2),
	}
	for offer, want := range map[Offer][2]int64{InCapacity: {2, 0}, InSlices: {0, 2}, InBoth: {2, 2}} {
		pools := Single([]*cluster.Node{node}, offer)
		fatal.If(t, Validate(pools))
		var published []resourceapi.ResourceSlice
		for _, s := range pools[0].resourceSlices("n-0") {
			published = append(published, *s)
		}
		n := kube.Node(pools[0].Node(0))
		if got := [2]int64{n.Allocatable.GPU, kube.GPUsInSlices(published)["n-0"]}; got != want || pools[0].Labels[kube.GPUModelLabel] != "T4" {
			t.Errorf("%s: %d GPUs in the capacity, %d in slices, labels %v", offer, got[0], got[1], pools[0].Labels)
		}
		for _, s := range published {
			for _, d := range s.Spec.Devices {
				if q := d.Capacity[kube.GPUSharesCapacity].Value; q.Value() != 1000 || *d.Attributes[kube.GPUProductAttribute].StringValue != "T4" {
					t.Errorf("%s: %+v", offer, d)
				}
			}
		}
	}
}
