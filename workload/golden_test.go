package workload_test

import (
	"os"
	"strings"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/internal/golden"
	"gnnsched/workload"
	"gnnsched/workload/trace"
)

// The plan of a seed never changes, because results name seeds.
func TestPlanOfSeed1(t *testing.T) {
	p, err := workload.Generator{
		Seed: 1, Shapes: workload.DefaultShapes(), ReplicasMin: 5, ReplicasMax: 15, Fills: 2,
		Target:   workload.Load{CPU: 0.03, Memory: 0.03, Pods: 0.03},
		Capacity: cluster.Resources{MilliCPU: 640_000, Memory: 2560 << 30, Pods: 1100},
	}.Plan()
	fatal.If(t, err)
	var b strings.Builder
	fatal.If(t, trace.WritePlan(&b, p))
	golden.Check(t, "plan-seed-1.csv", b.String())
}

// Every shapes file and CSV in docs/reference/scenario-file.md is valid.
func TestExamplesInTheDocs(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/scenario-file.md")
	fatal.If(t, err)
	seen := map[string]int{}
	for i, part := range strings.Split(string(page), "\n```") {
		lang, body, _ := strings.Cut(part, "\n")
		if i%2 == 0 {
			continue // between two blocks
		}
		seen[lang]++
		switch lang {
		case "yaml":
			if !strings.HasPrefix(body, "shapes:") {
				continue // a scenario, which scheduler/eval checks
			}
			_, err = workload.ReadShapes("docs", []byte(body))
		case "csv":
			_, err = trace.ReadPlan(strings.NewReader(body), "docs")
		default:
			t.Errorf("a block of %q, which nothing checks", lang)
		}
		if err != nil {
			t.Errorf("%v in\n%s", err, body)
		}
	}
	if seen["yaml"] == 0 || seen["csv"] == 0 {
		t.Errorf("blocks found: %v", seen)
	}
}

// docs/reference/scenario-file.md describes every trace format.
func TestDocsHaveEveryFormat(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/scenario-file.md")
	fatal.If(t, err)
	for _, name := range []string{"openb", "arrivals", trace.Plan.Name} {
		if !strings.Contains(string(page), "\n| `"+name+"` |") {
			t.Errorf("docs/reference/scenario-file.md does not list the trace format %s", name)
		}
	}
}
