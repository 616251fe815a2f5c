// Package suite runs Kubernetes' scheduler_perf with our plugins in the scheduler. schedbench
// builds it as a program, which is why it has no other files: scheduler_perf needs the package testing.
package suite

import (
	"flag"
	"fmt"
	"os"
	"testing"

	_ "k8s.io/component-base/logs/json/register" // -logging-format=json
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"

	"gnnsched/scheduler/plugin"
)

var config = flag.String("config", "performance-config.yaml", "the workloads, as in scheduler_perf")

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
	perf.RunBenchmarkPerfScheduling(b, *config, "upstream", plugin.Registry(nil))
}
