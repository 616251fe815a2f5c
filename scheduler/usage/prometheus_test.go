package usage

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	clocktesting "k8s.io/utils/clock/testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/internal/promapi"
)

// fakePrometheus answers each query with a vector, and other requests as the test sets.
type fakePrometheus struct {
	vector  func(query string) string // the result, in JSON
	handler atomic.Pointer[http.HandlerFunc]
	token   atomic.Value // of the last request
}

func (f *fakePrometheus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.token.Store(r.Header.Get("Authorization"))
	if h := f.handler.Load(); h != nil {
		(*h)(w, r)
		return
	}
	if r.URL.Path != "/api/v1/query" || r.Method != http.MethodPost || r.FormValue("time") != "" {
		http.Error(w, "what is that", http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, f.vector(r.FormValue("query")))
}

func (f *fakePrometheus) answer(h http.HandlerFunc) { f.handler.Store(&h) }

// sample is one element of a vector; the server's clock says 5000.
func sample(labels, value string) string {
	return fmt.Sprintf(`{"metric":{%s},"value":[5000,%q]}`, labels, value)
}

// twoNodes answers the default queries for the nodes a, by its address, and b.
func twoNodes(query string) string {
	switch query {
	case defaultQueries[ageQuery]:
		return sample(`"instance":"10.0.0.1:9100"`, "4990")
	case defaultQueries["node_cpu"]:
		return sample(`"instance":"10.0.0.1:9100"`, "1.5") + "," + sample(`"node":"b","instance":"elsewhere:1"`, "0.5") + "," +
			sample(`"node":"b"`, "0.4")
	case defaultQueries["node_memory"]:
		return sample(`"node":"a"`, "1e9") + "," + sample(`"node":"b"`, "2e9")
	case defaultQueries["node_disk_read"]:
		return sample(`"node":"a"`, "NaN") + "," + sample(`"node":"b"`, "-Inf")
	case defaultQueries["pod_cpu"]:
		return sample(`"namespace":"ns","pod":"web-1"`, "0.25")
	}
	return ""
}

var webPods = fakeDirectory{map[string]string{"ns/web-1": "ns/Deployment/web"}}

// start returns a poller of a server at the time 100,000 by our clock.
func start(t *testing.T, c Config, s *httptest.Server) (*poller, *clocktesting.FakeClock) {
	t.Helper()
	t.Cleanup(s.Close)
	c.Source, c.Address = PrometheusSource, s.URL
	clk := clocktesting.NewFakeClock(time.Unix(100_000, 0))
	p := fatal.Value(newPoller(c, nil, webPods, clk))(t)
	return p, clk
}

func TestPrometheus(t *testing.T) {
	p, _ := start(t, Config{}, httptest.NewServer(&fakePrometheus{vector: twoNodes}))
	p.poll(t.Context(), klog.Background())
	a, b := p.store.current().Nodes["a"], p.store.current().Nodes["b"]
	if a == nil || b == nil {
		t.Fatalf("nodes %+v", p.store.current().Nodes)
	}
	if a.At != 99_990 || b.At != 100_000 {
		t.Errorf("measured at %v and %v: the age is by the server's clock", a.At, b.At)
	}
	if a.Measured[cluster.UsedCPU].Mean != 1500 || b.Measured[cluster.UsedCPU].Mean != 500 || b.Measured[cluster.UsedMemory].Mean != 2e9 {
		t.Errorf("a %+v\nb %+v", a, b)
	}
	if a.Known[cluster.DiskRead] || b.Known[cluster.DiskRead] || a.Known[cluster.NetworkIn] {
		t.Error("what is not a number is known")
	}
	if got := p.store.current().Workloads["ns/Deployment/web"].Measured[cluster.UsedCPU].Mean; got != 250 {
		t.Errorf("the workload used %v", got)
	}
}

// A server that fails in any way costs nothing but its values.
func TestPrometheusFails(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"an error": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(400)
			fmt.Fprint(w, `{"status":"error","error":"parse error"}`)
		}, `Prometheus says "parse error"`},
		"no Prometheus": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "not an answer of Prometheus"},
		"unavailable":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, "server error: 503"},
		"redirects without end": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/", http.StatusFound)
		}, "stopped after 10 redirects"},
		"a matrix": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[]}}`)
		}, "not a vector"},
		"it hangs up": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakePrometheus{vector: twoNodes}
			p, clk := start(t, Config{}, httptest.NewServer(f))
			p.poll(t.Context(), klog.Background())
			f.answer(c.handler)
			if _, err := p.source.Measure(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			clk.Step(time.Minute)
			p.poll(t.Context(), klog.Background())
			if got := p.store.nodes["a"].degraded; got != "" {
				t.Errorf("after a minute a is %s", got)
			}
			clk.Step(3 * time.Minute)
			p.poll(t.Context(), klog.Background())
			if got := p.store.nodes["a"].degraded; got != usageFailed {
				t.Errorf("after four minutes a is %q", got)
			}
			f.handler.Store(nil)
			clk.Step(time.Minute)
			p.poll(t.Context(), klog.Background())
			if got := p.store.nodes["a"].degraded; got != "" {
				t.Errorf("after it is back a is %s", got)
			}
		})
	}
}

// A server that accepts and does not answer is given up after the timeout, by the clock.
func TestPrometheusHangs(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	f, asked := &fakePrometheus{vector: twoNodes}, make(chan struct{}, 100)
	f.answer(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // before that the server does not notice that the client goes
		asked <- struct{}{}
		<-r.Context().Done()
	})
	server := httptest.NewServer(f)
	defer server.Close()
	defer server.CloseClientConnections() // ends the handlers, even if the client does not
	clk := clocktesting.NewFakeClock(time.Unix(100_000, 0))
	p := fatal.Value(newPoller(Config{Source: PrometheusSource, Server: promapi.Server{Address: server.URL}}, nil, webPods, clk))(t)
	failed := polled(t, "error")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Run(ctx, klog.Background())
	}()
	<-asked
	if got := p.store.current(); len(got.Nodes) != 0 { // never waits
		t.Errorf("table %+v", got)
	}
	before := p.store.current()
	for p.store.current() == before {
		clk.Step(10 * time.Second)
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-ended
	if polled(t, "error") == failed || len(p.store.current().Nodes) != 0 {
		t.Error("the poll did not fail")
	}
	p.source.(*prometheus).client.HTTP.CloseIdleConnections()
}

func polled(t *testing.T, result string) float64 {
	t.Helper()
	return fatal.Value(testutil.GetCounterMetricValue(polls.WithLabelValues(result)))(t)
}

func TestPrometheusTLSAndToken(t *testing.T) {
	f := &fakePrometheus{vector: twoNodes}
	server := httptest.NewTLSServer(f)
	defer server.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	ca := write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	token := write("token", "secret-token\n")
	good := Config{Source: PrometheusSource, Server: promapi.Server{Address: server.URL, CAFile: ca, TokenFile: token, ServerName: "example.com"}}
	measure := func(c Config) error {
		p, err := newPrometheus(c)
		if err != nil {
			return err
		}
		defer p.client.HTTP.CloseIdleConnections()
		_, err = p.Measure(t.Context())
		return err
	}
	if err := measure(good); err != nil || f.token.Load() != "Bearer secret-token" {
		t.Errorf("error %v, token %v", err, f.token.Load())
	}
	unknown, other, missing := good, good, good
	unknown.CAFile, other.ServerName, missing.CAFile = "", "prometheus", filepath.Join(dir, "none.pem")
	for name, c := range map[string]Config{"unknown authority": unknown, "certificate is valid for example.com": other,
		"no such file": missing} {
		if err := measure(c); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v, want %q", err, name)
		}
	}
	strict := httptest.NewUnstartedServer(f)
	strict.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	strict.StartTLS()
	defer strict.Close()
	good.Address = strict.URL
	if err := measure(good); err == nil {
		t.Error("no error without a client's certificate")
	}
}

func TestConfig(t *testing.T) {
	for want, c := range map[string]Config{
		`source "" is not known`:          {},
		`source "influx" is not known`:    {Source: "influx"},
		"asked over the API server":       {Source: MetricsAPISource, Server: promapi.Server{Address: "http://x"}},
		"address must be a URL":           {Source: PrometheusSource, Server: promapi.Server{Address: "prometheus:9090"}},
		"a user or a password":            {Source: PrometheusSource, Server: promapi.Server{Address: "https://user:secret@prometheus"}},
		"a token is only sent over https": {Source: PrometheusSource, Server: promapi.Server{Address: "http://prometheus", TokenFile: "t"}},
		"need an address with https":      {Source: PrometheusSource, Server: promapi.Server{Address: "http://prometheus", CAFile: "t"}},
		"certFile and keyFile belong":     {Source: PrometheusSource, Server: promapi.Server{Address: "https://prometheus", CertFile: "t"}},
		`no query is called "node_gpu" (did you mean node_cpu?)`: {Source: PrometheusSource, Server: promapi.Server{Address: "https://prometheus"},
			Queries: map[string]string{"node_gpu": "x"}},
		"interval is 1s":                {Source: MetricsAPISource, Interval: duration(time.Second)},
		"want at least interval":        {Source: MetricsAPISource, MaxAge: duration(time.Second)},
		"want at least timeout (10m0s)": {Source: MetricsAPISource, Timeout: duration(10 * time.Minute)},
	} {
		if err := c.Default(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for _, c := range []Config{{Source: MetricsAPISource}, {Source: PrometheusSource, Server: promapi.Server{Address: "http://127.0.0.1:9090", TokenFile: "t"}}} {
		if err := c.Default(); err != nil {
			t.Error(err)
		}
	}
}

// answers is a transport that answers every request with the same text.
type answers []byte

// RoundTrip implements http.RoundTripper.
func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(a)), Request: r}, nil
}

// No answer makes the parser panic, or leaves a value in the store that is not finite.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"node":"a"},"value":[1,"2"]}]}}`))
	f.Add([]byte(`{"status":"success","data":{"resultType":"vector","result":[null]}}`))
	f.Add([]byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"node":"a"},"value":[1e300,"NaN"]},{"metric":{"node":"b"},"histogram":[1,{"count":"1"}]}]}}`))
	f.Add([]byte(`{"status":"error","error":"x"}`))
	c := config(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		client := promapi.Client{HTTP: &http.Client{Transport: answers(text)}, URL: "http://prometheus"}
		v, err := client.Query(t.Context(), "up", time.Time{})
		if err != nil {
			return
		}
		var m measurement
		for name := range defaultQueries {
			m.add(name, v)
		}
		s := newStore(c)
		s.Observe(m, false, 1000, fakeDirectory{map[string]string{"/": "x"}})
		for _, u := range s.current().Nodes {
			for d, x := range u.Measured {
				if sum := x.Mean + x.Deviation + x.HourMax + x.DayMax; math.IsNaN(sum) || math.IsInf(sum, 0) || x.Mean < 0 {
					t.Fatalf("dimension %d: %+v", d, x)
				}
			}
		}
	})
}

func duration(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

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
	fatal.If(t, os.WriteFile(file, []byte(text), 0o600))
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
			p := fatal.Value(newPoller(Config{Source: MetricsAPISource}, &rest.Config{Host: server.URL}, webPods, clk))(t)
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
