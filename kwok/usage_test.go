package kwok

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned"

	"gnnsched/internal/fatal"
	"gnnsched/kwok/nodepool"
)

// TestUsage asks a cluster for its pods' usage as kubectl top and Prometheus do.
func TestUsage(t *testing.T) {
	checkLeaks(t)
	cl, cs := start(t, Config{Dir: t.TempDir(), Pools: nodepool.Default(2), UsageInterval: 200 * time.Millisecond})
	createUsing(t, cs, "model", "node-0", map[string]string{"gnnsched.io/usage": `{"cpu": "250m", "memory": "128Mi", "networkIn": 1000}`})
	createUsing(t, cs, "plain", "node-1", nil)

	mc, err := metricsclient.NewForConfig(cl.REST())
	fatal.If(t, err)
	ctx := t.Context()
	fatal.Until(t, "both pods are measured", func() error {
		list, err := mc.MetricsV1beta1().PodMetricses("").List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) != 2 {
			err = fmt.Errorf("%d pods", len(list.Items))
		}
		return err
	})
	list, err := mc.MetricsV1beta1().PodMetricses("default").List(ctx, metav1.ListOptions{LabelSelector: "app=model"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Containers[0].Usage.Cpu().MilliValue() != 250 {
		t.Errorf("by label: %+v, %v", list, err)
	}
	plain, err := mc.MetricsV1beta1().PodMetricses("default").Get(ctx, "plain", metav1.GetOptions{})
	if err != nil || plain.Containers[0].Usage.Cpu().MilliValue() != 1000 || plain.Containers[0].Usage.Memory().Value() != 1<<30 {
		t.Errorf("a pod without a model does not use half of its requests: %+v, %v", plain, err)
	}
	node, err := mc.MetricsV1beta1().NodeMetricses().Get(ctx, "node-0", metav1.GetOptions{})
	if err != nil || node.Usage.Cpu().MilliValue() != 300 {
		t.Errorf("node: %+v, %v", node, err)
	}
	if _, err := mc.MetricsV1beta1().NodeMetricses().Get(ctx, "node-9", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a node that is not there: %v", err)
	}
	checkTable(t, cs)
	checkDiscovery(t, cs)
	checkUsageAccess(t, cl)
	checkSockets(t)
	checkKubectlTop(t, cl)
	checkPrometheus(t, cl)
}

// createUsing creates a pod that requests 2 cores and 2Gi on a node.
func createUsing(t testing.TB, cs kubernetes.Interface, name, node string, annotations map[string]string) {
	t.Helper()
	_, err := cs.CoreV1().Pods("default").Create(context.Background(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}, Annotations: annotations},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("2Gi")},
		}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Error(err) // perhaps in a goroutine of its own
	}
}

// checkTable asks for a table, as kubectl get does.
func checkTable(t *testing.T, cs *kubernetes.Clientset) {
	t.Helper()
	raw := fatal.Value(cs.RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/model").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context()))(t)
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil || len(table.Rows) != 1 ||
		fmt.Sprint(table.Rows[0].Cells) != "[model 250m 128Mi 200ms]" {
		t.Errorf("%s, %v", raw, err)
	}
}

// checkDiscovery: kubectl top first asks whether the server lists the group.
func checkDiscovery(t *testing.T, cs *kubernetes.Clientset) {
	t.Helper()
	fatal.Until(t, "metrics.k8s.io is listed", func() error {
		groups, err := cs.Discovery().ServerGroups()
		if err != nil {
			return err
		}
		for _, g := range groups.Groups {
			if g.Name == "metrics.k8s.io" {
				return nil
			}
		}
		return fmt.Errorf("%d other groups", len(groups.Groups))
	})
}

// checkUsageAccess checks that the kubelets' pages need the token, and that a kubelet of the cluster has no
// other page.
func checkUsageAccess(t *testing.T, cl *Cluster) {
	t.Helper()
	anonymous := cl.REST()
	anonymous.BearerToken = ""
	cs := fatal.Value(kubernetes.NewForConfig(anonymous))(t)
	for _, path := range []string{"/api/v1/nodes/node-0/proxy/metrics/cadvisor", "/discovery/prometheus",
		"/apis/metrics.k8s.io/v1beta1/nodes"} {
		if _, err := cs.RESTClient().Get().AbsPath(path).DoRaw(t.Context()); !apierrors.IsUnauthorized(err) {
			t.Errorf("%s without the token: %v", path, err)
		}
	}
}

// checkKubectlTop runs kubectl, where it is installed.
func checkKubectlTop(t *testing.T, cl *Cluster) {
	t.Helper()
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Log("kubectl is not installed: its output was not checked")
		return
	}
	for args, want := range map[string]string{
		"top nodes":                        "node-0 300m 0% 428Mi 0%",
		"top pods --all-namespaces":        "default model 250m 128Mi",
		"top pods --selector=app=plain":    "plain 1000m 1024Mi",
		"top pods --containers":            "model main 250m 128Mi",
		"get nodes.metrics.k8s.io node-0 ": "node-0 300m 428Mi 200ms",
	} {
		c := exec.CommandContext(t.Context(), kubectl, strings.Fields(args)...)
		c.Env = append(os.Environ(), "KUBECONFIG="+cl.Kubeconfig(), "HOME="+t.TempDir())
		out, err := c.CombinedOutput()
		if got := strings.Join(strings.Fields(string(out)), " "); err != nil || !strings.Contains(got, want) {
			t.Errorf("kubectl %s: %v\n%s", args, err, out)
		}
	}
}

// checkPrometheus lets a real Prometheus scrape the cluster, with the configuration, rules and dashboards
// that docker compose uses.
func checkPrometheus(t *testing.T, cl *Cluster) {
	t.Helper()
	monitoring := filepath.Join("..", "compose", "monitoring")
	if _, err := exec.LookPath("prometheus"); err != nil {
		if _, err := os.Stat("../.cache/prometheus/usr/bin/prometheus"); err != nil {
			t.Log("prometheus is not installed: run make prometheus, or install Debian's package; it was not tested")
			return
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	address := l.Addr().String() // free in a moment; Prometheus does not report which port it chose
	_ = l.Close()
	ctx, cancel := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, filepath.Join(monitoring, "prometheus.sh"), cl.Kubeconfig())
	c.Env = append(os.Environ(), "PROMETHEUS_LISTEN="+address, "PROMETHEUS_INTERVAL=1s", "PROMETHEUS_REFRESH=1s",
		"PROMETHEUS_DATA="+t.TempDir(), "TMPDIR="+t.TempDir())
	var log strings.Builder
	c.Stdout, c.Stderr = &log, &log
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	fatal.If(t, c.Start())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	defer func() {
		cancel()
		_ = c.Wait() // its code is the signal's
		if t.Failed() {
			t.Logf("prometheus:\n%s", log.String())
		}
	}()
	query := func(q string) ([]float64, error) { return instantQuery(client, address, q) }
	for q, want := range map[string]float64{
		`count(up == 1)`: 9, // three nodes, three pages
		`round(sum(rate(kepler_node_cpu_joules_total{node_name="node-0", zone="package"}[10s])))`: 43, // 211 W at full load, a fifth of that idle
		`round(rate(container_network_receive_bytes_total{pod="model"}[10s]))`:                    1000,
		`round(rate(node_cpu_usage_seconds_total{instance="node-0"}[10s]), 0.01)`:                 0.3,
		`round(rate(container_cpu_usage_seconds_total{pod="plain"}[10s]), 0.01)`:                  1,
		`count(node:cpu:utilisation > 0)`:                                                         3,
		`pod_memory_working_set_bytes{namespace="default", pod="model", node!=""}`:                128 << 20,
		`count(container_fs_writes_bytes_total{pod="model"})`:                                     1,
	} {
		fatal.Until(t, q, func() error {
			got, err := query(q)
			if err == nil && (len(got) == 0 || got[0] != want) {
				err = fmt.Errorf("%v, want %v", got, want)
			}
			return err
		})
	}
	for _, expr := range dashboardQueries(t, filepath.Join(monitoring, "dashboards")) {
		fatal.Until(t, expr, func() error {
			got, err := query(strings.ReplaceAll(expr, "$__rate_interval", "10s"))
			if err == nil && len(got) == 0 {
				err = fmt.Errorf("the query of a dashboard finds nothing")
			}
			return err
		})
	}
}

// instantQuery returns the values of a vector.
func instantQuery(c *http.Client, address, q string) ([]float64, error) {
	res, err := c.Get("http://" + address + "/api/v1/query?" + url.Values{"query": {q}}.Encode())
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // nothing was written
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Error string
		Data  struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Error != "" {
		return nil, fmt.Errorf("%.300s: %w", body, err)
	}
	var out []float64
	for _, r := range answer.Data.Result {
		var v float64
		if _, err := fmt.Sscan(r.Value[1].(string), &v); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// dashboardQueries returns the expressions of all dashboards.
func dashboardQueries(t *testing.T, dir string) (out []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards in %s: %v", dir, err)
	}
	for _, f := range files {
		text := fatal.Value(os.ReadFile(f))(t)
		var board struct {
			Panels []struct {
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		for _, p := range board.Panels {
			for _, target := range p.Targets {
				out = append(out, target.Expr)
			}
		}
	}
	return out
}
