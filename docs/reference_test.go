package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/linear"
)

// described returns what the pages about registered things must have: "`name` | description", by page.
func described() map[string][]string {
	out := map[string][]string{}
	add := func(page, name, about string) {
		out[page] = append(out[page], "`"+name+"` | "+strings.ReplaceAll(about, "|", `\|`))
	}
	for _, s := range eval.Scenarios() {
		add("reference/scenarios.md", s.Name, s.About)
	}
	for _, h := range heuristic.List() {
		add("reference/policies.md", h.Name, h.About)
	}
	for _, f := range slices.Concat(heuristic.Forms(), eval.Forms) {
		add("reference/policies.md", f.Name, f.About)
	}
	for _, t := range objective.Terms {
		add("reference/objectives.md", t.Name(), t.(objective.Described).About())
	}
	for _, m := range eval.Metrics {
		out["reference/objectives.md"] = append(out["reference/objectives.md"], fmt.Sprintf("`%s` | %s | %s", m.Name, m.Title, m.About()))
	}
	for i, name := range linear.Features {
		add("reference/features.md", name, linear.Docs[i])
	}
	for i, name := range linear.State {
		add("reference/features.md", name, linear.StateDocs[i])
	}
	for _, s := range feature.Sets() {
		lists := [][]feature.Feature{feature.List(s.Node), feature.List(s.Group), feature.List(s.Pod), feature.List(s.Cluster),
			feature.List(s.Candidate)}
		for _, f := range slices.Concat(lists...) {
			add("reference/features.md", f.Name, f.Doc)
		}
	}
	for _, name := range checkpoint.ShippedNames() {
		for _, page := range []string{"reference/policies.md", "concepts/networks.md", "concepts/learning.md"} {
			add(page, name, "")
		}
	}
	for _, m := range exit.Meanings() {
		out["reference/exit-codes.md"] = append(out["reference/exit-codes.md"], fmt.Sprintf("| %d | %s |", m.Code, m.Text))
	}
	return out
}

// Every scenario, policy, objective, metric, feature, format and exit code is on its page, with its description.
func TestReferenceIsComplete(t *testing.T) {
	for page, rows := range described() {
		text := read(t, page)
		for _, row := range rows {
			if !strings.Contains(text, row) {
				t.Errorf("docs/%s lacks %q", page, row)
			}
		}
	}
}

// fieldsOf are the structs whose fields the pages list, by page, as FILE TYPE.
var fieldsOf = map[string][]string{
	"reference/scheduler-config.md": {"scheduler/plugin/args.go Args", "scheduler/plugin/canary/canary.go Args",
		"scheduler/plugin/args.go LearnArgs", "scheduler/usage/config.go Config", "internal/promapi/promapi.go Server",
		"scheduler/plugin/traffic/prometheus.go Config"},
	"reference/nodes.md": {"kwok/nodepool/pool.go Pool", "kwok/nodepool/devices.go Devices"},
	"reference/scenario-file.md": {"scheduler/sim/config.go Config", "scheduler/sim/process.go Arrivals", "scheduler/sim/running.go Lifetimes", "scheduler/sim/nodes.go Attributes",
		"scheduler/sim/trace.go Trace", "scheduler/sim/trace.go Resampling", "scheduler/sim/usage.go Usage", "scheduler/sim/traffic.go Traffic",
		"scheduler/sim/traffic.go Flow", "scheduler/sim/openb.go OpenB", "scheduler/sim/mig.go MIG", "scheduler/sim/openb.go Steady", "internal/cluster/usage.go PowerModel"},
	"reference/record-format.md": {"workload/record/rows.go Pod", "workload/record/rows.go Node", "workload/record/rows.go Object",
		"workload/record/rows.go Sample", "workload/record/rows.go Run"},
}

var tag = regexp.MustCompile("(?:json|yaml|parquet):\"([a-zA-Z_]+)")

// Every field of a file that people write or read is on its page.
func TestFieldsAreOnTheirPages(t *testing.T) {
	for page, structs := range fieldsOf {
		text := read(t, page)
		for _, s := range structs {
			file, name, _ := strings.Cut(s, " ")
			_, body, found := strings.Cut(read(t, "../"+file), "\ntype "+name+" struct {\n")
			body, _, _ = strings.Cut(body, "\n}\n")
			tags := tag.FindAllStringSubmatch(body, -1)
			if !found || len(tags) == 0 {
				t.Errorf("%s has no struct %s with names of fields", file, name)
			}
			for _, m := range tags {
				if !strings.Contains(text, "`"+m[1]+"`") {
					t.Errorf("docs/%s lacks the field %s of %s", page, m[1], s)
				}
			}
		}
	}
}

var (
	declared  = regexp.MustCompile(`\.(?:Counter|Gauge|Histogram)s?\(\s*"([a-z_]+)"`)
	mentioned = regexp.MustCompile("gnnsched_[a-z_]*[a-z]")
)

// The page of metrics has those that the code declares, and names no other, in alerts either.
func TestMetricsPage(t *testing.T) {
	text, known := read(t, "reference/metrics.md"), map[string]bool{"gnnsched_serve": true, "gnnsched_shadow": true}
	for _, folder := range top {
		err := fs.WalkDir(os.DirFS(filepath.Join(root, folder)), ".", func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source := read(t, filepath.Join("..", folder, path))
			if !strings.Contains(source, `"gnnsched/internal/metric"`) {
				return nil
			}
			for _, m := range declared.FindAllStringSubmatch(source, -1) {
				known["gnnsched_"+m[1]] = true
				if !strings.Contains(text, "| `gnnsched_"+m[1]+"` |") {
					t.Errorf("docs/reference/metrics.md lacks gnnsched_%s of %s/%s", m[1], folder, path)
				}
			}
			return nil
		})
		fatal.If(t, err)
	}
	for _, name := range mentioned.FindAllString(text, -1) {
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			if !known[name] {
				name = strings.TrimSuffix(name, suffix)
			}
		}
		if !known[name] {
			t.Errorf("there is no metric %s", name)
		}
	}
}

// read returns a file by its path from this folder.
func read(t *testing.T, path string) string {
	t.Helper()
	text := fatal.Value(os.ReadFile(path))(t)
	return string(text)
}
