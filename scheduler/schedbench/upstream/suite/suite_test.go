// Package suite runs Kubernetes' scheduler_perf with our plugins in the scheduler. ../run.sh builds and runs it.
// It has no other files because scheduler_perf needs the package testing.
package suite

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "k8s.io/component-base/logs/json/register" // -logging-format=json
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"
	"sigs.k8s.io/yaml"

	"gnnsched/scheduler/plugin"
)

var (
	config    = flag.String("config", "performance-config.yaml", "the workloads, as in scheduler_perf")
	scheduler = flag.String("scheduler", "", "the scheduler's configuration; empty for each workload's own")
	size      = flag.Float64("size", 0, "the most nodes and measured pods of a workload, which shrinks in proportion; 0 for upstream's sizes")
)

func TestMain(m *testing.M) {
	if err := perf.InitTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	m.Run()
}

// BenchmarkPerfScheduling runs the workloads for the benchmark, and also for the integration test:
// upstream's RunIntegrationPerfScheduling takes no plugins.
func BenchmarkPerfScheduling(b *testing.B) {
	perf.RunBenchmarkPerfScheduling(b, changed(b), "upstream", plugin.Registry(nil))
}

// changed writes the workloads with the scheduler's configuration and the size of the flags, and returns the file.
// It leaves out thresholds, which hold for upstream's machines.
func changed(b *testing.B) string {
	text, err := os.ReadFile(*config)
	if err != nil {
		b.Fatal(err)
	}
	var cases []map[string]any
	if err := yaml.Unmarshal(text, &cases); err != nil {
		b.Fatal(err)
	}
	for _, c := range cases {
		if *scheduler != "" {
			c["schedulerConfigPath"] = *scheduler
		}
		for _, w := range c["workloads"].([]any) {
			w := w.(map[string]any)
			delete(w, "threshold")
			if params, ok := w["params"].(map[string]any); ok && *size > 0 {
				shrink(params)
			}
		}
	}
	if text, err = yaml.Marshal(cases); err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(b.TempDir(), "performance-config.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		b.Fatal(err)
	}
	return file
}

// shrink shrinks all numbers of a workload in proportion, to 1 at least, because scheduler_perf wants some in a fixed relation.
func shrink(params map[string]any) {
	largest := *size
	for name, v := range params {
		if n, ok := v.(float64); ok && (name == "measurePods" || strings.Contains(strings.ToLower(name), "nodes")) {
			largest = max(largest, n)
		}
	}
	for name, v := range params {
		if n, ok := v.(float64); ok && n > 0 {
			params[name] = max(1, float64(int(n**size/largest)))
		}
	}
}
