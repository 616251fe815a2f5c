package shadow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
	"k8s.io/utils/clock"

	"gnnsched/internal/fatal"
	"gnnsched/internal/kubeconfig"
	"gnnsched/kwok"
	"gnnsched/kwok/nodepool"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/serve"
	"gnnsched/scheduler/server"
)

const patience = 2 * time.Minute

// Upstream's own scheduler places pods, and a network that packs watches it, with the printed rights and no others. It places
// nothing, asks for no lease, and finds that it would have used fewer nodes.
func TestBesideTheDefaultScheduler(t *testing.T) {
	capacity := v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("32"), v1.ResourceMemory: resource.MustParse("64Gi"), v1.ResourcePods: resource.MustParse("110"),
	}
	cluster, err := kwok.Start(context.Background(),
		kwok.Config{Dir: t.TempDir(), Pools: []nodepool.Pool{{Name: "node", Count: 8, Capacity: capacity}}})
	fatal.If(t, err)
	t.Cleanup(func() {
		if err := cluster.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	client := kubernetes.NewForConfigOrDie(cluster.REST())
	schedule(t, cluster.Kubeconfig())
	guard := newGuard(t, cluster.REST())

	w, stop := watch(t, guard.kubeconfig(t))
	before := map[outcome]float64{} // other tests of this process count too
	for _, o := range outcomes {
		before[o], _ = testutil.GetCounterMetricValue(decisions.WithLabelValues(string(o)))
	}
	const pods = 24
	for i := range pods {
		fatal.Value(client.CoreV1().Pods("default").Create(t.Context(), small(i), metav1.CreateOptions{}))(t)
	}
	fatal.Until(t, "all pods to be compared", func() error {
		var n float64
		for _, o := range outcomes {
			value := fatal.Value(testutil.GetCounterMetricValue(decisions.WithLabelValues(string(o))))(t)
			n += value - before[o]
		}
		if n < pods {
			return fmt.Errorf("%v are", n)
		}
		return nil
	})
	for _, d := range w.config.Recording.Book.Last(decision.Query{}) {
		if d.Outcome != decision.Shadow || d.Policy != "linear-pack" || d.Really == "" {
			t.Errorf("%+v", d)
		}
	}
	if held, _ := w.config.Recording.Book.Held(); held != pods {
		t.Errorf("%d decisions are kept, of %d pods", held, pods)
	}
	r := stop()
	if c := r.Counts; c.Bound != pods || c.Compared != pods || c.Errors != 0 || c.Skewed != 0 || c.Fallbacks != 0 ||
		c.Results[unschedulableForUs]+c.Results[infeasible] != 0 {
		t.Errorf("%+v", c)
	}
	if r.Counts.Results[different] < pods/3 {
		t.Errorf("%+v: a policy that packs chooses as the default scheduler, which spreads", r)
	}
	// The default scheduler uses all eight nodes. In the cluster in memory, the network uses fewer.
	used := sets.New[string]()
	for _, p := range w.ours.Running {
		used.Insert(p.Spec.NodeName)
	}
	list := fatal.Value(client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}))(t)
	really := sets.New[string]()
	for _, p := range list.Items {
		really.Insert(p.Spec.NodeName)
		if p.Spec.SchedulerName != server.DefaultProfile {
			t.Errorf("%s has the scheduler %s", p.Name, p.Spec.SchedulerName)
		}
	}
	if really.Len() != 8 || used.Len() >= really.Len() || used.Has("") {
		t.Errorf("the default scheduler uses %v, the network %v", sets.List(really), sets.List(used))
	}
	guard.check(t)
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Error(err)
	}
	t.Log(text.String())
}

func small(i int) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pod-", i)}}
	p.Spec.Containers = []v1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10",
		Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("2Gi"),
		}}}}
	return p
}

// watch starts what rungnn --shadow runs. stop ends it and returns the report.
func watch(t *testing.T, config string) (w *Watcher, stop func() Report) {
	t.Helper()
	p := server.Profile{SchedulerName: server.DefaultProfile,
		Args: plugin.Args{Policy: "linear-pack", Deadline: metav1.Duration{Duration: patience}, Preferences: preference.Declared}}
	file, remove, err := server.WriteTemporary(server.Config{Profiles: []server.Profile{p}, QPS: 1000}, kubeconfig.Target{Kubeconfig: config})
	fatal.If(t, err)
	t.Cleanup(remove)
	plugins, endPlugins := context.WithCancel(context.Background())
	t.Cleanup(endPlugins)
	ctx, cancel := context.WithCancel(plugins)
	t.Cleanup(cancel)
	port := freePort(t)
	o := fatal.Value(server.NewObserver(ctx, file, server.Endpoint{Address: "127.0.0.1", Port: port}))(t)
	t.Cleanup(o.Close)
	pack, err := objective.Parse("pack")
	fatal.If(t, err)
	book := decision.NewBook(decision.DefaultBookSize, nil)
	w, err = New(plugins, Config{
		Client: o.Client, Dynamic: dynamic.NewForConfigOrDie(o.REST), Profile: o.Scheduler.Profiles[0], Name: "linear-pack",
		Of: []string{server.DefaultProfile}, Objective: pack, Block: time.Second, Limits: DefaultLimits, Clock: clock.RealClock{},
		Recording: plugin.Recording{Book: book},
	})
	fatal.If(t, err)
	end, err := o.Serve(w.Ready, map[string]http.Handler{Path: w, decision.DebugPath: book})
	fatal.If(t, err)
	t.Cleanup(end)
	reports := make(chan Report, 1)
	go func() {
		r, err := w.Run(ctx)
		if err != nil {
			t.Error(err)
		}
		reports <- r
	}()
	insecure := &http.Client{Transport: serverOf(t)}
	fatal.Until(t, "the endpoint to be ready", func() error {
		resp, err := insecure.Get(fmt.Sprintf("https://127.0.0.1:%d/readyz", port))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
	for _, path := range []string{"/metrics", Path, decision.DebugPath} {
		if resp, err := insecure.Get(fmt.Sprintf("https://127.0.0.1:%d%s", port, path)); err != nil ||
			resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without a token: %v, %v", path, resp, err)
		}
	}
	return w, func() Report {
		cancel()
		select {
		case r := <-reports:
			return r
		case <-time.After(patience):
			t.Fatal("it does not end")
		}
		return Report{}
	}
}

// serverOf returns a transport that accepts the endpoint's own certificate.
func serverOf(t *testing.T) http.RoundTripper {
	t.Helper()
	return fatal.Value(rest.TransportFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true}}))(t)
}

func freePort(t *testing.T) int {
	t.Helper()
	l := fatal.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// guard stands before the API server and lets requests through that the printed role allows, as upstream's own RBAC decides.
type guard struct {
	url   string
	rules []rbacv1.PolicyRule

	mu      sync.Mutex
	passed  sets.Set[string]
	refused sets.Set[string]
}

func newGuard(t *testing.T, to *rest.Config) *guard {
	t.Helper()
	text := fatal.Value(serve.Role{Name: "x", Namespace: "default"}.RBAC())(t)
	g := &guard{passed: sets.New[string](), refused: sets.New[string]()}
	docs := kyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var role rbacv1.ClusterRole
		if err := docs.Decode(&role); errors.Is(err, io.EOF) {
			break
		} else {
			fatal.If(t, err)
		}
		g.rules = append(g.rules, role.Rules...)
	}
	transport := fatal.Value(rest.TransportFor(to))(t)
	host, err := url.Parse(to.Host)
	fatal.If(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(host) }, Transport: transport, FlushInterval: -1}
	infos := apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i, err := infos.NewRequestInfo(r)
		if err != nil || !g.allows(i) {
			http.Error(w, "the role does not allow it", http.StatusForbidden)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.CloseClientConnections)
	g.url = s.URL
	return g
}

// allows asks upstream's RBAC. Discovery and health, which everybody may read, are let through.
func (g *guard) allows(i *apirequest.RequestInfo) bool {
	what := fmt.Sprintf("%s %s/%s %s", i.Verb, i.APIGroup, i.Resource, i.Subresource)
	if !i.IsResourceRequest {
		return i.Verb == "get"
	}
	ok := rbac.RulesAllow(authorizer.AttributesRecord{
		Verb: i.Verb, APIGroup: i.APIGroup, APIVersion: i.APIVersion, Resource: i.Resource, Subresource: i.Subresource,
		Namespace: i.Namespace, Name: i.Name, ResourceRequest: true,
	}, g.rules...)
	g.mu.Lock()
	defer g.mu.Unlock()
	if ok {
		g.passed.Insert(what)
	} else {
		g.refused.Insert(what)
	}
	return ok
}

func (g *guard) kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	text := `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":"` + g.url + `"}}],
		"contexts":[{"name":"c","context":{"cluster":"c","user":""}}],"current-context":"c"}`
	fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// check checks that nothing was asked for beyond the role, and that the role has no right to place a pod or hold a lease.
func (g *guard) check(t *testing.T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for what := range g.passed {
		if verb, _, _ := strings.Cut(what, " "); verb != "get" && verb != "list" && verb != "watch" {
			t.Errorf("it does more than read: %s", what)
		}
	}
	if !g.passed.Has("watch /pods ") || !g.passed.Has("watch /nodes ") {
		t.Errorf("%v: the guard does not see the requests", sets.List(g.passed))
	}
	if len(g.refused) > 0 {
		t.Errorf("it asked for what the role does not allow: %v", sets.List(g.refused))
	}
	for _, never := range []authorizer.AttributesRecord{
		{Verb: "create", APIVersion: "v1", Resource: "pods", Subresource: "binding", ResourceRequest: true},
		{Verb: "create", APIVersion: "v1", Resource: "bindings", ResourceRequest: true},
		{Verb: "patch", APIVersion: "v1", Resource: "pods", Subresource: "status", ResourceRequest: true},
		{Verb: "get", APIGroup: "coordination.k8s.io", APIVersion: "v1", Resource: "leases", ResourceRequest: true},
	} {
		if rbac.RulesAllow(never, g.rules...) {
			t.Errorf("the role allows %+v", never)
		}
	}
}

// schedule runs upstream's kube-scheduler as its own command does.
func schedule(t *testing.T, config string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	text := fmt.Sprintf("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nclientConnection: {kubeconfig: %s, "+
		"qps: 1000, burst: 1000}\nleaderElection: {leaderElect: false}\n", config)
	fatal.If(t, os.WriteFile(file, []byte(text), 0o600))
	o, flags := options.NewOptions(), pflag.NewFlagSet("kube-scheduler", pflag.ContinueOnError)
	for _, f := range o.Flags.FlagSets {
		flags.AddFlagSet(f)
	}
	fatal.If(t, flags.Parse([]string{"--config=" + file, "--secure-port=0"}))
	ctx, cancel := context.WithCancel(context.Background())
	complete, sched, err := app.Setup(ctx, o)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = app.Run(ctx, complete, sched) }() // it always ends with an error
	t.Cleanup(func() { cancel(); <-ended })
}
