package usage

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	clocktesting "k8s.io/utils/clock/testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/kwok"
	"gnnsched/kwok/nodepool"
)

// rackOfTwo knows the nodes of the simulated cluster, but not what their annotations say.
type rackOfTwo struct{ fakeDirectory }

func (rackOfTwo) Nodes() map[string]nodeInfo {
	offers := cluster.Resources{MilliCPU: 16_000, Memory: 64 << 30}
	return map[string]nodeInfo{"node-0": {Name: "node-0", Allocatable: offers}, "node-1": {Name: "node-1", Allocatable: offers}}
}

// TestPowerFromACluster measures a simulated cluster through a real Prometheus, with the default queries except for their windows. The
// resulting curve equals the node's annotation, which is known from the watts only.
func TestPowerFromACluster(t *testing.T) {
	monitoring := filepath.Join("..", "..", "compose", "monitoring")
	if _, err := exec.LookPath("prometheus"); err != nil {
		if _, err := os.Stat("../../.cache/prometheus/usr/bin/prometheus"); err != nil {
			t.Skip("prometheus is not installed: run make prometheus, or install Debian's package")
		}
	}
	ctx := t.Context()
	capacity := list("16", "64Gi")
	capacity[v1.ResourcePods] = resource.MustParse("110")
	pool := nodepool.Pool{Name: "node", Count: 2, Capacity: capacity}
	c, err := kwok.Start(ctx, kwok.Config{Dir: t.TempDir(), UsageInterval: 500 * time.Millisecond, Pools: []nodepool.Pool{pool}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop(ctx) //nolint:errcheck // the test is over
	cs, err := kubernetes.NewForConfig(c.REST())
	if err != nil {
		t.Fatal(err)
	}
	annotate(t, cs, "node-0", `{"idle": 60, "full": 240}`)

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String() // free in a moment; Prometheus does not report which port it chose
	_ = l.Close()
	server := exec.CommandContext(ctx, filepath.Join(monitoring, "prometheus.sh"), c.Kubeconfig())
	server.Env = append(os.Environ(), "PROMETHEUS_LISTEN="+address, "PROMETHEUS_INTERVAL=1s", "PROMETHEUS_REFRESH=1s",
		"PROMETHEUS_DATA="+t.TempDir(), "TMPDIR="+t.TempDir())
	server.Cancel = func() error { return server.Process.Signal(os.Interrupt) }
	var log strings.Builder
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Process.Signal(os.Interrupt)
		_ = server.Wait() // its code is the signal's
		if t.Failed() {
			t.Logf("prometheus:\n%s", log.String())
		}
	}()
	// Our clock runs 30 times as fast as Prometheus', so that two minutes are four seconds.
	clk := clocktesting.NewFakeClock(time.Now())
	p, err := newPoller(Config{Source: PrometheusSource, Address: "http://" + address, Queries: QueriesOver(4 * time.Second)}, nil,
		rackOfTwo{}, clk)
	if err != nil {
		t.Fatal(err)
	}
	defer p.source.(*prometheus).client.HTTP.CloseIdleConnections()
	busy := false
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
		clk.Step(15 * time.Second)
		p.poll(ctx, klog.Background())
		h := p.store.nodes["node-0"]
		if h.power.fit.samples > 10 && !busy { // enough of a machine without pods
			run(t, cs, "node-0", `{"cpu": 12}`)
			busy = true
			time.Sleep(8 * time.Second) // the exporters' pages are not of the same moment, and the windows of rates have both uses
		}
		if h.power.state == powerCalibrated && near(*h.power.model, 60, 150, 240) && p.store.nodes["node-1"].power.state == powerGathering {
			break
		}
	}
	a, b := p.store.nodes["node-0"].power, p.store.nodes["node-1"].power
	if a.state != powerCalibrated || !near(*a.model, 60, 150, 240) {
		t.Errorf("node-0: %s, %+v, last %v W of %+v", a.state, a.model, a.watts, a.fit)
	}
	// node-1 has the default model: 3.3 W a thread, a fifth of that idle.
	if want := 52.8 * (0.2 + 0.8*0.05/16); b.state != powerGathering || b.watts < want*0.99 || b.watts > want*1.01 {
		t.Errorf("node-1 without a pod: %s, %v W, want %v", b.state, b.watts, want)
	}
	u := p.store.current().Nodes["node-0"]
	if u == nil || u.Power != a.model {
		t.Errorf("decisions see %+v", u)
	}
}

func annotate(t *testing.T, cs kubernetes.Interface, node, model string) {
	t.Helper()
	patch := `{"metadata": {"annotations": {"` + kube.PowerAnnotation + `": ` + strconv.Quote(model) + `}}}`
	if _, err := cs.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// run starts a pod with a usage model on a node.
func run(t *testing.T, cs kubernetes.Interface, node, model string) {
	t.Helper()
	_, err := cs.CoreV1().Pods("default").Create(t.Context(), &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "busy", Annotations: map[string]string{"gnnsched.io/usage": model}},
		Spec:       v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "main", Image: "none"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
