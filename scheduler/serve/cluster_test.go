package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/fatal"
	"gnnsched/internal/logging"
	"gnnsched/kwok"
	"gnnsched/kwok/nodepool"
	"gnnsched/scheduler/advise"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/server"
)

func TestMain(m *testing.M) {
	logging.DropKlog() // a cluster and a scheduler in one process log a lot
	os.Exit(m.Run())
}

// gated is an Adviser whose Rank can be held up.
type gated struct {
	Adviser
	held chan struct{} // nil: Rank passes
}

func (g *gated) Rank(ctx context.Context, pod *v1.Pod, names []string) ([]advise.Ranked, error) {
	if g.held != nil {
		<-g.held
	}
	return g.Adviser.Rank(ctx, pod, names)
}

// lab is a simulated cluster with a stock kube-scheduler.
type lab struct {
	cluster *kwok.Cluster
	client  *kubernetes.Clientset
	pods    int
}

// A stock kube-scheduler, without a plugin of ours, with the extender that is printed for it, places by the network. If
// the server is stopped, late or overloaded, it places as if there were no extender, and no pod fails.
func TestStockKubeScheduler(t *testing.T) {
	l := newLab(t)
	recorded := &recorder{seen: sets.New[string]()}
	advisor := l.advisor(t, recorded)
	own := credentials(t)
	s := open(t, advisor, own, nil)
	port := func(c *Config) { c.Port = s.socket.Addr().(*net.TCPAddr).Port }
	l.schedule(t, Extender{
		URL: "https://" + s.Address(), CAFile: own.CAFile, CertFile: own.ClientCert, KeyFile: own.ClientKey, Timeout: patience,
	})

	l.byNetwork(t, s, 5)
	t.Run("rights", func(t *testing.T) { recorded.check(t) })
	t.Run("GPU share", func(t *testing.T) { l.testShare(t) })
	s.stop()
	t.Run("stopped", func(t *testing.T) { l.byUpstream(t, 2) })
	again := open(t, advisor, own, port)
	t.Run("again", func(t *testing.T) { l.byNetwork(t, again, 2) })
	again.stop()

	held := &gated{Adviser: advisor, held: make(chan struct{})}
	late := open(t, held, own, func(c *Config) { port(c); c.Timeout = 200 * time.Millisecond; c.InFlight = 100 })
	before := counted(t, "prioritize", "deadline")
	t.Run("late", func(t *testing.T) { l.byUpstream(t, 2) })
	if n := counted(t, "prioritize", "deadline") - before; n < 2 {
		t.Errorf("%v requests were late, want 2", n)
	}
	close(held.held)
	late.stop()

	held = &gated{Adviser: advisor, held: make(chan struct{})}
	full := open(t, held, own, func(c *Config) { port(c); c.InFlight = 1; c.Timeout = time.Hour })
	request, done := full.request(t, http.MethodPost, prioritizePath, threeNodes), make(chan struct{})
	client := full.client(t, true)
	go func() { // takes the only slot
		defer close(done)
		if resp, err := client.Do(request); err == nil {
			resp.Body.Close()
		}
	}()
	fatal.Until(t, "the slot to be taken", func() error {
		if len(full.limits.slots) == 0 {
			return fmt.Errorf("it is free")
		}
		return nil
	})
	before = counted(t, "prioritize", "overload")
	t.Run("overload", func(t *testing.T) { l.byUpstream(t, 2) })
	if n := counted(t, "prioritize", "overload") - before; n < 2 {
		t.Errorf("%v requests were refused, want 2", n)
	}
	close(held.held)
	<-done
}

// counted reads serve_requests_total.
func counted(t *testing.T, path, result string) float64 {
	t.Helper()
	value, err := testutil.GetCounterMetricValue(requests.WithLabelValues(path, result))
	fatal.If(t, err)
	return value
}

func newLab(t *testing.T) *lab {
	t.Helper()
	capacity := v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("32"), v1.ResourceMemory: resource.MustParse("64Gi"), v1.ResourcePods: resource.MustParse("110"),
	}
	cluster, err := kwok.Start(context.Background(),
		kwok.Config{Dir: t.TempDir(), Pools: []nodepool.Pool{{Name: "node", Count: 24, Capacity: capacity}}})
	fatal.If(t, err)
	t.Cleanup(func() {
		if err := cluster.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &lab{cluster: cluster, client: kubernetes.NewForConfigOrDie(cluster.REST())}
}

// advisor starts an advisor whose policy packs. Its requests to the API server are recorded.
func (l *lab) advisor(t *testing.T, r *recorder) *advise.Advisor {
	t.Helper()
	config := rest.CopyConfig(l.cluster.REST())
	config.Wrap(transport.WrapperFunc(func(next http.RoundTripper) http.RoundTripper { r.next = next; return r }))
	a, err := advise.New(t.Context(), advise.Config{
		Client: kubernetes.NewForConfigOrDie(config), Dynamic: dynamic.NewForConfigOrDie(config), Clock: clock.RealClock{}, Promise: patience,
		Profile: server.Profile{SchedulerName: server.DefaultProfile,
			Args: server.Args{Policy: "linear-pack", Deadline: metav1.Duration{Duration: patience}, Preferences: preference.Declared}},
	})
	fatal.If(t, err)
	fatal.Until(t, "the advisor to have read the cluster", func() error {
		if !a.Synced() {
			return advise.ErrNotSynced
		}
		return nil
	})
	return a
}

// schedule runs upstream's kube-scheduler, as its own command does, with the extender.
func (l *lab) schedule(t *testing.T, e Extender) {
	t.Helper()
	text, err := e.YAML()
	fatal.If(t, err)
	var config map[string]any
	fatal.If(t, yaml.Unmarshal(text, &config))
	config["clientConnection"] = map[string]any{"kubeconfig": l.cluster.Kubeconfig(), "qps": 1000, "burst": 1000}
	config["leaderElection"] = map[string]any{"leaderElect": false}
	if text, err = yaml.Marshal(config); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	fatal.If(t, os.WriteFile(file, text, 0o600))
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

func (l *lab) pod() *v1.Pod {
	l.pods++
	p := &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", l.pods), Namespace: "default"},
	}
	p.Spec.Containers = []v1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10",
		Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("2Gi"),
		}}}}
	return p
}

// place creates the pod and returns its node, and the number of pods that were there before.
func (l *lab) place(t *testing.T, p *v1.Pod) (node string, others int) {
	t.Helper()
	if _, err := l.client.CoreV1().Pods(p.Namespace).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	fatal.Until(t, p.Name+" to be bound", func() error {
		got, err := l.client.CoreV1().Pods(p.Namespace).Get(t.Context(), p.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if node = got.Spec.NodeName; node == "" {
			return fmt.Errorf("%+v", got.Status.Conditions)
		}
		return nil
	})
	all, err := l.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	fatal.If(t, err)
	for _, x := range all.Items {
		if x.Spec.NodeName == node && x.Name != p.Name {
			others++
		}
	}
	return node, others
}

// byNetwork places pods and checks that each gets the node that the suggestions rank first.
func (l *lab) byNetwork(t *testing.T, s *site, pods int) {
	t.Helper()
	for range pods {
		l.shown(t, s)
		p := l.pod()
		text, err := json.Marshal(p)
		fatal.If(t, err)
		status, body := s.ask(t, http.MethodPost, "/v1/suggestions", string(text))
		var got advise.Suggestion
		if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK || len(got.Nodes) != 24 ||
			got.Policy != "linear-pack" {
			t.Fatalf("suggestions: %d, %v, %.500s", status, err, body)
		}
		node, others := l.place(t, p)
		if node != got.Nodes[0].Node {
			t.Errorf("%s went to %s, the network's best is %s", p.Name, node, got.Nodes[0].Node)
		}
		if l.pods > 3 && others == 0 {
			t.Errorf("%s is alone on %s: that is upstream's choice, not that of a network that packs", p.Name, node)
		}
	}
}

// shown waits until the server has seen all bound pods.
func (l *lab) shown(t *testing.T, s *site) {
	t.Helper()
	all, err := l.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	fatal.If(t, err)
	bound := 0
	for _, p := range all.Items {
		if p.Spec.NodeName != "" {
			bound++
		}
	}
	fatal.Until(t, "the server to see the pods", func() error {
		_, body := s.ask(t, http.MethodGet, "/v1/state", "")
		var got state
		if err := json.Unmarshal([]byte(body), &got); err != nil || !got.Synced || got.Nodes != 24 || got.Pods != bound || got.Promised != 0 {
			return fmt.Errorf("%d are bound, the server says %s (%v)", bound, body, err)
		}
		return nil
	})
}

// byUpstream places pods and checks that each gets an empty node, as upstream's own scores choose.
func (l *lab) byUpstream(t *testing.T, pods int) {
	t.Helper()
	for range pods {
		p := l.pod()
		if node, others := l.place(t, p); others > 0 {
			t.Errorf("%s went to %s with %d pods; upstream takes an empty node", p.Name, node, others)
		}
	}
}

// A pod that needs a share of a GPU is refused by the extender, with the reason in its event.
func (l *lab) testShare(t *testing.T) {
	p := l.pod()
	p.Annotations = map[string]string{"alibabacloud.com/gpu-milli": "460"}
	if _, err := l.client.CoreV1().Pods(p.Namespace).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	fatal.Until(t, "the reason why the pod waits", func() error {
		got, err := l.client.CoreV1().Pods(p.Namespace).Get(t.Context(), p.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		at := slices.IndexFunc(got.Status.Conditions, func(c v1.PodCondition) bool { return strings.Contains(c.Message, "spec.schedulerName") })
		if at < 0 || got.Spec.NodeName != "" {
			return fmt.Errorf("node %q, %+v", got.Spec.NodeName, got.Status.Conditions)
		}
		return nil
	})
	fatal.If(t, l.client.CoreV1().Pods(p.Namespace).Delete(t.Context(), p.Name,
		metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
}

// recorder records the requested resources and verbs.
type recorder struct {
	next http.RoundTripper
	mu   sync.Mutex
	seen sets.Set[string]
}

// RoundTrip implements http.RoundTripper.
func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	infos := apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	if i, err := infos.NewRequestInfo(req); err == nil && i.IsResourceRequest {
		r.mu.Lock()
		r.seen.Insert(i.Verb + " " + i.APIGroup + "/" + i.Resource)
		r.mu.Unlock()
	}
	return r.next.RoundTrip(req)
}

// check compares the requests with the printed role: they must be equal.
func (r *recorder) check(t *testing.T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	granted, used := sets.New[string](), sets.New[string]()
	for _, rule := range reads {
		for _, name := range rule.Resources {
			granted.Insert(rule.APIGroups[0] + "/" + name)
		}
	}
	for x := range r.seen {
		verb, what, _ := strings.Cut(x, " ")
		used.Insert(what)
		if !slices.Contains([]string{"get", "list", "watch"}, verb) {
			t.Errorf("it does more than read: %s", x)
		}
	}
	if !utilfeature.DefaultFeatureGate.Enabled(features.DRADeviceTaintRules) { // as in Kubernetes 1.36
		used.Insert("resource.k8s.io/devicetaintrules")
	}
	if !granted.Equal(used) {
		t.Errorf("granted and not used: %v; used and not granted: %v", sets.List(granted.Difference(used)), sets.List(used.Difference(granted)))
	}
}
