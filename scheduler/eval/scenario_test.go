package eval

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/workload/record"
)

func TestScenarios(t *testing.T) {
	for _, s := range Scenarios() {
		if found, err := Find(s.Name); err != nil || found.About != s.About || s.About == "" {
			t.Errorf("%s: found %v, %v", s.Name, found, err)
		}
		// A scenario survives being written as YAML and read again.
		text := fatal.Value(yaml.Marshal(s))(t)
		again, err := Read("again.yaml", text)
		if err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		if d := cmp.Diff(s, again[0], cmp.AllowUnexported(Threshold{}, term{})); d != "" {
			t.Errorf("%s, written and read:\n%s", s.Name, d)
		}
	}
	if _, err := Find("nowhere"); err == nil || !strings.Contains(err.Error(), "aaml, ") {
		t.Errorf("got %v", err)
	}
	// The scenario aaml has the size of AAML's experiment: 32 pods of 1 CPU for each of ten nodes, or a few
	// more, because the last deployment goes over the load.
	aaml := fatal.Value(Find("aaml"))(t)
	o := compare(t, aaml, []uint64{1}).Results[0].Outcomes[0]
	if o.Nodes != 10 || o.Arrived < 320 || o.Arrived > 334 || o.Unscheduled != 0 {
		t.Errorf("%+v", o)
	}
}

func TestSelect(t *testing.T) {
	selected := func(pattern string) string {
		s, err := selectScenarios(pattern)
		if err != nil {
			return err.Error()
		}
		out := each.Map(s, func(x Scenario) string { return x.Name })
		return strings.Join(out, " ")
	}
	for pattern, want := range map[string]string{
		"all": strings.Join(names(), " "), "mixed": "mixed", "m*d": "mixed", "hetero*": "hetero70 hetero80 hetero90 hetero95",
	} {
		if got := selected(pattern); got != want {
			t.Errorf("%s: %s, want %s", pattern, got, want)
		}
	}
	for pattern, say := range map[string]string{"moon": "there are aaml", "moon*": `matches "moon*"; there are aaml`, "[": "not a pattern"} {
		if got := selected(pattern); !strings.Contains(got, say) {
			t.Errorf("%s: %s, want %s", pattern, got, say)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	good := fatal.Value(Source("aaml"))(t)
	with := func(old, now string) string {
		text := strings.Replace(string(good), old, now, 1)
		if text == string(good) {
			t.Fatalf("%q is not in the file", old)
		}
		return text
	}
	for name, c := range map[string]struct{ text, say string }{
		"empty":            {"# nothing\n---\n", "the file has no scenario"},
		"no YAML":          {"name: [", "f.yaml: "},
		"unknown field":    {with("controlPlane:", "controlPlain:"), `f.yaml: scenario aaml: unknown field "controlPlain"`},
		"doubled field":    {with("controlPlane:", "name: x\ncontrolPlane:"), `"name"`},
		"wrong type":       {with("controlPlane: true", "controlPlane: much"), "controlPlane"},
		"no value of it":   {with("objective: balance", "objective: beauty"), "no term is called"},
		"no objective":     {with("objective: balance", ""), "objective: it has no term"},
		"out of range":     {with("objective: balance", "objective: balance\nturnover: -1"), "turnover: -1"},
		"wrong threshold":  {with("objective:", "thresholds: [a.cpuStd]\nobjective:"), "write <, <=, > or >= between"},
		"nameless":         {with("name: aaml", ""), "name: "},
		"named all":        {with("name: aaml", "name: all"), "name: "},
		"the same twice":   {string(good) + "\n---\n" + string(good), "f.yaml: scenario aaml: two scenarios"},
		"wrong in another": {string(good) + "\n---\nname: second\n", "f.yaml: scenario second: "},
	} {
		if _, err := Read("f.yaml", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.say) ||
			!strings.HasPrefix(err.Error(), "f.yaml: ") {
			t.Errorf("%s: %v, want %q", name, err, c.say)
		}
	}
	two, err := Read("f.yaml", []byte(string(good)+"---\n"+with("name: aaml", "name: other")))
	if err != nil || len(two) != 2 || two[1].Name != "other" {
		t.Errorf("two scenarios: %v, %v", two, err)
	}
}

// The shapes of a shapes file beside the scenario's join its own.
func TestReadAddsShapes(t *testing.T) {
	good := fatal.Value(Source("harvest"))(t)
	dir := t.TempDir()
	read := func(shapes string) ([]Scenario, error) {
		fatal.If(t, os.WriteFile(filepath.Join(dir, "vms.yaml"), []byte(shapes), 0o600))
		return Read(filepath.Join(dir, "f.yaml"), []byte(string(good)+"shapesFile: vms.yaml\n"))
	}
	got := fatal.Value(read("shapes:\n- {name: vm-1, requests: {cpu: 2}, usage: {cpu: 1}}\n"))(t)
	if s := got[0].Shapes; len(s) < 2 || s[len(s)-1].Name != "vm-1" || s[0].Name == "vm-1" {
		t.Errorf("shapes %+v", s)
	}
	for shapes, say := range map[string]string{
		"shapes:\n- {name: web}\n":                      `"web" is the name of another shape`,
		"shapes:\n- {name: vm-1, usage: {cpu: lots}}\n": "vms.yaml: shapes[0].usage.cpu: ",
	} {
		if _, err := read(shapes); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: %v, want %q", shapes, err, say)
		}
	}
	if _, err := Read("f.yaml", []byte(string(good)+"shapesFile: none.yaml\n")); err == nil ||
		!strings.Contains(err.Error(), "shapesFile: open none.yaml") {
		t.Errorf("error %v", err)
	}
}

func FuzzRead(f *testing.F) {
	for _, n := range names() {
		text := fatal.Value(Source(n))(f)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := Read("f.yaml", data); (err == nil) == (len(s) == 0) {
			t.Fatalf("%d scenarios and %v", len(s), err)
		}
	})
}

// The nodes of a record beside the scenario join its own pools, as they were at the time.
func TestReadAddsNodes(t *testing.T) {
	dir := t.TempDir()
	w := fatal.Value(record.Create(filepath.Join(dir, "prod.record"), record.Options{}))(t)
	w.Node(record.Node{Name: "a", From: 1000, MilliCPU: 8000, Memory: 1 << 34, Pods: 110, Labels: `{"topology.kubernetes.io/zone":"x"}`})
	w.Node(record.Node{Name: "b", From: 1000, To: 3000, Gone: true, MilliCPU: 4000, Memory: 1 << 34, Pods: 110})
	fatal.Value(w.Close())(t)
	for file, want := range map[string]int{"prod.record": 1, "prod.record@1970-01-01T00:00:02Z": 2} {
		text := "name: mine\nabout: x\nnodesFile: " + file +
			"\nshapes: [{name: web, weight: 1, requests: {cpu: 1}}]\nreplicas: 2\nload: 0.5\nobjective: balance\n"
		got, err := Read(filepath.Join(dir, "f.yaml"), []byte(text))
		if err != nil || len(got[0].Pools) != want || got[0].Pools[0].Zone != "x" || got[0].Pools[0].Allocatable.MilliCPU != 8000 {
			t.Errorf("%s: %+v, %v", file, got, err)
		}
	}
	if _, err := Read("f.yaml", []byte("name: mine\nnodesFile: none.record\n")); err == nil ||
		!strings.Contains(err.Error(), "nodesFile: none.record is not the folder of a record") {
		t.Errorf("error %v", err)
	}
}

// The example scenario in docs/reference/scenario-file.md is valid.
func TestScenarioInTheDocs(t *testing.T) {
	const page = "docs/reference/scenario-file.md"
	text := fatal.Value(os.ReadFile("../../" + page))(t)
	_, rest, _ := strings.Cut(string(text), "\n```yaml\n")
	example, _, _ := strings.Cut(rest, "\n```")
	if s, err := Read(page, []byte(example)); err != nil || len(s) != 1 {
		t.Errorf("%d scenarios, %v in\n%s", len(s), err, example)
	}
}

// Every metric has a description, for docs/reference/objectives.md.
func TestMetricsAreDescribed(t *testing.T) {
	for _, m := range Metrics {
		if m.About() == "" {
			t.Errorf("the metric %s has no description", m.Name)
		}
	}
	for _, m := range slices.Concat(Metrics, Filling) {
		if found, err := FindMetric(m.Name); err != nil || found.Title != m.Title {
			t.Errorf("--metrics %s finds %q and %v, want %q", m.Name, found.Title, err, m.Title)
		}
	}
}
