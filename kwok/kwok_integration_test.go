package kwok

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"gnnsched/internal/fatal"
	"gnnsched/kwok/nodepool"
)

const patience = 20 * time.Second

// start starts a cluster and stops it at the end of the test.
func start(t *testing.T, c Config) (*Cluster, *kubernetes.Clientset) {
	t.Helper()
	cl, err := Start(context.Background(), c)
	fatal.If(t, err)
	t.Cleanup(func() { stop(t, cl) })
	cs, err := kubernetes.NewForConfig(cl.REST())
	fatal.If(t, err)
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
		if _, err := pods.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: prefix + n.Name},
			Spec:       corev1.PodSpec{NodeName: n.Name, Containers: []corev1.Container{{Name: "c", Image: "none"}}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
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
	list, err := cs.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
	fatal.If(t, err)
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
		cs, err := kubernetes.NewForConfig(c)
		fatal.If(t, err)
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
	rc, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&rules,
		&clientcmd.ConfigOverrides{CurrentContext: "named"}).ClientConfig()
	fatal.If(t, err)
	if host, _, err := net.SplitHostPort(rc.Host[len("https://"):]); err != nil || host != "localhost" {
		t.Errorf("the kubeconfig says %s", rc.Host)
	}
	cs, err := kubernetes.NewForConfig(rc)
	fatal.If(t, err)
	list, err := cs.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	fatal.If(t, err)
	if len(list.Items) != 3 {
		t.Errorf("%d nodes are left", len(list.Items))
	}
	n, err := cs.CoreV1().Nodes().Get(ctx, "node-1", metav1.GetOptions{})
	fatal.If(t, err)
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
