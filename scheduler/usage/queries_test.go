package usage

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each default query has one series for a part before it adds parts up.
func TestQueriesAddUpOnce(t *testing.T) {
	sum := regexp.MustCompile(`sum by \(([^)]*)\) \(`)
	for name, q := range defaultQueries {
		for _, at := range sum.FindAllStringSubmatchIndex(q, -1) {
			if want := "max by (" + q[at[2]:at[3]] + ", "; !strings.HasPrefix(q[at[1]:], want) {
				t.Errorf("%s adds up what several jobs may have scraped: %s", name, q[at[0]:])
			}
		}
	}
}

// promtool returns Prometheus' tool, or skips the test.
func promtool(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("promtool"); err == nil {
		return path
	}
	path := filepath.Join("..", "..", ".cache", "prometheus", "usr", "bin", "promtool")
	if _, err := os.Stat(path); err != nil {
		t.Skip("prometheus is not installed: run make prometheus, or install Debian's package")
	}
	return path
}

// Prometheus' own evaluation gives the value of one job, though two scrape each exporter and some cgroups are shown twice.
func TestQueriesScrapedTwice(t *testing.T) {
	tool := promtool(t)
	const node, pod = `node="n",instance="i"`, `namespace="s",pod="p"`
	text := "evaluation_interval: 30s\ntests:\n"
	add := func(query, labels string, want float64, series ...string) {
		text += "- interval: 30s\n  input_series:\n"
		for _, s := range series { // each grows by 1 a second, or is 1
			values := "0+30x20"
			if name, ok := strings.CutPrefix(s, "gauge "); ok {
				s, values = name, "1x20"
			}
			for _, job := range []string{"a", "b"} {
				text += fmt.Sprintf("  - {series: '%s', values: '%s'}\n", strings.Replace(s, "{", `{job="`+job+`",`, 1), values)
			}
		}
		text += fmt.Sprintf("  promql_expr_test:\n  - expr: '%s'\n    eval_time: 5m\n    exp_samples: [{labels: '{%s}', value: %v}]\n",
			defaultQueries[query], labels, want)
	}
	add("node_cpu", node, 1, "node_cpu_usage_seconds_total{"+node+"}")
	add("node_cpu", node, 3, "node_cpu_seconds_total{mode=\"user\",cpu=\"0\","+node+"}",
		"node_cpu_seconds_total{mode=\"user\",cpu=\"1\","+node+"}",
		"node_cpu_seconds_total{mode=\"system\",cpu=\"1\","+node+"}", "node_cpu_seconds_total{mode=\"idle\",cpu=\"1\","+node+"}")
	add("node_cpu", node, 1, `container_cpu_usage_seconds_total{id="/",`+node+"}")
	add("node_memory", node, 1, "gauge node_memory_working_set_bytes{"+node+"}")
	add("node_network_in", node, 2, `node_network_receive_bytes_total{device="eth0",`+node+"}",
		`node_network_receive_bytes_total{device="eth1",`+node+"}")
	add("node_disk_write", node, 2, `container_fs_writes_bytes_total{id="/",device="a",`+node+"}",
		`container_fs_writes_bytes_total{id="/",device="b",`+node+"}")
	add(wattsQuery, node, 2, `kepler_node_cpu_joules_total{zone="package",path="0",`+node+"}",
		`kepler_node_cpu_joules_total{zone="package",path="1",`+node+"}")
	add(wattsQuery, node, 2, `node_rapl_package_joules_total{index="0",path="x",`+node+"}",
		`node_rapl_package_joules_total{index="1",path="y",`+node+"}")
	add(throttledQuery, node, 2, `container_cpu_cfs_throttled_seconds_total{container="c",id="/x",`+pod+","+node+"}",
		`container_cpu_cfs_throttled_seconds_total{container="c",id="/y",`+pod+","+node+"}",
		`container_cpu_cfs_throttled_seconds_total{container="d",`+pod+","+node+"}")
	add("pod_cpu", pod, 2, `container_cpu_usage_seconds_total{container="c",id="/x",`+pod+"}",
		`container_cpu_usage_seconds_total{container="c",id="/y",`+pod+"}",
		`container_cpu_usage_seconds_total{container="d",id="/z",`+pod+"}", `container_cpu_usage_seconds_total{id="/pod",`+pod+"}")
	add("pod_cpu", pod, 1, `pod_cpu_usage_seconds_total{`+pod+"}")
	add("pod_memory", pod, 1, `gauge container_memory_working_set_bytes{container="c",id="/x",`+pod+"}",
		`gauge container_memory_working_set_bytes{container="c",id="/y",`+pod+"}")
	add("pod_network_out", pod, 1, `container_network_transmit_bytes_total{interface="eth0",id="/x",`+pod+"}")
	add("pod_disk_read", pod, 2, `container_fs_reads_bytes_total{container="c",device="a",`+pod+"}",
		`container_fs_reads_bytes_total{container="d",device="a",`+pod+"}",
		`container_fs_reads_bytes_total{device="a",`+pod+"}")
	add("pod_disk_read", pod, 1, `container_fs_reads_bytes_total{device="a",`+pod+"}")
	for _, name := range slices.Sorted(maps.Keys(defaultQueries)) {
		text += fmt.Sprintf("- interval: 30s\n  promql_expr_test: [{expr: '%s', eval_time: 5m}]\n", defaultQueries[name])
	}
	file := filepath.Join(t.TempDir(), "tests.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tool, "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
