package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/each"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/kwok/nodepool"
	"gnnsched/scheduler/plugin/learningcurve"
	"gnnsched/scheduler/plugin/userconfig"
	"gnnsched/scheduler/usage"
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
func (l *lines) countFrom(begin int, text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return each.Count(l.all[begin:], func(line string) bool { return strings.Contains(line, text) })
}

// through returns a kubeconfig that reaches the cluster through a proxy at an address.
func (l *lab) through(t *testing.T, address string) string {
	t.Helper()
	k := fatal.Value(clientcmd.LoadFromFile(l.cluster.Kubeconfig()))(t)
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
	u := fatal.Value(url.Parse(l.cluster.URL()))(t)
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
		fatal.Until(t, "the scheduler to lead", func() error {
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
		fatal.Until(t, "the lease to be lost", func() error {
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

// candidate is a process that wants to lead.
type candidate struct {
	mu    sync.Mutex
	lines []string
	leads chan struct{}
	stop  context.CancelFunc
	done  chan struct{}
}

func (c *candidate) log() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.lines, "\n")
}

// stand starts a candidate. Its election has a lease that does not expire during the test.
func stand(t *testing.T, client kubernetes.Interface, name string) *candidate {
	c := &candidate{leads: make(chan struct{}), done: make(chan struct{})}
	ctx := klog.NewContext(t.Context(), funcr.New(func(_, line string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.lines = append(c.lines, line)
	}, funcr.Options{}))
	ctx, c.stop = context.WithCancel(ctx)
	e := leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: userconfig.LeaseName}, Client: client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		LeaseDuration: time.Hour, RenewDeadline: time.Minute, RetryPeriod: 50 * time.Millisecond,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(c.leads) }, OnStoppedLeading: func() {}},
	}
	lock := announce(ctx, &e)
	elector := fatal.Value(leaderelection.NewLeaderElector(e))(t)
	go func() {
		defer close(c.done)
		elector.Run(ctx)
		lock.close()
	}()
	return c
}

// A standby says who leads. A leader that is told to stop gives the lease back, and the standby leads
// long before the lease would have expired.
func TestStandbyTakesOver(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	client := fake.NewClientset()
	first := stand(t, client, "first")
	<-first.leads
	second := stand(t, client, "second")
	for !strings.Contains(second.log(), `Standby: another scheduler leads" "leader"="first"`) {
		time.Sleep(10 * time.Millisecond)
	}
	if strings.Contains(second.log(), "it schedules") || !strings.Contains(first.log(), "it schedules") {
		t.Errorf("the first says %s, the second %s", first.log(), second.log())
	}
	first.stop()
	<-first.done
	lease, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), userconfig.LeaseName, metav1.GetOptions{})
	if err != nil || (lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == "first") {
		t.Errorf("the first did not give the lease back: %v, %v", lease, err)
	}
	<-second.leads
	second.stop()
	<-second.done
	noFiles(t)
}

func noFiles(t *testing.T) {
	t.Helper()
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("processes leave %v, %v", left, err)
	}
}

// A standby follows a leader that was killed on the same machine before the lease expires, and removes what the killed one left.
func TestStandbyFollowsKilled(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	lock := fatal.Value(lockAlive("first"))(t)
	if ended("first") || ended("elsewhere") {
		t.Error("a process that lives, or of which nothing is known, counts as killed")
	}
	now := metav1.NowMicro()
	client := fake.NewClientset(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: userconfig.LeaseName},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("first"), LeaseDurationSeconds: ptr.To[int32](3600), AcquireTime: &now,
			RenewTime: &now},
	})
	second := stand(t, client, "second")
	for !strings.Contains(second.log(), `Standby: another scheduler leads" "leader"="first"`) {
		time.Sleep(10 * time.Millisecond)
	}
	fatal.If(t, lock.Close()) // as the kernel does
	<-second.leads
	second.stop()
	<-second.done
	noFiles(t)
}

// Everything that keeps books of one cluster competes for one lease, whatever its profiles.
func TestOneLease(t *testing.T) {
	for _, names := range [][]string{{"gnn"}, {"fgd", DefaultProfile}} {
		c := Config{QPS: 50, LeaderElect: true}
		for _, n := range names {
			p := fatal.Value(ProfileNamed(n))(t)
			c.Profiles = append(c.Profiles, p)
		}
		y := fatal.Value(c.YAML())(t)
		if !strings.Contains(string(y), "resourceName: gnnsched\n") {
			t.Errorf("%v: %s", names, y)
		}
	}
}

// doors are the paths of the endpoint: everybody may read the health, a token opens the rest, and the
// paths for profiling exist only where it is turned on.
var doors = []struct {
	method, path    string
	open, profiling bool
}{
	{method: http.MethodGet, path: "/healthz", open: true},
	{method: http.MethodGet, path: "/livez", open: true},
	{method: http.MethodGet, path: "/readyz", open: true},
	{method: http.MethodGet, path: "/readyz?verbose", open: true},
	{method: http.MethodGet, path: "/"},
	{method: http.MethodGet, path: "/healthz/ping"},
	{method: http.MethodGet, path: "/metrics"},
	{method: http.MethodGet, path: "/metrics/resources"},
	{method: http.MethodGet, path: "/metrics/slis"},
	{method: http.MethodGet, path: "/configz"},
	{method: http.MethodGet, path: "/flagz"},
	{method: http.MethodGet, path: "/statusz"},
	{method: http.MethodGet, path: learningcurve.Path},
	{method: http.MethodGet, path: usage.Path},
	{method: http.MethodGet, path: "/debug/pprof/", profiling: true},
	{method: http.MethodGet, path: "/debug/pprof/heap", profiling: true},
	{method: http.MethodPut, path: "/debug/flags/v", profiling: true},
}

// Strange tokens, which anybody may send, are refused and do not fill the log.
func TestStrangeTokens(t *testing.T) {
	lines := 0
	ctx := klog.NewContext(t.Context(), funcr.New(func(string, string) { lines++ }, funcr.Options{}))
	strange := tokenUnlessHealth(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return nil, false, errors.New("invalid bearer token")
	}))
	for range 1000 {
		if _, ok, err := strange.AuthenticateRequest(httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil)); ok || err != nil {
			t.Fatal("let in, or logged by upstream:", ok, err)
		}
	}
	if lines < 1 || lines > 10 {
		t.Errorf("%d lines", lines)
	}
}

// Every path of the endpoint is asked without a token, with one that the cluster does not know, and with
// one that it knows.
func (l *lab) testDoors(t *testing.T) {
	for _, profiling := range []bool{false, true} {
		c := Config{Profiles: []Profile{{SchedulerName: "doors", Args: Args{Policy: "best-fit"}}}, QPS: 1000, Profiling: profiling}
		stop := l.run(t, c)
		l.untilReady(t)
		for _, d := range doors {
			denied, allowed := []int{http.StatusUnauthorized}, []int{http.StatusOK}
			if d.open {
				denied = allowed
			}
			switch {
			case d.profiling && !profiling, d.path == "/":
				allowed = []int{http.StatusNotFound, http.StatusOK} // the root lists paths, where the server has a root
			case d.path == "/flagz", d.path == "/statusz":
				allowed = []int{http.StatusOK, http.StatusNotAcceptable} // they serve to clients that accept their types
			}
			if status, body := l.ask(t, d.method, d.path, ""); !slices.Contains(denied, status) {
				t.Errorf("profiling %t: %s %s without a token: status %d, want %v: %.80s", profiling, d.method, d.path, status, denied, body)
			}
			if status, _ := l.ask(t, d.method, d.path, "somebody-else"); status != http.StatusUnauthorized {
				t.Errorf("profiling %t: %s %s with a strange token: status %d", profiling, d.method, d.path, status)
			}
			if status, body := l.ask(t, d.method, d.path, l.cluster.REST().BearerToken); !slices.Contains(allowed, status) {
				t.Errorf("profiling %t: %s %s with a token: status %d, want %v: %.80s", profiling, d.method, d.path, status, allowed, body)
			}
		}
		stop()
	}
}

func TestCheckHealth(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/readyz":
			w.Write([]byte("ok"))
		case "/slow":
			<-release
		default:
			http.Error(w, "[-]sched-handler-sync failed", http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	defer close(release)
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, c := range map[string]struct {
		url  string
		code int
		want string
	}{
		"ready":     {server.URL + "/readyz", exit.OK, ""},
		"not ready": {server.URL + "/starting", exit.Unreachable, "500 Internal Server Error: [-]sched-handler-sync failed"},
		"slow":      {server.URL + "/slow", exit.Unreachable, "deadline exceeded"},
		"gone":      {gone.URL, exit.Unreachable, "no scheduler answers"},
	} {
		t.Run(name, func(t *testing.T) {
			u, err := url.Parse(c.url)
			fatal.If(t, err)
			timeout := 5 * time.Second
			if name == "slow" {
				timeout = 50 * time.Millisecond
			}
			var out bytes.Buffer
			err = CheckHealth(t.Context(), u, timeout, &out)
			if exit.Code(err) != c.code {
				t.Errorf("exit code %d, want %d (%v)", exit.Code(err), c.code, err)
			}
			if err == nil && out.String() != "ok\n" {
				t.Errorf("output %q", out.String())
			}
			if err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}
