package server

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"gnnsched/internal/fatal"
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
	fatal.If(t, err)
	for _, c := range k.Clusters {
		c.Server = "https://" + address
		c.InsecureSkipTLSVerify, c.CertificateAuthority, c.CertificateAuthorityData = true, "", nil // a proxy's may be another
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	fatal.If(t, clientcmd.WriteToFile(*k, file))
	return file
}

// proxy starts a proxy to the cluster's API server.
func (l *lab) proxy(t *testing.T) *tcpProxy {
	t.Helper()
	u, err := url.Parse(l.cluster.URL())
	fatal.If(t, err)
	p, err := startProxy(u.Host)
	fatal.If(t, err)
	t.Cleanup(func() {
		if err := p.Refuse(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// A leader that cannot renew its lease, because the API server refuses connections or hangs, stands by again, and schedules after it.
func (l *lab) testLeaseLost(t *testing.T) {
	p := l.proxy(t)
	var log lines
	const name = "leader"
	c := Config{Profiles: []Profile{{SchedulerName: name, Args: Args{Policy: "best-fit"}}}, QPS: 1000, LeaderElect: true}
	defer l.runOn(log.context(context.Background()), t, c, l.through(t, p.address))()
	for i, leave := range []func() error{p.Refuse, p.Hang, nil} {
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
		if leave == nil {
			break
		}
		fatal.If(t, leave())
		l.until(t, "the lease to be lost", func() error {
			if n := log.count("Lost the lease: standing by again"); n != i+1 {
				return fmt.Errorf("it was lost %d times", n)
			}
			return nil
		})
		fatal.If(t, p.Restore())
	}
}
