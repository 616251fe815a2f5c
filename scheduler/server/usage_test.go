package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/fatal"
	"gnnsched/kwok/nodepool"
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
	return s, usage.Config{Source: usage.PrometheusSource, Address: server.URL, Queries: queries}
}

// usageCounts waits until both workers are measured and a pod goes where usage says. On a busy machine a measurement may be too
// old by the time of a decision; then another pod is tried.
func (l *lab) usageCounts(t *testing.T, namespace string) {
	t.Helper()
	l.untilReport(t, "both workers to be measured", func(r usage.Report) bool { return r.Measured == 2 && r.Degraded == 0 })
	tries := 0
	l.until(t, "a pod that is placed by usage", func() error {
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
	l.until(t, what, func() error {
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
	_, err := l.client.CoreV1().Pods(l.namespace(t, "full")).Create(t.Context(), full, metav1.CreateOptions{})
	fatal.If(t, err)
	s, source := startSwitched(t)
	source.Timeout.Duration, source.MaxAge.Duration = 10*patience, 10*patience
	s.closed.Lock()
	answers := sync.OnceFunc(s.closed.Unlock)
	defer answers() // before the scheduler and the server end
	stop := l.schedule(t, loadAware(source))
	defer func() { answers(); stop() }()
	l.until(t, "a question", func() error {
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
