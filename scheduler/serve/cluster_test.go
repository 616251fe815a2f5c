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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/transport"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/internal/kuberelease"
	"gnnsched/internal/logging"
	"gnnsched/kwok"
	"gnnsched/kwok/nodepool"
	"gnnsched/scheduler/advise"
	"gnnsched/scheduler/plugin"
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
	return fatal.Value(testutil.GetCounterMetricValue(requests.WithLabelValues(path, result)))(t)
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
	a := fatal.Value(advise.New(t.Context(), advise.Config{
		Client: kubernetes.NewForConfigOrDie(config), Dynamic: dynamic.NewForConfigOrDie(config), Clock: clock.RealClock{}, Promise: patience,
		Profile: server.Profile{SchedulerName: server.DefaultProfile,
			Args: server.Args{Policy: "linear-pack", Deadline: metav1.Duration{Duration: patience}, Preferences: preference.Declared}},
	}))(t)
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
	fatal.Value(l.client.CoreV1().Pods(p.Namespace).Create(t.Context(), p, metav1.CreateOptions{}))(t)
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
	all := fatal.Value(l.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}))(t)
	return node, each.Count(all.Items, func(x v1.Pod) bool { return x.Spec.NodeName == node && x.Name != p.Name })
}

// byNetwork places pods and checks that each gets the node that the suggestions rank first.
func (l *lab) byNetwork(t *testing.T, s *site, pods int) {
	t.Helper()
	for range pods {
		l.shown(t, s)
		p := l.pod()
		text := fatal.Value(json.Marshal(p))(t)
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
	bound := each.Count(all.Items, func(p v1.Pod) bool { return p.Spec.NodeName != "" })
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
	fatal.Value(l.client.CoreV1().Pods(p.Namespace).Create(t.Context(), p, metav1.CreateOptions{}))(t)
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

// BenchmarkExtender measures the time to choose a node for a pod with upstream's scores only, with the plugin and with the extender, and
// the ratio of the last two. The three choose in turn, each in a kube-scheduler of its own with all nodes feasible, and each pod counts on
// its node for the next one. Filters are included, binding is not. "both" calls the verbs filter and prioritize, "prioritize" only the
// latter.
func BenchmarkExtender(b *testing.B) {
	for _, nodes := range []int{100, 1000} {
		for _, filters := range []bool{true, false} {
			verbs := map[bool]string{true: "both", false: "prioritize"}[filters]
			b.Run(fmt.Sprintf("%s/nodes=%d", verbs, nodes), func(b *testing.B) { benchmarkExtender(b, nodes, filters) })
		}
	}
}

func benchmarkExtender(b *testing.B, nodes int, filters bool) {
	client := fake.NewClientset(benchCluster(nodes)...)
	network := server.Profile{SchedulerName: server.DefaultProfile,
		Args: plugin.Args{Variant: "gnn", Deadline: metav1.Duration{Duration: time.Minute}}}
	advisor, err := advise.New(b.Context(), advise.Config{Client: client, Profile: network, Promise: time.Hour, Clock: clock.RealClock{}})
	fatal.If(b, err)
	fatal.UntilTrue(b, "the advisor to have read the cluster", advisor.Synced)
	own := credentials(b)
	s := open(b, advisor, own, nil)
	e := Extender{URL: "https://" + s.Address(), CAFile: own.CAFile, CertFile: own.ClientCert, KeyFile: own.ClientKey, Timeout: patience}
	asking := configured(b, e.YAML)
	if !filters {
		asking.Extenders[0].FilterVerb = ""
	}
	learned := configured(b, server.Config{Profiles: []server.Profile{network}, QPS: 1}.YAML)
	plain, inside, outside := newChooser(b, client, asking.Profiles, nil), newChooser(b, client, learned.Profiles, nil),
		newChooser(b, client, asking.Profiles, asking.Extenders)
	before := 0.
	if m, err := plugin.Fallbacks(server.DefaultProfile); err == nil {
		before = float64(m)
	}
	var took [3][]time.Duration
	for i := 0; b.Loop(); i++ {
		for j, c := range []*chooser{plain, inside, outside} {
			took[j] = append(took[j], c.choose(b, i))
		}
	}
	if n, err := plugin.Fallbacks(server.DefaultProfile); err != nil || float64(n) != before {
		b.Errorf("%d decisions were not the network's, %v", n, err)
	}
	var medians [3]float64
	for j := range took {
		slices.Sort(took[j])
		medians[j] = float64(took[j][len(took[j])/2].Nanoseconds()) / 1000
	}
	b.ReportMetric(medians[0], "upstream-µs")
	b.ReportMetric(medians[1], "plugin-µs")
	b.ReportMetric(medians[2], "extender-µs")
	b.ReportMetric(medians[2]/medians[1], "extender/plugin")
}

func configured(b *testing.B, text func() ([]byte, error)) *config.KubeSchedulerConfiguration {
	y := fatal.Value(text())(b)
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode(y, nil, nil)
	fatal.If(b, err)
	return obj.(*config.KubeSchedulerConfiguration)
}

// benchCluster returns nodes that run five pods each.
func benchCluster(nodes int) (out []runtime.Object) {
	capacity := map[v1.ResourceName]string{v1.ResourceCPU: "64", v1.ResourceMemory: "256Gi", v1.ResourcePods: "110"}
	for i := range nodes {
		name := fmt.Sprintf("node-%d", i)
		out = append(out, st.MakeNode().Name(name).Capacity(capacity).Label(v1.LabelHostname, name).Obj())
		for j := range 5 {
			p := benchPod(j, fmt.Sprintf("%s-%d", name, j))
			p.Spec.NodeName = name
			out = append(out, p)
		}
	}
	return out
}

func benchPod(shape int, name string) *v1.Pod {
	ask := [...]map[v1.ResourceName]string{
		{v1.ResourceCPU: "500m", v1.ResourceMemory: "2Gi"}, {v1.ResourceCPU: "1", v1.ResourceMemory: "2Gi"},
		{v1.ResourceCPU: "4", v1.ResourceMemory: "4Gi"},
	}[shape%3]
	return st.MakePod().Namespace("default").Name(name).UID(name).SchedulerName(server.DefaultProfile).Req(ask).Obj()
}

// chooser is a kube-scheduler that chooses nodes and binds no pods.
type chooser struct {
	*scheduler.Scheduler
	profile  framework.Framework
	snapshot *cache.Snapshot
}

func newChooser(b *testing.B, client kubernetes.Interface, profiles []config.KubeSchedulerProfile, extenders []config.Extender) *chooser {
	informers := kuberelease.Informers(client)
	s := fatal.Value(scheduler.New(b.Context(), client, informers, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithProfiles(profiles...), scheduler.WithExtenders(extenders...),
		scheduler.WithFrameworkOutOfTreeRegistry(plugin.Registry(nil)), scheduler.WithPercentageOfNodesToScore(ptr.To[int32](100)),
	))(b)
	informers.Start(b.Context().Done())
	informers.WaitForCacheSync(b.Context().Done())
	fatal.If(b, s.WaitForHandlersSync(b.Context()))
	p := s.Profiles[server.DefaultProfile]
	return &chooser{s, p, p.SnapshotSharedLister().(*cache.Snapshot)}
}

// choose returns the time to choose a node. The pod then counts there.
func (c *chooser) choose(b *testing.B, i int) time.Duration {
	pod := benchPod(i, fmt.Sprintf("new-%d", i))
	pod.UID = types.UID(fmt.Sprintf("%p-%d", c, i))
	info := fatal.Value(framework.NewPodInfo(pod))(b)
	log := klog.FromContext(b.Context())
	begun := time.Now()
	fatal.If(b, c.Cache.UpdateSnapshot(log, c.snapshot))
	r, err := c.SchedulePod(b.Context(), c.profile, framework.NewCycleState(), &framework.QueuedPodInfo{PodInfo: info})
	took := time.Since(begun)
	fatal.If(b, err)
	pod.Spec.NodeName = r.SuggestedHost
	fatal.If(b, c.Cache.AssumePod(log, pod))
	return took
}
