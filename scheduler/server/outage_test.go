package server

import (
	"context"
	"fmt"
	"io"
	stdlog "log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// lines collects what a scheduler logs for its user.
type lines struct {
	mu  sync.Mutex
	all []string
}

// context returns a context whose logger appends to l.
func (l *lines) context(ctx context.Context) context.Context {
	return klog.NewContext(ctx, funcr.New(func(_, line string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, line)
	}, funcr.Options{}))
}

// count returns the number of lines with a text.
func (l *lines) count(text string) (n int) { return l.countFrom(0, text) }

// countFrom is count without the first lines.
func (l *lines) countFrom(begin int, text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all[begin:] {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// text returns all lines.
func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

// through returns a kubeconfig that reaches the cluster through a proxy at an address.
func (l *lab) through(t *testing.T, address string) string {
	t.Helper()
	k, err := clientcmd.LoadFromFile(l.cluster.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range k.Clusters {
		c.Server = "https://" + address
		c.InsecureSkipTLSVerify, c.CertificateAuthority, c.CertificateAuthorityData = true, "", nil // a proxy's may be another
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*k, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// proxy starts a proxy to the cluster's API server.
func (l *lab) proxy(t *testing.T) *tcpProxy {
	t.Helper()
	u, err := url.Parse(l.cluster.URL())
	if err != nil {
		t.Fatal(err)
	}
	p, err := startProxy(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// outageTakes is the length of an outage.
const outageTakes = 13 * time.Second

// unreliable is a way to the API server that can be cut off.
type unreliable struct {
	address    string
	leave, end func() error
}

// failing returns a way that answers everything with status 503 while it is cut off.
func (l *lab) failing(t *testing.T) unreliable {
	t.Helper()
	target, err := url.Parse(l.cluster.URL())
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(l.cluster.REST())
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport, FlushInterval: -1, ErrorLog: stdlog.New(io.Discard, "", 0),
	}
	var away atomic.Bool
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			http.Error(w, "no server", http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return unreliable{
		address: s.Listener.Addr().String(),
		leave:   func() error { away.Store(true); s.CloseClientConnections(); return nil },
		end:     func() error { away.Store(false); return nil },
	}
}

// After an API server was away, whether it refused connections, hung or failed, new pods get a node.
func (l *lab) testOutage(t *testing.T) {
	refuses, hangs := l.proxy(t), l.proxy(t)
	for name, way := range map[string]unreliable{
		"refuses": {refuses.Address(), refuses.Refuse, refuses.Restore},
		"hangs":   {hangs.Address(), func() error { hangs.Hang(); return nil }, hangs.Restore},
		"fails":   l.failing(t),
	} {
		t.Run(name, func(t *testing.T) { l.testOutageOf(t, "outage-"+name, way) })
	}
}

func (l *lab) testOutageOf(t *testing.T, name string, way unreliable) {
	var log lines
	c := Config{Profiles: []Profile{{SchedulerName: name, Args: Args{Policy: "best-fit"}}}, QPS: 1000}
	defer l.runOn(log.context(context.Background()), t, c, l.through(t, way.address))()
	first, second := l.namespace(t, name), l.namespace(t, name+"-after")
	l.make(t, first, name, 1)
	l.bound(t, first, 1)
	if err := way.leave(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(outageTakes)
	if err := way.end(); err != nil {
		t.Fatal(err)
	}
	l.make(t, second, name, 1)
	l.bound(t, second, 1)
	l.untilReady(t)
}

// A leader that cannot renew its lease in an outage stands by again, and schedules after it.
func (l *lab) testLeaseLost(t *testing.T) {
	p := l.proxy(t)
	var log lines
	const name = "leader"
	c := Config{Profiles: []Profile{{SchedulerName: name, Args: Args{Policy: "best-fit"}}}, QPS: 1000, LeaderElect: true}
	defer l.runOn(log.context(context.Background()), t, c, l.through(t, p.Address()))()
	for i := range 2 {
		l.until(t, "the scheduler to lead", func() error {
			if n := log.count("This scheduler leads: it schedules"); n != i+1 {
				return fmt.Errorf("it said so %d times", n)
			}
			return nil
		})
		ns := l.namespace(t, fmt.Sprint(name, "-", i))
		l.make(t, ns, name, 1)
		l.bound(t, ns, 1)
		// The metrics that kube-scheduler takes from client-go are there too.
		metrics := l.metrics(t)
		if metrics.sum("leader_election_master_status", "name", "kube-scheduler") != 1 {
			t.Error("the metrics do not say that it leads")
		}
		for _, name := range []string{"rest_client_requests_total", "workqueue_depth", "kubernetes_build_info"} {
			if len(metrics[name]) == 0 {
				t.Errorf("no metric %s", name)
			}
		}
		if err := p.Refuse(); err != nil {
			t.Fatal(err)
		}
		l.until(t, "the lease to be lost", func() error {
			if n := log.count("Lost the lease: standing by again"); n != i+1 {
				return fmt.Errorf("it was lost %d times", n)
			}
			return nil
		})
		if err := p.Restore(); err != nil {
			t.Fatal(err)
		}
	}
}
