package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	schedulerserver "k8s.io/kubernetes/cmd/kube-scheduler/app/config"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
	"gnnsched/internal/promapi"
	"gnnsched/kwok/nodepool"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/plugin/traffic"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/usage"
)

// twoWorkers are the nodes of the tests of measured usage. worker-0 is hot, but its pods request nothing; worker-1 is idle, but a
// pod on it requests half of its CPU. So a pod goes to worker-1 by usage and to worker-0 by requests.
func twoWorkers() []nodepool.Pool {
	return []nodepool.Pool{{Name: "worker", Count: 2, Capacity: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"),
		corev1.ResourcePods: resource.MustParse("110"),
	}}}
}

const byUsage, byRequests = "worker-1", "worker-0"

// loadAware is a profile that places pods by the measurements of a source.
func loadAware(source usage.Config) Profile {
	return Profile{SchedulerName: "aware", Args: Args{Policy: "koordinator-load-aware", Preferences: preference.Off, Usage: &source}}
}

// switched is a Prometheus that answers for twoWorkers. Its answers can be changed while it runs.
type switched struct {
	answer atomic.Pointer[map[string]string] // by query: the result in JSON
	open   atomic.Int32                      // questions that have no answer yet
	closed sync.Mutex                        // held while no question gets an answer
}

// vector returns one sample for each of the nodes, in JSON.
func vector(cpus map[string]string) string {
	var out []string
	for node, value := range cpus {
		out = append(out, fmt.Sprintf(`{"metric":{"node":%q},"value":[1,%q]}`, node, value))
	}
	return strings.Join(out, ",")
}

// honest are the answers of a Prometheus that measures the two workers.
func honest() *map[string]string {
	return &map[string]string{"cpu": vector(map[string]string{byRequests: "3.5", byUsage: "0.1"}),
		"memory": vector(map[string]string{byRequests: "1e9", byUsage: "1e9"})}
}

// ServeHTTP implements http.Handler.
func (s *switched) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.open.Add(1)
	s.closed.Lock()
	s.closed.Unlock() //nolint:staticcheck // waits
	s.open.Add(-1)
	fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, (*s.answer.Load())[r.FormValue("query")])
}

// startSwitched starts an honest one.
func startSwitched(t *testing.T) (*switched, usage.Config) {
	t.Helper()
	s := &switched{}
	s.answer.Store(honest())
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	queries := map[string]string{"node_cpu": "cpu", "node_memory": "memory"}
	return s, usage.Config{Source: usage.PrometheusSource, Server: promapi.Server{Address: server.URL}, Queries: queries}
}

// usageCounts waits until both workers are measured and a pod goes where usage says. On a busy machine a measurement may be too
// old by the time of a decision; then another pod is tried.
func (l *lab) usageCounts(t *testing.T, namespace string) {
	t.Helper()
	l.untilReport(t, "both workers to be measured", func(r usage.Report) bool { return r.Measured == 2 && r.Degraded == 0 })
	tries := 0
	fatal.Until(t, "a pod that is placed by usage", func() error {
		ns := l.namespace(t, fmt.Sprintf("%s-%d", namespace, tries))
		tries++
		l.make(t, ns, "aware", 1)
		if p := l.bound(t, ns, 1)[0]; p.Spec.NodeName != byUsage {
			return fmt.Errorf("%s is on %s, but usage says %s", p.Name, p.Spec.NodeName, byUsage)
		}
		return nil
	})
}

// untilReport waits for a report about the only source.
func (l *lab) untilReport(t *testing.T, what string, is func(usage.Report) bool) {
	t.Helper()
	fatal.Until(t, what, func() error {
		status, body := l.get(t, usage.Path, l.cluster.REST().BearerToken)
		if status != http.StatusOK {
			return fmt.Errorf("status %d: %s", status, body)
		}
		all, err := usage.ParseReports([]byte(body))
		if err != nil || len(all) != 1 || !is(all[0]) {
			return fmt.Errorf("%s, %v", body, err)
		}
		return nil
	})
}

// Pods are placed by what a Prometheus measures, and by requests before it has answered. A question that has no answer does not hold up a
// single pod: it is open from before the pods come until they all have a node. Its timeout is longer than the test.
func TestMeasuredUsage(t *testing.T) {
	l := newLab(t, twoWorkers())
	full := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "full"},
		Spec: corev1.PodSpec{NodeName: byUsage, Containers: []corev1.Container{{
			Name: "main", Image: "registry.k8s.io/pause:3.10", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("2Gi"),
			}},
		}}},
	}
	fatal.Value(l.client.CoreV1().Pods(l.namespace(t, "full")).Create(t.Context(), full, metav1.CreateOptions{}))(t)
	s, source := startSwitched(t)
	source.Timeout.Duration, source.MaxAge.Duration = 10*patience, 10*patience
	s.closed.Lock()
	answers := sync.OnceFunc(s.closed.Unlock)
	defer answers() // before the scheduler and the server end
	stop := l.schedule(t, loadAware(source))
	defer func() { answers(); stop() }()
	fatal.Until(t, "a question", func() error {
		if s.open.Load() == 0 {
			return fmt.Errorf("there is none")
		}
		return nil
	})
	ns := l.namespace(t, "unanswered")
	l.make(t, ns, "aware", 10)
	for _, p := range l.bound(t, ns, 10) {
		if p.Spec.NodeName != byRequests {
			t.Errorf("%s is on %s, but requests say %s", p.Name, p.Spec.NodeName, byRequests)
		}
	}
	if n := l.metrics(t).sum("gnnsched_usage_polls_total"); s.open.Load() == 0 {
		t.Errorf("no question is open any more; %v were made", n)
	}
	answers()
	l.usageCounts(t, "answered")
}

// Two schedulers that both fill one node after the other overcommit none. Each leads, as two processes with leases of their own do.
func TestTwoSchedulersShareNodes(t *testing.T) {
	const nodes, pods = 6, 24 // of each scheduler, on nodes for 10 pods each
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5"), corev1.ResourceMemory: resource.MustParse("16Gi"),
		corev1.ResourcePods: resource.MustParse("110")}
	l := newLab(t, []nodepool.Pool{{Name: "shared", Count: nodes, Capacity: capacity}})
	ns := l.namespace(t, "shared")
	names := []string{"one", "two"}
	for _, name := range names {
		defer l.lead(t, name)()
	}
	var all sync.WaitGroup
	for _, name := range names {
		for i := range pods {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, i)},
				Spec: corev1.PodSpec{SchedulerName: name, Containers: []corev1.Container{{
					Name: "c", Image: "none", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}},
				}}}}
			all.Go(func() {
				if _, err := l.client.CoreV1().Pods(ns).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	cores := map[string]int64{}
	for _, p := range l.bound(t, ns, len(names)*pods) {
		cores[p.Spec.NodeName] += kube.Requests(&p).MilliCPU
	}
	for node, milli := range cores {
		if milli > 5000 {
			t.Errorf("the pods on %s request %d thousandths of a core, and it has 5000", node, milli)
		}
	}
}

// lead starts a scheduler beside others of this process; end ends it. Run would publish its configuration, which a process does once.
func (l *lab) lead(t *testing.T, name string) (end func()) {
	t.Helper()
	decoded := fatal.Value(Config{Profiles: []Profile{{SchedulerName: name, Args: Args{Policy: "best-fit"}}}, QPS: 1000}.Decode())(t)
	access := rest.CopyConfig(l.cluster.REST())
	access.QPS, access.Burst = 1000, 2000
	client := kubernetes.NewForConfigOrDie(access)
	ctx, cancel := context.WithCancel(context.Background())
	i, err := newInstance(ctx, &schedulerserver.Config{
		ComponentConfig: *decoded, KubeConfig: access, Client: client, EventBroadcaster: events.NewEventBroadcasterAdapter(client),
	}, plugin.Recording{})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	i.startInformers()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.schedule(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// Two Deployments that talk to each other, as a Prometheus has measured: a profile greedy for traffic puts the pods of one onto
// the node of the other, and those that have no room there into its zone. The default profile spreads them.
func TestTraffic(t *testing.T) {
	l := newLab(t, []nodepool.Pool{{Name: "worker", Count: 6, Zones: []string{"a", "b", "c"}, Capacity: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"),
		corev1.ResourcePods: resource.MustParse("110"),
	}}})
	links := cluster.Links{Node: cluster.Hop{Latency: 0.1}, Rack: cluster.Hop{Latency: 0.3}, Zone: cluster.Hop{Latency: 1}}
	var samples []string
	for _, ns := range []string{"talk-near", "talk-" + DefaultProfile} {
		samples = append(samples, fmt.Sprintf(`{"metric":{"source_workload":"web","source_workload_namespace":%q,
			"destination_workload":"api","destination_workload_namespace":%q},"value":[1,"3e6"]}`, ns, ns))
	}
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, strings.Join(samples, ","))
	}))
	t.Cleanup(prometheus.Close)
	stop := l.schedule(t, Profile{SchedulerName: DefaultProfile, Args: Args{Variant: DefaultProfile}},
		Profile{SchedulerName: "near", Args: Args{Policy: "greedy:traffic", Preferences: preference.Declared,
			Traffic: &traffic.Config{Network: links, Measured: traffic.Measured{Server: promapi.Server{Address: prometheus.URL}}}}})
	defer stop()
	fatal.Until(t, "a measurement", func() error {
		if l.metrics(t).sum("gnnsched_traffic_polls_total", "result", "ok") == 0 {
			return errors.New("none yet")
		}
		return nil
	})
	for _, scheduler := range []string{"near", DefaultProfile} {
		ns := "talk-" + scheduler // the samples name it
		l.namespaceNamed(t, ns)
		l.deploy(t, ns, deployment{"api", scheduler, 1})
		api := l.bound(t, ns, 1)[0]
		l.deploy(t, ns, deployment{"web", scheduler, 5})
		beside, inZone := 0, 0
		for _, p := range l.bound(t, ns, 6) {
			if p.Name == api.Name {
				continue
			}
			if p.Spec.NodeName == api.Spec.NodeName {
				beside++
			}
			if l.zoneOf(t, p) == l.zoneOf(t, api) {
				inZone++
			}
		}
		if near := scheduler == "near"; near != (beside == 3) || near != (inZone == 5) {
			t.Errorf("%s put %d pods on the node of api, which has room for 3, and %d of 5 into its zone", scheduler, beside, inZone)
		}
	}
}

// deployment is a Deployment of pods with 1 CPU.
type deployment struct {
	name, scheduler string
	replicas        int32
}

func (l *lab) deploy(t *testing.T, namespace string, x deployment) {
	t.Helper()
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: x.name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &x.replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": x.name}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": x.name}},
				Spec: corev1.PodSpec{SchedulerName: x.scheduler, Containers: []corev1.Container{{
					Name: "main", Image: "registry.k8s.io/pause:3.10",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
				}}},
			},
		},
	}
	fatal.Value(l.client.AppsV1().Deployments(namespace).Create(t.Context(), d, metav1.CreateOptions{}))(t)
}

func (l *lab) zoneOf(t *testing.T, p corev1.Pod) string {
	t.Helper()
	n := fatal.Value(l.client.CoreV1().Nodes().Get(t.Context(), p.Spec.NodeName, metav1.GetOptions{}))(t)
	return n.Labels[corev1.LabelTopologyZone]
}
