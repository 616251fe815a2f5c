package usage

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
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
	p, err := newPoller(c, nil, webPods, clk)
	fatal.If(t, err)
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
	p, err := newPoller(Config{Source: PrometheusSource, Server: promapi.Server{Address: server.URL}}, nil, webPods, clk)
	fatal.If(t, err)
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
	n, err := testutil.GetCounterMetricValue(polls.WithLabelValues(result))
	fatal.If(t, err)
	return n
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
				if sum := x.Mean + x.Deviation + x.Trend + x.HourMax + x.DayMax; math.IsNaN(sum) || math.IsInf(sum, 0) || x.Mean < 0 {
					t.Fatalf("dimension %d: %+v", d, x)
				}
			}
		}
	})
}

func duration(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
