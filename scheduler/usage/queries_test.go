package usage

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	clocktesting "k8s.io/utils/clock/testing"

	"gnnsched/internal/cluster"
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

func list(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// The error of the nodes' clock. a's sample is 30 s older than b's.
func TestMetricsAPI(t *testing.T) {
	for _, c := range []struct {
		off  time.Duration
		a, b float64 // times of the measurements
		bad  bool
	}{
		{0, 99_970, 100_000, false}, {-time.Minute, 99_970, 100_000, false}, {time.Minute, 99_970, 100_000, false},
		{-2 * time.Minute, 99_850, 99_880, false}, {-time.Hour, 0, 0, true}, {time.Hour, 0, 0, true},
	} {
		t.Run(c.off.String(), func(t *testing.T) {
			clk := clocktesting.NewFakeClock(time.Unix(100_000, 0))
			gone := false
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				at := func(age time.Duration) metav1.Time { return metav1.NewTime(time.Unix(100_000, 0).Add(c.off - age)) }
				w.Header().Set("Content-Type", "application/json")
				switch {
				case gone || !strings.HasPrefix(r.URL.Path, "/apis/metrics.k8s.io/v1beta1/"):
					http.NotFound(w, r)
				case strings.HasSuffix(r.URL.Path, "/nodes"):
					_ = json.NewEncoder(w).Encode(metricsv1beta1.NodeMetricsList{Items: []metricsv1beta1.NodeMetrics{
						{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Timestamp: at(30 * time.Second), Usage: list("1500m", "1Gi")},
						{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Timestamp: at(0), Usage: list("250m", "2Gi")},
						{ObjectMeta: metav1.ObjectMeta{Name: "another-cluster"}, Timestamp: at(0), Usage: list("1", "1")},
					}})
				default:
					_ = json.NewEncoder(w).Encode(metricsv1beta1.PodMetricsList{Items: []metricsv1beta1.PodMetrics{{
						ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-1"},
						Containers: []metricsv1beta1.ContainerMetrics{{Usage: list("100m", "1Mi")}, {Usage: list("50m", "2Mi")}},
					}}})
				}
			}))
			defer server.Close()
			p, err := newPoller(Config{Source: MetricsAPISource}, &rest.Config{Host: server.URL}, webPods, clk)
			if err != nil {
				t.Fatal(err)
			}
			p.poll(t.Context(), klog.Background())
			table := p.store.current()
			if c.bad {
				if len(table.Nodes) != 0 {
					t.Fatalf("nodes %+v", table.Nodes)
				}
				return
			}
			a, b := table.Nodes["a"], table.Nodes["b"]
			if a == nil || b == nil || a.At != c.a || b.At != c.b || a.Measured[cluster.UsedCPU].Mean != 1500 ||
				b.Measured[cluster.UsedMemory].Mean != 2<<30 {
				t.Errorf("a %+v\nb %+v", a, b)
			}
			if w := table.Workloads["ns/Deployment/web"]; w == nil || w.Measured[cluster.UsedCPU].Mean != 150 ||
				w.Measured[cluster.UsedMemory].Mean != 3<<20 {
				t.Errorf("workload %+v", w)
			}
			gone = true
			clk.Step(4 * time.Minute)
			p.poll(t.Context(), klog.Background())
			if got := p.store.nodes["a"].degraded; got != usageFailed {
				t.Errorf("without the API a is %q", got)
			}
		})
	}
}
