package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
	"gnnsched/kwok/nodepool"
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

// shortLease is a configuration whose lease is lost within seconds.
type shortLease struct{ Config }

// YAMLFor implements Configuration.
func (s shortLease) YAMLFor(kubeconfig string) ([]byte, error) {
	text, err := s.Config.YAMLFor(kubeconfig)
	const elects = "leaderElect: true\n"
	return bytes.Replace(text, []byte(elects), []byte(elects+"  leaseDuration: 3s\n  renewDeadline: 2s\n  retryPeriod: 300ms\n"), 1), err
}

// A leader that cannot renew its lease, because the API server refuses connections or hangs, stands by again, and schedules after it.
func (l *lab) testLeaseLost(t *testing.T) {
	p := l.proxy(t)
	var log lines
	const name = "leader"
	c := Config{Profiles: []Profile{{SchedulerName: name, Args: Args{Policy: "best-fit"}}}, QPS: 1000, LeaderElect: true}
	defer l.start(log.context(context.Background()), t, shortLease{c}, l.through(t, p.address))()
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

// tcpProxy forwards TCP connections to a server, and can make the server look as if it were gone or hung.
type tcpProxy struct {
	target, address string
	hanging         sync.RWMutex // locked for writing while the proxy hangs
	hangs           bool

	mu       sync.Mutex
	listener net.Listener
	closed   net.Listener // the last that was
	open     []net.Conn
}

// startProxy listens on a free port of 127.0.0.1 and forwards to the target, host:port. The caller must call Refuse at the end.
func startProxy(target string) (*tcpProxy, error) {
	p := &tcpProxy{target: target, address: "127.0.0.1:0"}
	if err := p.listen(); err != nil {
		return nil, err
	}
	p.address = p.listener.Addr().String()
	return p, nil
}

func (p *tcpProxy) listen() (err error) {
	if p.listener, err = net.Listen("tcp", p.address); err == nil {
		go p.accept(p.listener)
	}
	return err
}

// Refuse closes all connections and refuses new ones, as if the server had been killed.
func (p *tcpProxy) Refuse() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.listener.Close()
	p.closed = p.listener
	for _, c := range p.open {
		c.Close()
	}
	p.open = nil
	return err
}

// Hang keeps connections, accepts new ones, and forwards nothing, as if the server had been stopped.
func (p *tcpProxy) Hang() error {
	p.hanging.Lock()
	p.hangs = true
	return nil
}

// Restore forwards again. Connections that hung go on.
func (p *tcpProxy) Restore() error {
	if p.hangs {
		p.hangs = false
		p.hanging.Unlock()
		return nil
	}
	return p.listen()
}

// accept forwards each connection to l, until l is closed.
func (p *tcpProxy) accept(l net.Listener) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", p.target)
		if err != nil {
			from.Close()
			continue
		}
		p.mu.Lock()
		refused := p.closed == l // since it was accepted
		if !refused {
			p.open = append(p.open, from, to)
		}
		p.mu.Unlock()
		if refused {
			_ = errors.Join(from.Close(), to.Close())
			return
		}
		go p.copy(from, to)
		go p.copy(to, from)
	}
}

// gated is a connection to which nothing is written while the proxy hangs.
type gated struct {
	net.Conn
	hanging *sync.RWMutex
}

// Write implements io.Writer.
func (g gated) Write(b []byte) (int, error) {
	g.hanging.RLock()
	defer g.hanging.RUnlock()
	return g.Conn.Write(b)
}

// copy forwards what comes from one connection to the other, and closes both when one ends.
func (p *tcpProxy) copy(to, from net.Conn) {
	_, _ = io.Copy(gated{to, &p.hanging}, from)
	_ = errors.Join(to.Close(), from.Close())
}

// A pod's status may name what is not there any more: a scheduler was killed after it wrote the name, or could not bind the pod and deleted
// the claim. Once the pod has a node, its status must name no claim that does not exist, because the kubelet would look it up. Upstream
// leaves the name of a claim for extended resources; see docs/upstream/extended-resource-claim-status.md. Where the API server lets nobody
// remove it, the pod gets no node that would give it no claim.
func TestStatusNamesWhatIsGone(t *testing.T) {
	const (
		extended = `{"status": {"extendedResourceClaimStatus": {"resourceClaimName": "gone",
			"requestMappings": [{"containerName": "main", "resourceName": "nvidia.com/gpu", "requestName": "container-0-request-0"}]}}}`
		template = `{"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "gone"}]}}`
		nominee  = `{"status": {"nominatedNodeName": "gone"}}`
	)
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("64Gi")}
	offers := capacity.DeepCopy()
	offers[kube.GPUResource] = resource.MustParse("8")
	l := newLab(t, []nodepool.Pool{
		{Name: "offers", Count: 1, Capacity: offers},
		{Name: "devices", Count: 1, Capacity: capacity, Devices: []nodepool.Devices{{Product: "V100", Count: 4}}},
	})
	defer l.start(t.Context(), t, withUpstream{Config{QPS: 1000, Profiles: []Profile{
		{SchedulerName: DefaultProfile, Args: Args{Variant: DefaultProfile}}, {SchedulerName: "best", Args: Args{Policy: "gpu-best-fit"}},
	}}}, l.cluster.Kubeconfig())()
	ns := l.namespace(t, "stale")
	l.apply(t, ns, "claims.yaml")
	placed, kept := 0, false
	for i, c := range []struct {
		status, profile string
		claim, node     string // template of the pod's claim, and the only pool for it; empty for any
		classless       bool   // no DeviceClass is left
		keeps           bool   // the bound pod's status names the deleted claim
	}{
		{status: extended, profile: upstreamProfile, node: "offers", keeps: true},
		{status: extended, profile: DefaultProfile, node: "offers"},
		{status: extended, profile: "best", node: "offers"},
		{status: extended, profile: "best", node: "devices"}, // the new claim's name takes the place of the old one's
		{status: template, profile: "best", node: "devices", claim: "whole"},
		{status: nominee, profile: "best", node: "offers"},
		{status: extended, profile: "best"},                                  // on devices-0, if nobody can remove the name
		{status: extended, profile: "best", node: "offers", classless: true}, // last, because it deletes the classes
	} {
		t.Run(fmt.Sprintf("%d/%s/%s", i, c.profile, c.node), func(t *testing.T) {
			name := fmt.Sprint("p-", i)
			p := claimPod(name, c.profile, c.claim, c.node)
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/planted"}}
			l.create(t, ns, p)
			l.patchPod(t, ns, name, c.status, "status")
			if i == 0 { // before a scheduler sees the pod
				kept = l.patchPod(t, ns, name, `{"status": {"extendedResourceClaimStatus": null}}`, "status").Status.ExtendedResourceClaimStatus != nil
				l.patchPod(t, ns, name, c.status, "status")
			}
			if c.classless {
				err := l.client.ResourceV1().DeviceClasses().DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
				fatal.If(t, err)
			}
			l.patchPod(t, ns, name, `{"spec": {"schedulingGates": null}}`)
			if kept && c.status == extended && c.node == "offers" && !c.keeps {
				l.untilOutcome(t, ns, name, "pending: status names claim gone of an earlier attempt")
				return
			}
			placed++
			bound := l.bound(t, ns, placed)
			p = &bound[slices.IndexFunc(bound, func(p corev1.Pod) bool { return p.Name == name })]
			names := kube.ClaimNames(p)
			missing := len(names) - len(l.claimsOf(t, p))
			offered := strings.HasPrefix(p.Spec.NodeName, "offers")
			if none := offered && !c.keeps; missing > 0 != c.keeps || len(names) == 0 != none {
				t.Errorf("on %s its status names the claims %q; %d of them are missing", p.Spec.NodeName, names, missing)
			}
		})
	}
}

// patchPod changes a pod by a JSON merge patch, and returns what the API server has then.
func (l *lab) patchPod(t *testing.T, ns, name, patch string, subresources ...string) *corev1.Pod {
	t.Helper()
	p, err := l.client.CoreV1().Pods(ns).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	fatal.If(t, err)
	return p
}
