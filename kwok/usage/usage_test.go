package usage

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/metrics/pkg/apis/metrics"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
	"gnnsched/workload/usage"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// testCluster is a cluster without an API server, and its sampler.
type testCluster struct {
	*Sampler
	clock       *clocktesting.FakeClock
	nodes, pods cache.Indexer
	models      models
	log         bytes.Buffer
}

func newCluster() *testCluster {
	c := &testCluster{
		clock: clocktesting.NewFakeClock(noon),
		nodes: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil), pods: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil),
	}
	c.models.log = zerolog.New(&c.log)
	c.Sampler = New(Config{Interval: 10 * time.Second, Clock: c.clock})
	return c
}

// tick lets time pass and takes a sample.
func (c *testCluster) tick(t testing.TB, d time.Duration) {
	t.Helper()
	c.clock.Step(d)
	fatal.If(t, c.sample(&c.models, corelisters.NewNodeLister(c.nodes), corelisters.NewPodLister(c.pods)))
}

func list(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func (c *testCluster) addNode(name, cpu string) {
	_ = c.nodes.Add(must(stripNode(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{"zone": "zone-" + name}},
		Status:     corev1.NodeStatus{Capacity: list(cpu, "8Gi"), Allocatable: list(cpu, "8Gi")},
	})))
}

// podOf returns a pod of one container that started now. model is its annotation.
func (c *testCluster) podOf(name, node, model string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID(name + c.clock.Now().String()), Labels: map[string]string{"app": name},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{
			{Name: "main", Resources: corev1.ResourceRequirements{Requests: list("1", "1Gi")}},
		}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: c.clock.Now()}},
	}
	if model != "" {
		p.Annotations = map[string]string{usage.Annotation: model}
	}
	return p
}

func (c *testCluster) add(p *corev1.Pod) { _ = c.pods.Add(must(stripPod(p))) }

func must(x any, err error) any {
	if err != nil {
		panic(err)
	}
	return x
}

// get asks for a page as a client of the API server does.
func (c *testCluster) get(path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	c.Intercept(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w
}

// TestPages compares a node's pages with the files in testdata, 4 s after a sample.
func TestPages(t *testing.T) {
	c := newCluster()
	c.addNode("node-0", "4")
	two := c.podOf("two", "node-0", `{"cpu": 1, "memory": "1Gi", "diskRead": 1000, "networkOut": 10}`)
	two.Spec.Containers = append(two.Spec.Containers,
		corev1.Container{Name: "side", Resources: corev1.ResourceRequirements{Requests: list("3", "1Gi")}})
	c.add(two)
	c.add(c.podOf("plain", "node-0", ""))
	c.add(c.podOf("elsewhere", "node-9", ""))
	c.tick(t, 0)
	c.tick(t, 10*time.Second)
	c.clock.Step(4 * time.Second)
	for page, path := range map[string]string{
		"resource": "node-0/proxy/metrics/resource", "cadvisor": "node-0/proxy/metrics/cadvisor",
		"kepler": "node-0:28282/proxy/metrics", "node-exporter": "node-0:9100/proxy/metrics",
	} {
		w := c.get("/api/v1/nodes/" + path)
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
			t.Errorf("%s: %d, %v", page, w.Code, w.Header())
		}
		fatal.Golden(t, page+".txt", w.Body.String())
	}
	if got := c.get(discoveryPath).Body.String(); got != `[{"targets":["example.com"],"labels":{"node":"node-0"}}]`+"\n" {
		t.Errorf("discovery: %s", got)
	}
}

func TestInterceptPassesOn(t *testing.T) {
	c := newCluster()
	if w := c.get("/api/v1/nodes/node-0/proxy/metrics/resource"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("before the first sample: %d", w.Code)
	}
	c.addNode("node-0", "4")
	c.tick(t, 0)
	for path, ours := range map[string]bool{
		"/api/v1/nodes/node-0/proxy/metrics/resource":             true,
		"/api/v1/nodes/node-0:10250/proxy/metrics/cadvisor":       true,
		"/api/v1/nodes/https:node-0:10250/proxy/metrics/cadvisor": true,
		"/api/v1/nodes/node-1/proxy/metrics/resource":             false,
		"/api/v1/nodes/node-0/proxy/metrics/probes":               false,
		"/api/v1/nodes/node-0:28282/proxy/metrics":                true,
		"/api/v1/nodes/node-0:9100/proxy/metrics":                 true,
		"/api/v1/nodes/node-0:9100/proxy/metrics/resource":        false,
		"/api/v1/nodes/node-0/proxy/metrics":                      false,
		"/api/v1/nodes/node-0/proxy/metrics/resource/x":           false,
		"/api/v1/nodes/node-0":                                    false,
		"/api/v1/nodes/":                                          false,
		"/metrics":                                                false,
	} {
		if got := c.get(path).Code == http.StatusOK; got != ours {
			t.Errorf("%s: answered %v", path, got)
		}
	}
	w := httptest.NewRecorder()
	c.Intercept(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("POST", "/api/v1/nodes/node-0/proxy/metrics/resource", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("POST: %d", w.Code)
	}
}

// TestPower: a node has the power of its annotation for its use, also while it sleeps, and its energy is the integral of the power.
func TestPower(t *testing.T) {
	c := newCluster()
	for name, model := range map[string]string{
		"default": "", "line": `{"idle": 60, "full": 240}`, "sleeps": `{"idle": 60, "full": 240, "sleep": 5}`, "wrong": `{"idle": -1}`,
	} {
		c.addNode(name, "4")
		if model != "" {
			n, _, _ := c.nodes.GetByKey(name)
			n.(*corev1.Node).Annotations = map[string]string{kube.PowerAnnotation: model}
		}
	}
	c.tick(t, 0)
	c.add(c.podOf("one", "line", `{"cpu": 1.95}`))
	c.add(c.podOf("two", "default", `{"cpu": 1.95}`))
	c.tick(t, 10*time.Second)
	c.tick(t, 10*time.Second)
	now, _ := c.read()
	for name, want := range map[string]struct{ before, watts float64 }{
		"line": {62.25, 150}, "sleeps": {5, 5}, "default": {2.772, 7.92}, "wrong": {2.772, 2.772},
	} {
		n := now.node(name)
		near(t, "watts of "+name, n.watts, want.watts)
		near(t, "joules of "+name, n.joules, 10*(want.before+want.watts))
	}
}

// TestSharing fills a node of 4 cores: 50m are its own, so three pods that want 2 cores each, and request 1,
// get 3.95 together. A limit is kept where there is room.
func TestSharing(t *testing.T) {
	c := newCluster()
	c.addNode("node-0", "4")
	c.addNode("node-1", "4")
	for i := range 3 {
		c.add(c.podOf(fmt.Sprint("pod-", i), "node-0", `{"cpu": 2, "memory": "4Gi"}`))
	}
	limited := c.podOf("limited", "node-1", `{"cpu": 2}`)
	limited.Spec.Containers[0].Resources.Limits = list("1500m", "1Gi")
	c.add(limited)
	c.tick(t, 0)
	c.tick(t, 10*time.Second)
	now, _ := c.read()
	pod := now.pods[types.NamespacedName{Namespace: "default", Name: "pod-1"}]
	near(t, "cores of a pod", pod.rate[usage.CPU], 3.95/3)
	near(t, "core-seconds of a pod", pod.total[usage.CPU], 39.5/3)
	near(t, "throttled core-seconds of a pod", pod.lost, 10*(2-3.95/3))
	n := now.node("node-0")
	near(t, "cores of the node", n.rate[usage.CPU], 4)
	near(t, "throttled cores of the node", n.throttled, 6-3.95)
	near(t, "memory of the node, which is not shared", n.rate[usage.Memory], 12<<30+300<<20)
	l := now.pods[types.NamespacedName{Namespace: "default", Name: "limited"}]
	near(t, "cores of the pod with a limit", l.rate[usage.CPU], 1.5)
	near(t, "its throttled core-seconds", l.lost, 5)
}

// TestLimits: pods share what their node's annotation leaves them of network and disk, a wrong annotation limits nothing and
// is logged once, and a node follows an annotation that changes.
func TestLimits(t *testing.T) {
	c := newCluster()
	annotate := func(node, text string) {
		n, _, _ := c.nodes.GetByKey(node)
		changed := n.(*corev1.Node).DeepCopy()
		changed.Annotations = map[string]string{usage.LimitsAnnotation: text}
		_ = c.nodes.Add(must(stripNode(changed)))
	}
	for _, node := range []string{"limited", "free", "wrong"} {
		c.addNode(node, "4")
		for i, sends := range []string{"100", "700"} {
			c.add(c.podOf(fmt.Sprint(node, "-", i), node, `{"networkOut": `+sends+`, "networkIn": 10, "diskRead": 300}`))
		}
	}
	annotate("limited", `{"network": 500, "disk": "1k"}`)
	annotate("wrong", `{"network": -1}`)
	check := func(node string, first, second float64) {
		t.Helper()
		now, _ := c.read()
		for i, want := range []float64{first, second} {
			p := now.pods[types.NamespacedName{Namespace: "default", Name: fmt.Sprint(node, "-", i)}]
			near(t, "what "+p.pod.source.Name+" sends", p.rate[usage.NetworkOut], want)
			near(t, "what it receives", p.rate[usage.NetworkIn], 10)
			near(t, "what it reads", p.rate[usage.DiskRead], 300)
		}
		near(t, "what the node sends", now.node(node).rate[usage.NetworkOut], first+second)
	}
	for range 3 {
		c.tick(t, 10*time.Second)
	}
	check("limited", 100, 400)
	check("free", 100, 700)
	check("wrong", 100, 700)
	if n := strings.Count(c.log.String(), "\n"); n != 1 || !strings.Contains(c.log.String(), "limits.network: -1 is not 0 to 1e+12") {
		t.Errorf("%d lines: %s", n, c.log.String())
	}
	annotate("limited", `{"network": 100}`)
	c.tick(t, 10*time.Second)
	check("limited", 50, 50)
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestWrongAnnotations: a pod with a faulty annotation uses half of its request, and the log reports it once.
func TestWrongAnnotations(t *testing.T) {
	c := newCluster()
	c.addNode("node-0", "4")
	for i, text := range []string{"nonsense", `{"cpu": -1}`, "", strings.Repeat("\x1b[2J", 1e5)} {
		p := c.podOf(fmt.Sprint("pod-", i), "node-0", "")
		p.Annotations = map[string]string{usage.Annotation: text}
		c.add(p)
	}
	for range 3 {
		c.tick(t, 10*time.Second)
	}
	now, _ := c.read()
	for key, p := range now.pods {
		near(t, key.Name, p.rate[usage.CPU], 0.5)
	}
	if n := strings.Count(c.log.String(), "\n"); n != 1 || c.log.Len() > 2000 || !strings.Contains(c.log.String(), `"annotations":4`) {
		t.Errorf("%d lines: %.3000s", n, c.log.String())
	}
}

// TestChangedPods: a new model holds from the next sample on, and the counters of a new pod with the same name begin at 0.
func TestChangedPods(t *testing.T) {
	c := newCluster()
	c.addNode("node-0", "4")
	p := c.podOf("pod", "node-0", `{"cpu": 1}`)
	c.add(p)
	c.tick(t, 0)
	p = p.DeepCopy()
	p.Annotations[usage.Annotation] = `{"cpu": 2}`
	c.add(p)
	c.tick(t, 10*time.Second)
	key := types.NamespacedName{Namespace: "default", Name: "pod"}
	now, _ := c.read()
	near(t, "cores", now.pods[key].rate[usage.CPU], 2)
	near(t, "core-seconds", now.pods[key].total[usage.CPU], 10)
	c.clock.Step(4 * time.Second)
	c.add(c.podOf("pod", "node-0", `{"cpu": 3}`))
	c.tick(t, 6*time.Second)
	now, _ = c.read()
	near(t, "core-seconds of the second pod, which started 6 s before", now.pods[key].total[usage.CPU], 18)
	if len(c.models.now) != 1 {
		t.Errorf("%d models are remembered, and one pod is there", len(c.models.now))
	}
}

// TestCountersNeverFall lets pods come, go and change at random and scrapes at random moments.
func TestCountersNeverFall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCluster()
		c.addNode("node-0", "2")
		before := map[string]float64{}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			name := fmt.Sprint("pod-", rapid.IntRange(0, 3).Draw(t, "pod"))
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				c.add(c.podOf(name, "node-0", fmt.Sprintf(`{"cpu": %d, "networkIn": {"walk": {"high": 100, "deviation": 50}}}`,
					rapid.IntRange(0, 3).Draw(t, "cpu"))))
			case 1:
				_ = c.pods.Delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}})
			case 2:
				c.clock.Step(time.Duration(rapid.IntRange(0, 20_000).Draw(t, "ms")) * time.Millisecond)
			case 3:
				c.clock.Step(c.Sampler.config.Interval) // a tick is never early
				err := c.sample(&c.models, corelisters.NewNodeLister(c.nodes), corelisters.NewPodLister(c.pods))
				fatal.If(t, err)
			}
			now, ok := c.read()
			if !ok {
				continue
			}
			check := func(name string, s *sample) {
				v := counter(usage.CPU)(s, now.since) + counter(usage.NetworkIn)(s, now.since) + lost(s, now.since)
				if v < before[name]*(1-1e-12) || math.IsNaN(v) {
					t.Fatalf("the counters of %s fell from %v to %v", name, before[name], v)
				}
				before[name] = v
			}
			check("node", &now.nodes[0].sample)
			for i := range now.nodes[0].pods {
				p := &now.nodes[0].pods[i]
				check(p.pod.source.Name+string(p.pod.source.UID), &p.sample)
			}
		}
	})
}

func TestMetricsAPI(t *testing.T) {
	c := newCluster()
	nodes, pods := c.nodeStorage(), c.podStorage()
	if _, err := nodes.List(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "try again") {
		t.Errorf("before the first sample: %v", err)
	}
	c.addNode("node-0", "4")
	c.addNode("node-1", "4")
	c.add(c.podOf("a", "node-0", `{"cpu": 0.25, "memory": "128Mi"}`))
	c.add(c.podOf("b", "node-1", ""))
	c.tick(t, 0)

	one := &metainternal.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{"zone": "zone-node-1"})}
	got := fatal.Value(nodes.List(t.Context(), one))(t)
	if items := got.(*metrics.NodeMetricsList).Items; len(items) != 1 || items[0].Name != "node-1" ||
		items[0].Usage.Cpu().MilliValue() != 550 ||
		items[0].Usage.Memory().Value() != 812<<20 || items[0].Window.Duration != 10*time.Second || !items[0].Timestamp.Time.Equal(noon) {
		t.Errorf("%+v", items)
	}
	for namespace, want := range map[string]int{"": 2, "default": 2, "other": 0} {
		got, err := pods.List(request.WithNamespace(t.Context(), namespace), nil)
		if err != nil || len(got.(*metrics.PodMetricsList).Items) != want {
			t.Errorf("namespace %q: %v, %v", namespace, got, err)
		}
	}
	p := fatal.Value(pods.Get(request.WithNamespace(t.Context(), "default"), "a", nil))(t)
	table, err := pods.ConvertToTable(t.Context(), p, nil)
	if err != nil || fmt.Sprint(table.Rows[0].Cells) != "[a 250m 128Mi 10s]" {
		t.Errorf("%v, %v", table.Rows, err)
	}
	if _, err := pods.Get(request.WithNamespace(t.Context(), "other"), "a", nil); err == nil {
		t.Error("a pod of another namespace was found")
	}
}

var (
	metric   = regexp.MustCompile(`\b(?:container|kepler|node|pod|machine|cluster|namespace)[_:][a-z_:]+\b`)
	recorded = regexp.MustCompile(`(?m)^  - record: (\S+)$`)
	query    = regexp.MustCompile(`(?m)^\s*"?expr"?: (.*)$`)
)

// TestMonitoringKnowsTheMetrics: every metric that a rule or a dashboard names is on one of the pages, or
// recorded by a rule.
func TestMonitoringKnowsTheMetrics(t *testing.T) {
	dir := filepath.Join("..", "..", "compose", "monitoring")
	rules := fatal.Value(os.ReadFile(filepath.Join(dir, "rules.yaml")))(t)
	known := map[string]bool{}
	for _, p := range []page{resourcePage, cadvisorPage, keplerPage, nodeExporterPage} {
		for _, f := range p {
			known[f.name] = true
		}
	}
	for _, m := range recorded.FindAllSubmatch(rules, -1) {
		known[string(m[1])] = true
	}
	files, err := filepath.Glob(filepath.Join(dir, "dashboards", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	for _, file := range append(files, filepath.Join(dir, "rules.yaml")) {
		text := fatal.Value(os.ReadFile(file))(t)
		named := 0
		for _, q := range query.FindAllSubmatch(text, -1) {
			expr := regexp.MustCompile(`\{[^}]*\}`).ReplaceAll(q[1], nil) // labels
			for _, name := range metric.FindAllString(string(expr), -1) {
				named++
				if !known[name] {
					t.Errorf("%s names %s, which nothing exports: %s", file, name, q[1])
				}
			}
		}
		if named == 0 {
			t.Errorf("%s names no metric", file)
		}
	}
}
