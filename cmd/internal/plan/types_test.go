package plan

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/plan"
	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
)

// file writes a file of a test.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// types holds a type that is cheap by its price, one that is cheap by its capacity, and one with devices.
const types = `
pools:
- {name: small, count: 5, capacity: {cpu: 1500m, memory: 4Gi, nvidia.com/gpu: 2}, zones: [a, b], labels: {disk: ssd}}
- {name: big, count: 1, capacity: {cpu: 8, memory: 32Gi, pods: 20}, labels: {node.kubernetes.io/instance-type: x8.large}}
- {name: spot, count: 9, capacity: {cpu: 64, memory: 256Gi}, taints: [{key: spot, effect: NoSchedule}]}
`

func TestTypesOfFile(t *testing.T) {
	list, err := typesOfFile(file(t, "types.yaml", types), "node.kubernetes.io/instance-type")
	if err != nil || len(list) != 3 {
		t.Fatalf("%v: %+v", err, list)
	}
	small, big := list[0], list[1]
	if small.Limit != 5 || len(small.Nodes) != 2 || small.Nodes[1].MilliCPU != 1500 || small.Nodes[1].GPU != 2 || small.Nodes[1].Pods != 110 {
		t.Errorf("%+v", small)
	}
	for i, want := range []string{`"topology.kubernetes.io/zone":"a"`, `"topology.kubernetes.io/zone":"b"`} {
		if l := small.Nodes[i].Labels; !strings.Contains(l, want) || !strings.Contains(l, `"disk":"ssd"`) ||
			!strings.Contains(l, `"node.kubernetes.io/instance-type":"small"`) {
			t.Errorf("%s", l)
		}
	}
	if len(big.Nodes) != 1 || big.Nodes[0].Memory != 32<<30 || big.Nodes[0].Pods != 20 ||
		!strings.Contains(big.Nodes[0].Labels, `"node.kubernetes.io/instance-type":"x8.large"`) {
		t.Errorf("%+v", big)
	}
	if taints := list[2].Nodes[0].Taints; taints != `[{"key":"spot","effect":"NoSchedule"}]` {
		t.Errorf("%s", taints)
	}
}

// The files in docs/how-to/plan.md can be read, and the prices have all types.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../../docs/how-to/plan.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```yaml\n")
	if len(blocks) != 3 {
		t.Fatalf("docs/how-to/plan.md has %d files", len(blocks)-1)
	}
	pools, _, _ := strings.Cut(blocks[1], "```")
	priced, _, _ := strings.Cut(blocks[2], "```")
	prices, err := replay.ParsePrices([]byte(priced))
	if err != nil {
		t.Fatal(err)
	}
	if list, err := typesOf(file(t, "types.yaml", pools), &replay.Source{}, prices); err != nil || len(list) != 4 {
		t.Errorf("%v: %+v", err, list)
	}
}

// The cheapest mix, of a file and of the record's own types.
func TestTypes(t *testing.T) {
	for _, c := range []struct {
		types, prices string
		mix           map[string]int
		price         float64
		paid          bool
	}{
		{file(t, "types.yaml", types), "{nodes: {small: 1, x8.large: 3, spot: 0.5}}", map[string]int{"small": 2}, 2, false},
		{file(t, "types.yaml", types), "{nodes: {small: 2, x8.large: 3, spot: 0.5}}", map[string]int{"big": 1}, 3, false},
		{file(t, "types.yaml", types), "{other: {core: 1}}", map[string]int{"small": 2}, 3, true},
		{"ssd,hdd", "{label: disk, nodes: {ssd: 2, hdd: 1}}", map[string]int{"hdd": 1}, 1, true},
		{"ssd", "{label: disk, nodes: {ssd: 2, hdd: 1}}", map[string]int{"ssd": 1}, 2, true},
	} {
		for _, seconds := range []int64{0, 60} {
			out, err := runPlan(t, "--types", c.types, "--prices", file(t, "prices.yaml", c.prices), "--profile", "default", "-o", "json",
				write(t, seconds))
			if err != nil {
				t.Fatal(err)
			}
			var m plan.Mixes
			if err := json.Unmarshal([]byte(out), &m); err != nil {
				t.Fatal(err)
			}
			p := m.Profiles[0]
			if !p.Found || !reflect.DeepEqual(p.Mix, c.mix) || p.Price != c.price || p.Bound > p.Price || (m.Paid != nil) != c.paid {
				t.Errorf("%s: %+v", c.prices, m)
			}
		}
	}
	out, err := runPlan(t, "--types", "hdd", "--prices", file(t, "prices.yaml", "{label: disk, nodes: {ssd: 2, hdd: 1}}"), "--profile",
		"default", write(t, 60))
	if err != nil || !strings.Contains(out, "The 2 recorded workers cost 3.0000 an hour.") || !strings.Contains(out, "1 hdd") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestBadTypes(t *testing.T) {
	dir, good := write(t, 60), file(t, "types.yaml", types)
	prices := file(t, "prices.yaml", "{nodes: {small: 1, x8.large: 3, spot: 0.5}}")
	tiny := file(t, "tiny.yaml", "pools: [{name: small, count: 9, capacity: {cpu: 100m, memory: 1Gi}}, {name: spot, count: 9, capacity: "+
		"{cpu: 64, memory: 64Gi}, taints: [{key: spot, effect: NoSchedule}]}]")
	for _, c := range []struct {
		args []string
		says string
		hint string
	}{
		{[]string{"--types", good, dir}, "--types needs --prices FILE", "docs/how-to/compare.md"},
		{[]string{"--types", good, "--prices", "none.yaml", dir}, "--prices: open none.yaml", "docs/how-to/compare.md"},
		{[]string{"--types", good, "--prices", file(t, "p.yaml", "{nodes: {small: 1}}"), dir}, "--prices says nothing of the types big, spot",
			"node.kubernetes.io/instance-type"},
		{[]string{"--types", "none.yaml", "--prices", prices, dir}, "open none.yaml", ""},
		{[]string{"--types", file(t, "x.yaml", "pools: []"), "--prices", prices, dir}, "must list at least one pool", "docs/reference/nodes.md"},
		{[]string{"--types", "m5.large", "--prices", prices, dir}, `"m5.large" is no file`,
			"no worker of the record has the label node.kubernetes.io/instance-type"},
		{[]string{"--types", "ssd,m5.large", "--prices", file(t, "p.yaml", "{label: disk, nodes: {ssd: 1}}"), dir}, `"m5.large" is no file`,
			"the record has nodes of hdd, ssd"},
		{[]string{"--types", tiny, "--prices", prices, "--profile", "default", dir},
			"2 pods fit no type under default-scheduler\n  shop/web-a: small: Insufficient cpu; spot: node(s) had untolerated taint(s)",
			"add a type"},
		{[]string{"--prices", prices, dir}, "--prices has no effect without --types", ""},
		{[]string{"--types", good, "--fewest", dir}, "--fewest and --types ask for different plans", ""},
	} {
		_, err := runPlan(t, c.args...)
		var known *exit.Error
		if !errors.As(err, &known) || known.Code != exit.Usage || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(known.Hint, c.hint) {
			t.Errorf("%v: %v (%v), want %q (%q)", c.args, err, known, c.says, c.hint)
		}
	}
}

// A control-plane node whose name the mix would use is an error, not a mix.
func TestNamesTaken(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r")
	w, err := record.Create(dir, record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.Node(record.Node{
		Name: "big-0", Labels: `{"node-role.kubernetes.io/control-plane":""}`, From: 1_700_000_000_000, MilliCPU: 4000, Memory: 8 << 30, Pods: 10,
	})
	w.Pod(record.Pod{UID: "x", Namespace: "shop", Name: "x", MilliCPU: 100, Arrived: 1_700_000_000_000})
	w.Run(record.Run{ID: "1", From: 1_700_000_000_000, To: 1_700_000_060_000})
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = runPlan(t, "--types", file(t, "types.yaml", types), "--prices", file(t, "p.yaml", "{other: {core: 1}}"), "--profile",
		"default", dir)
	var known *exit.Error
	if !errors.As(err, &known) || !strings.Contains(err.Error(), "type big: its nodes would be named like the control-plane node big-0") ||
		known.Hint != "give the type another name" {
		t.Error(err)
	}
}
