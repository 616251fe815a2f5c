package usage

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
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
