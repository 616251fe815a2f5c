package compare

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

// With an autoscaler, the first line says what is paid, and rows have nodes, evictions and hours of types.
func TestAutoscaler(t *testing.T) {
	dir, types, pools := recorded(t), filepath.Join(t.TempDir(), "types.yaml"), filepath.Join(t.TempDir(), "pools.yaml")
	for path, text := range map[string]string{
		types: "[{name: m, resources: {cpu: 8, memory: 32Gi}, overhead: {}, offerings: [{price: 0.5}]}]",
		pools: "{kind: NodePool, metadata: {name: p}}\n---\n{kind: EC2NodeClass, metadata: {name: c}, spec: {amiFamily: AL2023}}",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"--profile", "most-allocated", "--autoscaler", "cluster-autoscaler:price", "--types", types, "--nodepools", pools,
		"--seeds", "2", dir}
	code, out, errs := execute(t, args...)
	for _, want := range []string{"most-allocated ", " a day, not ", "price/day", "36.00", "hours of m", "nodes started", "core hours lost",
		"amiFamily of EC2NodeClass c", "NodePool p has no limits"} {
		if code != exit.OK || !strings.Contains(out, want) {
			t.Errorf("code %d, no %q: %s\n%s", code, want, errs, out)
		}
	}
	code, out, errs = execute(t, append([]string{"-o", "json"}, args...)...)
	var r result
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != exit.OK || len(r.Rows) != 3 {
		t.Fatalf("code %d: %s: %v", code, errs, err)
	}
	// Three machines of 0.5 are there at the beginning; one would do, and the others go after ten minutes, which is all that there is.
	if really := r.Rows[0].Figures[billFigure]; math.Abs(really-36) > 1e-6 || r.Rows[1].Scaled == nil || math.Abs(r.Rows[0].Scaled.Hours["m"]-0.5) > 1e-9 {
		t.Errorf("%+v", r.Rows[0])
	}
	if _, has := r.Rows[0].Figures["cost"]; has {
		t.Error("the objective's cost stands beside the price")
	}
	if code, out, _ = execute(t, append([]string{"-o", "csv", "--autoscaler", "none"}, args...)...); code != exit.OK ||
		!strings.Contains(out, "most-allocated, none") || !strings.Contains(out, "hours_m") {
		t.Errorf("code %d:\n%s", code, out)
	}
	code, out, errs = execute(t, append([]string{"-o", "csv", "--autoscaler", "cluster-autoscaler+deletion-costs+defrag"}, args...)...)
	if code != exit.OK || !strings.Contains(out, "most-allocated, cluster-autoscaler+deletion-costs+defrag") {
		t.Errorf("code %d: %s\n%s", code, errs, out)
	}
	page := filepath.Join(t.TempDir(), "page.html")
	if code, _, errs = execute(t, append([]string{"--html", page}, args...)...); code != exit.OK {
		t.Errorf("code %d: %s", code, errs)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "Price/day (upwards) against waiting") ||
		!strings.Contains(string(text), "most-allocated: waiting 0") {
		t.Errorf("%v: no chart of prices against waiting", err)
	}
	prices := filepath.Join(t.TempDir(), "prices.yaml")
	if err := os.WriteFile(prices, []byte("nodes: {m: 1}"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "pools.yaml")
	fatal.If(t, os.WriteFile(other, []byte("{kind: NodePool, metadata: {name: q}}"), 0o600))
	for say, args := range map[string][]string{
		"would both be called \"none pools\"": {"--autoscaler", "none", "--nodepools", pools, "--nodepools", other, dir},
		"did you mean cluster-autoscaler?":    {"--autoscaler", "cluster-autoscalr", dir},
		"+deletion-costs?":                    {"--autoscaler", "cluster-autoscaler+deletion-cost", dir},
		"mean cluster-autoscaler+defrag?":     {"--autoscaler", "cluster-autoscaler+defrag+other", dir},
		"is no utilisation of 0 to 1":         {"--autoscaler", "cluster-autoscaler@2", dir},
		"--at-most-waiting is -1":             {"--autoscaler", "cluster-autoscaler", "--at-most-waiting", "-1", dir},
		"choose one of least-waste":           {"--autoscaler", "cluster-autoscaler:cheapest", dir},
		"none has no settings to search":      {"--autoscaler", "none", "--at-most-waiting", "1", dir},
		"add --autoscaler":                    {"--nodepools", pools, dir},
		"prices are those of --types":         {"--autoscaler", "none", "--prices", prices, dir},
		"no such file":                        {"--autoscaler", "none", "--types", "nowhere.yaml", dir},
		"pools: json: cannot unmarshal array": {"--autoscaler", "none", "--nodepools", types, dir},
		"types: json: cannot unmarshal":       {"--autoscaler", "none", "--types", pools, dir},
	} {
		if code, _, errs := execute(t, args...); code != exit.Usage || !strings.Contains(errs, say) {
			t.Errorf("%q: code %d: %s, want %s", args, code, errs, say)
		}
	}
}
