package kwok

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"gnnsched/internal/fatal"
	"gnnsched/internal/logging"
	"gnnsched/kwok/nodepool"
)

const patience = 20 * time.Second

// start starts a cluster and stops it at the end of the test.
func start(t *testing.T, c Config) (*Cluster, *kubernetes.Clientset) {
	t.Helper()
	cl := fatal.Value(Start(context.Background(), c))(t)
	t.Cleanup(func() { stop(t, cl) })
	cs := fatal.Value(kubernetes.NewForConfig(cl.REST()))(t)
	return cl, cs
}

func stop(t *testing.T, cl *Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := cl.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := cl.Wait(); err != nil {
		t.Errorf("wait after stop: %v", err)
	}
}

// runPods creates a pod on every node, with the node's name, and waits until they run.
func runPods(t *testing.T, cs kubernetes.Interface, prefix string) {
	t.Helper()
	ctx := context.Background()
	nodes, err := cs.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	fatal.If(t, err)
	pods := cs.CoreV1().Pods("default")
	for _, n := range nodes.Items {
		fatal.Value(pods.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: prefix + n.Name},
			Spec:       corev1.PodSpec{NodeName: n.Name, Containers: []corev1.Container{{Name: "c", Image: "none"}}},
		}, metav1.CreateOptions{}))(t)
	}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		list, err := pods.List(ctx, metav1.ListOptions{})
		for _, p := range list.Items {
			if p.Status.Phase != corev1.PodRunning {
				return false, err
			}
		}
		return err == nil, err
	})
	if err != nil {
		t.Fatalf("not every pod runs: %v", err)
	}
}

// TestCluster starts a cluster, restarts it with its data, and starts it with other nodes and an
// advertised name.
func TestCluster(t *testing.T) {
	checkLeaks(t)
	dir := t.TempDir()

	cl, cs := start(t, Config{Dir: dir})
	url := cl.URL()
	checkNodes(t, cs)
	checkAccess(t, cl)
	checkSockets(t)
	runPods(t, cs, "first-")
	if s, err := Inspect(context.Background(), dir); err != nil || s.Phase != Ready || s.Nodes != (NodeCount{11, 11}) ||
		s.PID != os.Getpid() || s.Address != url {
		t.Errorf("state %+v, %v", s, err)
	}
	if _, err := Start(context.Background(), Config{Dir: dir}); !errors.Is(err, errRunning) {
		t.Errorf("a second start in the same directory: %v", err)
	}
	stop(t, cl)
	if s, err := Inspect(context.Background(), dir); err != nil || s.Phase != Stopped {
		t.Errorf("state after stop %+v, %v", s, err)
	}

	cl, cs = start(t, Config{Dir: dir})
	if cl.URL() != url {
		t.Errorf("the address changed from %s to %s", url, cl.URL())
	}
	if p, err := cs.CoreV1().Pods("default").Get(context.Background(), "first-node-3", metav1.GetOptions{}); err != nil ||
		p.Status.Phase != corev1.PodRunning {
		t.Errorf("the pod of the first start: %v, %v", p.Status.Phase, err)
	}
	checkNodes(t, cs)
	runPods(t, cs, "second-")
	stop(t, cl)

	checkOtherNodesAndName(t, dir)
}

// checkNodes checks that the nodes are the default ones and ready.
func checkNodes(t *testing.T, cs kubernetes.Interface) {
	t.Helper()
	list := fatal.Value(cs.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{}))(t)
	tainted := 0
	for _, n := range list.Items {
		if !nodeReady(&n) {
			t.Errorf("%s is not ready: %v, taints %v", n.Name, n.Status.Conditions, n.Spec.Taints)
		}
		if a := n.Status.Allocatable; a.Cpu().Value() != 64 || a.Memory().Value() != 256<<30 || a.Pods().Value() != 110 {
			t.Errorf("%s has %v", n.Name, a)
		}
		for _, taint := range n.Spec.Taints {
			if taint.ToString() == "node-role.kubernetes.io/control-plane:NoSchedule" {
				tainted++
			}
		}
	}
	if len(list.Items) != 11 || tainted != 1 {
		t.Errorf("%d nodes, %d of them tainted", len(list.Items), tainted)
	}
}

// checkAccess checks that requests need TLS and the token.
func checkAccess(t *testing.T, cl *Cluster) {
	t.Helper()
	for name, change := range map[string]func(*rest.Config){
		"anonymous":   func(c *rest.Config) { c.BearerToken = "" },
		"wrong token": func(c *rest.Config) { c.BearerToken = "0" + c.BearerToken[1:] + "x" },
	} {
		c := cl.REST()
		change(c)
		cs := fatal.Value(kubernetes.NewForConfig(c))(t)
		if _, err := cs.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
			t.Errorf("%s: %v", name, err)
		}
		if err := ready(context.Background(), cs.RESTClient()); !apierrors.IsUnauthorized(err) {
			t.Errorf("%s asks for health: %v", name, err)
		}
	}
	stranger := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: x509.NewCertPool()}, DisableKeepAlives: true}}
	var unknown x509.UnknownAuthorityError
	if _, err := stranger.Get(cl.URL()); !errors.As(err, &unknown) {
		t.Errorf("a client without the authority: %v", err)
	}
}

// checkOtherNodesAndName restarts the cluster with other pools and an advertised name.
func checkOtherNodesAndName(t *testing.T, dir string) {
	t.Helper()
	ctx := context.Background()
	copied := filepath.Join(t.TempDir(), "shared", "kubeconfig")
	pools := nodepool.Default(2)
	pools[1].Capacity[corev1.ResourceCPU] = *pools[1].Capacity.Memory() // any other value
	pools[1].Labels = map[string]string{"gone": "agent"}
	pools[1].Taints = []corev1.Taint{{Key: "new", Effect: corev1.TaintEffectNoSchedule}}
	cl, _ := start(t, Config{
		Dir: dir, Pools: pools, BindAddress: "0.0.0.0", AdvertiseHost: "localhost", Context: "named",
		KubeconfigCopies: []string{copied},
	})
	if info, err := os.Stat(copied); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("copy: %v, %v", info.Mode(), err)
	}
	rules := clientcmd.ClientConfigLoadingRules{ExplicitPath: copied}
	rc := fatal.Value(clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&rules,
		&clientcmd.ConfigOverrides{CurrentContext: "named"}).ClientConfig())(t)
	if host, _, err := net.SplitHostPort(rc.Host[len("https://"):]); err != nil || host != "localhost" {
		t.Errorf("the kubeconfig says %s", rc.Host)
	}
	cs := fatal.Value(kubernetes.NewForConfig(rc))(t)
	list := fatal.Value(cs.CoreV1().Nodes().List(ctx, metav1.ListOptions{}))(t)
	if len(list.Items) != 3 {
		t.Errorf("%d nodes are left", len(list.Items))
	}
	n := fatal.Value(cs.CoreV1().Nodes().Get(ctx, "node-1", metav1.GetOptions{}))(t)
	_, kept := n.Labels["node-role.kubernetes.io/agent"]
	if kept || n.Labels["gone"] != "agent" || n.Status.Allocatable.Cpu().Value() != 256<<30 || len(n.Spec.Taints) != 1 {
		t.Errorf("node-1 was not updated: %v, %v, %v", n.Labels, n.Status.Allocatable, n.Spec.Taints)
	}
	stop(t, cl)
}

// TestCancelledStart cancels the start of etcd, of the API server and of the nodes. The process must
// survive (stopping a starting API server would end it), nothing may keep running, and the next
// start must work.
func TestCancelledStart(t *testing.T) {
	checkLeaks(t)
	dir := t.TempDir()
	for _, step := range []string{"starting etcd", "starting kube-apiserver", "making 2 nodes"} {
		ctx, cancel := context.WithCancel(context.Background())
		reached := false
		_, err := Start(ctx, Config{Dir: dir, Pools: nodepool.Default(1), Progress: func(s string) {
			if s == step {
				reached = true
				cancel()
			}
		}})
		if !reached || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: reached %v, %v", step, reached, err)
		}
		cancel()
		if held, err := lockHeld(dir); err != nil || held {
			t.Errorf("%s: lock held %v, %v", step, held, err)
		}
	}
	cl, _ := start(t, Config{Dir: dir})
	stop(t, cl)
}

func init() {
	// Kubernetes' log would hide the tests' output.
	logging.DropKlog()
}

// upstreamLeaks are goroutines of Kubernetes and kwok that cannot be stopped or that end some
// seconds later. Each start has a few.
var upstreamLeaks = []goleak.Option{
	// kwok's queues run until the process ends: three for each start.
	goleak.IgnoreAnyFunction("sigs.k8s.io/kwok/pkg/utils/queue.(*weightDelayingQueue[...]).loopWorker"),
	// kwok does not wait for the end of its informers.
	goleak.IgnoreAnyFunction("sigs.k8s.io/kwok/pkg/utils/informer.newCacheInformer[...].func2"),
	// kwok hands a pod or node to workers that may have ended already: one of each for a stop under load.
	goleak.IgnoreTopFunction("sigs.k8s.io/kwok/pkg/kwok/controllers.(*PodController).watchResources"),
	goleak.IgnoreTopFunction("sigs.k8s.io/kwok/pkg/kwok/controllers.(*NodeController).watchResources"),
	// So do its reflectors, whose watches then wait for them.
	goleak.IgnoreAnyFunction("sigs.k8s.io/kwok/pkg/utils/informer.dummyCache[...].func1"), // a new object
	goleak.IgnoreAnyFunction("sigs.k8s.io/kwok/pkg/utils/informer.dummyCache[...].func2"), // a changed one
	goleak.IgnoreAnyFunction("sigs.k8s.io/kwok/pkg/utils/informer.dummyCache[...].func3"), // a deleted one
	goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive"),
	// kwok never shuts down its event broadcaster: two for each start.
	goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/watch.(*Broadcaster).loop"),
	goleak.IgnoreAnyFunction("k8s.io/client-go/tools/record.(*eventBroadcasterImpl).StartEventWatcher.func1"),
	// Each consistent read starts a timer that is not stopped. The second name is of Kubernetes 1.37.
	goleak.IgnoreAnyFunction("k8s.io/apiserver/pkg/storage/cacher.(*watchCache).waitUntilFreshAndBlock.func2"),
	goleak.IgnoreAnyFunction("k8s.io/apiserver/pkg/storage/cacher.(*watchCache).waitUntilFreshLocked.func2"),
	// Loops that are meant to run forever, such as the log health check: one for each process.
	goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/util/wait.Forever"),
}

// checkLeaks fails the test if goroutines remain at its end, except upstreamLeaks. One look waits
// two seconds at most; a watch of a stopped API server that waits for its cache ends after three,
// later on a loaded machine. So a goroutine is left over when fifteen looks have met one.
func checkLeaks(t *testing.T) {
	t.Helper()
	ignore := append([]goleak.Option{goleak.IgnoreCurrent()}, upstreamLeaks...)
	t.Cleanup(func() {
		var err error
		for range 15 {
			if err = goleak.Find(ignore...); err == nil {
				return
			}
		}
		t.Error(err)
	})
}

// checkSockets checks that this process listens only on loopback addresses.
func checkSockets(t *testing.T) {
	t.Helper()
	mine := map[string]bool{}
	fds := fatal.Value(filepath.Glob("/proc/self/fd/*"))(t)
	for _, fd := range fds {
		target, err := os.Readlink(fd)
		if inode, ok := strings.CutPrefix(target, "socket:["); err == nil && ok {
			mine[strings.TrimSuffix(inode, "]")] = true
		}
	}
	listening := 0
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6", "/proc/self/net/udp", "/proc/self/net/udp6"} {
		b := fatal.Value(os.ReadFile(table))(t)
		for _, line := range strings.Split(string(b), "\n")[1:] {
			f := strings.Fields(line)
			const local, state, inode = 1, 3, 9
			if len(f) <= inode || !mine[f[inode]] || f[state] != "0A" && !strings.Contains(table, "udp") {
				continue
			}
			listening++
			if !loopbackHex(t, f[local]) {
				t.Errorf("%s: listens on %s", table, f[local])
			}
		}
	}
	if listening != 1 {
		t.Errorf("%d listening sockets, want only the API server's", listening)
	}
}

// loopbackHex reports whether an address in the kernel's format, such as 0100007F:C350, is a
// loopback address.
func loopbackHex(t *testing.T, s string) bool {
	t.Helper()
	host, port, _ := strings.Cut(s, ":")
	b := fatal.Value(hex.DecodeString(host))(t)
	fatal.Value(strconv.ParseUint(port, 16, 16))(t)
	if len(b) == 4 {
		return b[3] == 127 // little endian
	}
	return host == "00000000000000000000000001000000"
}

func TestLoopbackHex(t *testing.T) {
	for s, want := range map[string]bool{
		"0100007F:1F90": true, "00000000:1F90": false, "0101A8C0:0050": false,
		"00000000000000000000000001000000:1F90": true, "00000000000000000000000000000000:1F90": false,
	} {
		if got := loopbackHex(t, s); got != want {
			t.Errorf("%s: %v", s, got)
		}
	}
}

func TestEtcdLog(t *testing.T) {
	var out bytes.Buffer
	ctx, cancel := context.WithCancel(context.Background())
	l := &etcdLog{ctx: ctx, log: zerolog.New(&out)}
	log := l.zap().With(zap.String("member", "m"))
	log.Warn("not recommended for production")
	log.Error("disk full")
	l.serving.Store(true)
	log.Info("chatter")
	log.Warn("slow", zap.Int("ms", 7))
	cancel()
	log.Error("closed connection")
	want := `{"level":"error","source":"etcd","member":"m","message":"disk full"}
{"level":"warn","source":"etcd","member":"m","ms":7,"message":"slow"}
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
	defer func() {
		if recover() == nil {
			t.Error("a fatal error neither ended the process nor panicked")
		}
	}()
	log.Fatal("cannot go on")
}

func TestKwokLog(t *testing.T) {
	var out bytes.Buffer
	ctx, cancel := context.WithCancel(context.Background())
	log := kwokLogger(ctx, zerolog.New(&out))
	log.Info("chatter")
	log.With("node", "node-1").Error("failed", "err", "no such node")
	log.Error("failed to apply stage", "err", errors.New(`failed to delete pod web-1: pods "web-1" not found`), "pod", "sim/web-1")
	cancel()
	log.Error("context canceled")
	want := `{"level":"error","source":"kwok","err":"no such node","node":"node-1","message":"failed"}
{"level":"debug","source":"kwok","err":"failed to delete pod web-1: pods \"web-1\" not found","pod":"sim/web-1","message":"failed to apply stage"}
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}

// The controllers' log has no errors about objects that were deleted meanwhile.
func TestControllersLog(t *testing.T) {
	var lines []string
	log := funcr.New(func(prefix, args string) { lines = append(lines, prefix+" "+args) }, funcr.Options{})
	ctx := quiet(klog.NewContext(context.Background(), log))
	for _, err := range []error{errors.New(`pods "a" not found`), errors.New(`node "" not found`), errors.New("disk full")} {
		runtime.HandleErrorWithContext(ctx, err, "Failed to delete terminating pod")
		klog.LoggerWithValues(klog.FromContext(ctx), "pod", "a").Error(err, "Failed to get node")
	}
	want := []string{
		`UnhandledError "msg"="Failed to delete terminating pod" "error"="disk full"`,
		` "msg"="Failed to get node" "error"="disk full" "pod"="a"`,
	}
	if d := cmp.Diff(want, lines); d != "" {
		t.Error(d)
	}
}
