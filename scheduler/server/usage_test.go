package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/kwok"
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

// fill runs a pod on a node, with a usage model.
func (l *lab) fill(t *testing.T, node, cpu, model string) {
	t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "on-" + node, Annotations: map[string]string{"gnnsched.io/usage": model}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "none",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}},
	}
	if _, err := l.client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// workersLab starts a cluster of twoWorkers with their pods.
func workersLab(t *testing.T) *lab {
	t.Helper()
	l := newLabWith(t, kwok.Config{Pools: twoWorkers(), UsageInterval: 500 * time.Millisecond})
	l.fill(t, byRequests, "1m", `{"cpu": "3500m", "memory": "1Gi"}`)
	l.fill(t, byUsage, "2", `{"cpu": "100m", "memory": "1Gi"}`)
	return l
}

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

// failure is something that happens to a Prometheus, so that questions fail.
type failure struct {
	name       string
	begin, end func()
}

// impatient makes a source's failures show within seconds.
func impatient(c *usage.Config) {
	c.Interval.Duration, c.Timeout.Duration, c.MaxAge.Duration = 5*time.Second, 5*time.Second, 10*time.Second
}

// Pods are placed by what a Prometheus measures, and by requests while it fails or has not answered.
func TestMeasuredUsage(t *testing.T) {
	l := workersLab(t)
	t.Run("unanswered", l.testUnanswered)
	t.Run("Prometheus fails", l.testPrometheusFails)
}

// testPrometheusFails stops, continues, kills and restarts Debian's Prometheus, which scrapes the cluster.
func (l *lab) testPrometheusFails(t *testing.T) {
	if _, err := exec.LookPath("prometheus"); err != nil {
		if _, err := os.Stat("../../.cache/prometheus/usr/bin/prometheus"); err != nil {
			t.Skip("prometheus is not installed: run make prometheus, or install Debian's package")
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := listener.Addr().String() // free in a moment; Prometheus cannot say which port it chose
	must(t, listener.Close())
	var server *exec.Cmd
	start := func() {
		server = exec.Command(filepath.Join("..", "..", "compose", "monitoring", "prometheus.sh"), l.cluster.Kubeconfig())
		server.Env = append(os.Environ(), "PROMETHEUS_LISTEN="+address, "PROMETHEUS_INTERVAL=1s", "PROMETHEUS_REFRESH=1s",
			"PROMETHEUS_DATA="+t.TempDir(), "TMPDIR="+t.TempDir())
		server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a signal reaches the script and Prometheus
		must(t, server.Start())
	}
	send := func(s syscall.Signal) func() { return func() { must(t, syscall.Kill(-server.Process.Pid, s)) } }
	kill := func() {
		send(syscall.SIGKILL)()
		_ = server.Wait() // its code is the signal's
	}
	start()
	defer func() { kill() }()
	queries := map[string]string{
		"node_cpu":    "sum by (node, instance) (rate(node_cpu_usage_seconds_total[5s]))",
		"node_memory": "sum by (node, instance) (node_memory_working_set_bytes)",
	}
	source := usage.Config{Source: usage.PrometheusSource, Address: "http://" + address, Queries: queries}
	impatient(&source)
	l.fail(t, source, []failure{{"frozen", send(syscall.SIGSTOP), send(syscall.SIGCONT)}, {"killed", kill, start}})
}

// fail runs a profile by usage through the failures. In each, pods go on being bound, by requests; the metrics, the
// view and the log tell which nodes that concerns, the log once a node at most; and afterwards usage counts again.
func (l *lab) fail(t *testing.T, source usage.Config, failures []failure) {
	const reason = "failed"
	var log lines
	defer l.runOn(log.context(context.Background()), t, Config{Profiles: []Profile{loadAware(source)}, QPS: 1000}, l.cluster.Kubeconfig())()
	l.usageCounts(t, "at-first")
	for i, f := range failures {
		t.Run(f.name, func(t *testing.T) {
			logged, before := log.count(""), l.metrics(t)
			since := func(text string) (n int) { return log.countFrom(logged, text) }
			f.begin()
			l.untilReport(t, fmt.Sprintf("%s says that no worker is measured: %s", usage.Path, reason), func(r usage.Report) bool {
				return r.Measured == 0 && r.Degraded == 2 && r.Named[0].Reason == reason && r.Named[1].Reason == reason && r.Failed
			})
			name := fmt.Sprintf("failure-%d", i)
			ns := l.namespace(t, name)
			l.make(t, ns, "aware", 3)
			for _, p := range l.bound(t, ns, 3) {
				if p.Spec.NodeName != byRequests {
					t.Errorf("%s is on %s, but requests say %s", p.Name, p.Spec.NodeName, byRequests)
				}
			}
			now := l.metrics(t)
			l.until(t, "another measurement", func() error { return l.failedSince(t, now) }) // it makes no second line
			if n := now.sum("gnnsched_usage_degraded_total", "reason", reason) - before.sum("gnnsched_usage_degraded_total", "reason",
				reason); n < 2 {
				t.Errorf("%v nodes are counted as %s, want 2", n, reason)
			}
			if n := now.sum("gnnsched_usage_nodes", "state", reason); n != 2 || now.sum("gnnsched_usage_nodes", "state", "measured") != 0 {
				t.Errorf("%v nodes are %s, want 2", n, reason)
			}
			// The last measurements of two nodes may have other times, and on a busy machine one may be late.
			if n := since("Nodes without measured usage are scored by requests"); n < 1 || n > 2 {
				t.Errorf("%d lines say that nodes are scored by requests, want one, or one for each node:\n%s", n, log.text())
			}
			if n := since("Measuring usage failed"); n < 1 || n > 2 {
				t.Errorf("%d lines say that measuring failed:\n%s", n, log.text())
			}
			f.end()
			l.usageCounts(t, name+"-after")
			// A Prometheus that comes back may scrape one node before the other.
			if n := since("Nodes are scored by measured usage"); n < 1 || n > 2 {
				t.Errorf("%d lines say that usage counts again, want one, or one for each node:\n%s", n, log.text())
			}
			if n := since("Measuring usage works again"); n < 1 || n > 2 {
				t.Errorf("%d lines say that measuring works again:\n%s", n, log.text())
			}
		})
	}
}

// failedSince returns an error unless a measurement failed since.
func (l *lab) failedSince(t *testing.T, before samples) error {
	t.Helper()
	const name = "gnnsched_usage_polls_total"
	if n := l.metrics(t).sum(name, "result", "error") - before.sum(name, "result", "error"); n < 1 {
		return errors.New("none failed")
	}
	return nil
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

// A question that has no answer does not hold up a single pod: it is open from before the pods come until they all have a
// node. Its timeout is longer than the test.
func (l *lab) testUnanswered(t *testing.T) {
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
