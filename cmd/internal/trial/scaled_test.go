package trial

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
)

const smallScenario = `
name: small
about: 4 nodes of 8 CPUs, two with a local disk
pools:
- {count: 2, allocatable: {cpu: 8, memory: 32Gi, pods: 110}}
- {count: 2, allocatable: {cpu: 8, memory: 32Gi, pods: 110}, labels: {disk: local}}
shapes:
- {name: web, weight: 3, requests: {cpu: 1, memory: 2Gi}}
- {name: store, weight: 1, requests: {cpu: 2, memory: 4Gi}, nodeSelector: {disk: local}}
replicas: {min: 1, max: 3}
load: 0.6
turnover: 3
objective: waiting
`

// Episodes are drawn anew for each seed, an autoscaler plays them, and the report is that of gnnsched compare.
func TestScaled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "small.yaml")
	fatal.If(t, os.WriteFile(file, []byte(smallScenario), 0o600))
	args := []string{"eval", "--log-dir=", "--autoscaler", "cluster-autoscaler", "--scenario", file, "--seeds", "2", "--policies", "kube-scheduler,most-allocated"}
	code, out, errs := command(t, args...)
	if code != exit.OK {
		t.Fatalf("%d: %s", code, errs)
	}
	fatal.Golden(t, "scaled.txt", out)
	type row struct {
		Name    string             `json:"name"`
		Figures map[string]float64 `json:"figures"`
		Scaled  struct {
			Hours map[string]float64 `json:"node_hours"`
		} `json:"autoscaler"`
	}
	var r struct {
		Scenario string
		Rows     []row
	}
	if code, out, errs = command(t, append(args, "-o", "json")...); code != exit.OK {
		t.Fatalf("%d: %s", code, errs)
	}
	fatal.If(t, json.Unmarshal([]byte(out), &r))
	if r.Scenario != "small" || len(r.Rows) != 2 || r.Rows[0].Name != "kube-scheduler" {
		t.Errorf("%+v", r)
	}
	// Nodes that stay cost what their type costs: 4 of balanced-8, at 0.48 an hour.
	args[3] = "none"
	if code, out, errs = command(t, append(args, "-o", "json", "--unit", "10s")...); code != exit.OK {
		t.Fatalf("%d: %s", code, errs)
	}
	fatal.If(t, json.Unmarshal([]byte(out), &r))
	for _, x := range r.Rows {
		if math.Abs(x.Figures["price_per_day"]-4*24*0.48) > 1e-6 || x.Scaled.Hours["balanced-8"] <= 0 {
			t.Errorf("%+v", x)
		}
	}
}

func TestScaledRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"--live does not go with --autoscaler":       {"--autoscaler", "none", "--live"},
		"--objective does not go with --autoscaler":  {"--autoscaler", "none", "--objective", "pack"},
		"--threshold does not go with --autoscaler":  {"--autoscaler", "none", "--threshold", "gnn.cost < 1"},
		"--from does not go with --autoscaler":       {"--autoscaler", "none", "--from", "r.json"},
		"--nodepools goes with --autoscaler only":    {"--nodepools", "pools.yaml"},
		"--unit goes with --autoscaler only":         {"--unit", "10s"},
		"its unit of time is 15 s; leave --unit out": {"--autoscaler", "none", "--scenario", "blind", "--unit", "10s"},
		"first-fit:fgd has no profile":               {"--autoscaler", "none", "--policies", "first-fit:fgd"},
		"most-allocated, ":                           {"--autoscaler", "none", "--policies", "clairvoyant:gnn"},
		"--workers does not go with --autoscaler":    {"--autoscaler", "none", "--workers", "2"},
		"--unit 25h0m0s is not":                      {"--autoscaler", "none", "--unit", "25h"},
		"mig is for":                                 {"--autoscaler", "none", "--scenario", "mig-uniform"},
		"when their work is done":                    {"--autoscaler", "none", "--scenario", "energy"},
		"optimum is for":                             {"--autoscaler", "none", "--scenario", "tiny"},
		"lose is for":                                {"--autoscaler", "none", "--scenario", "lossy"},
		"choose table, csv or json":                  {"--autoscaler", "none", "--scenario", "jobs", "-o", "markdown"},
		`no autoscaler is called "keda"`:             {"--autoscaler", "keda"},
	} {
		if code, _, errs := command(t, append([]string{"eval", "--log-dir="}, args...)...); code != exit.Usage || !strings.Contains(errs, want) {
			t.Errorf("%v: %d: %s, want %q", args, code, errs, want)
		}
	}
}
