package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics/testutil"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
	"gnnsched/internal/kubeconfig"
	"gnnsched/internal/logging"
	"gnnsched/kwok"
	"gnnsched/kwok/nodepool"
	"gnnsched/scheduler/plugin"
)

// lab holds a cluster, its clients, and the port of the scheduler's endpoint.
type lab struct {
	cluster *kwok.Cluster
	client  kubernetes.Interface
	dynamic dynamic.Interface
	memory  *memory // in place of a cluster
	port    int

	recording plugin.Recording // of the next scheduler
}

// patience is the time limit of every wait. It is long because the machine may be busy, and no passing
// test waits until it ends.
const patience = time.Minute

// pools returns two kinds of nodes in three zones, and two kinds with taints.
func pools() []nodepool.Pool {
	capacity := func(cpu, gpu string) corev1.ResourceList {
		r := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("16Gi"),
			corev1.ResourcePods: resource.MustParse("110")}
		if gpu != "" {
			r[kube.GPUResource] = resource.MustParse(gpu)
		}
		return r
	}
	taint := func(key, value string) []corev1.Taint {
		return []corev1.Taint{{Key: key, Value: value, Effect: corev1.TaintEffectNoSchedule}}
	}
	shared := capacity("8", "")
	kube.AddGPUs(shared, shareDevices)
	return []nodepool.Pool{
		{Name: "ssd", Count: 3, Capacity: capacity("16", ""), Labels: map[string]string{"disk": "ssd"}, Zones: []string{"a", "b", "c"}},
		{Name: "hdd", Count: 3, Capacity: capacity("16", ""), Labels: map[string]string{"disk": "hdd"}, Zones: []string{"a", "b", "c"}},
		{Name: "gpu", Count: 2, Capacity: capacity("8", "4"), Taints: taint("dedicated", "gpu"), Zones: []string{"a"}},
		{Name: "shared", Count: shareNodes, Capacity: shared, Labels: map[string]string{"shared": "yes", kube.GPUModelLabel: "T4"},
			Taints: taint("reserved", "shared")},
	}
}

// started is the cluster of all tests, which starts with the first of them that needs it.
var started *kwok.Cluster

// startCluster starts the cluster. It has the gate of DeviceTaintRules, which Kubernetes 1.36 has off by default.
var startCluster = sync.OnceValue(func() error {
	dir, err := os.MkdirTemp("", "scheduler-server")
	if err != nil {
		return err
	}
	started, err = kwok.Start(context.Background(), kwok.Config{Dir: dir, FeatureGates: []string{"DRADeviceTaintRules=true"},
		RuntimeConfig: []string{"resource.k8s.io/v1beta2=true"}})
	return err
})

func TestMain(m *testing.M) {
	if path := os.Getenv(trainerEnv); path != "" {
		os.Exit(fakeTrainer(path))
	}
	logging.DropKlog() // a cluster and a scheduler in one process log a lot
	code := m.Run()
	if started != nil {
		if err := errors.Join(started.Stop(context.Background()), os.RemoveAll(filepath.Dir(started.Kubeconfig()))); err != nil {
			fmt.Fprintln(os.Stderr, "stop the cluster:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// newLab gives the cluster the nodes of the pools, and takes them away after the test. It does not use testbed, which imports this package.
func newLab(t *testing.T, pools []nodepool.Pool) *lab {
	t.Helper()
	fatal.If(t, startCluster())
	l := &lab{cluster: started, client: kubernetes.NewForConfigOrDie(started.REST()), dynamic: dynamic.NewForConfigOrDie(started.REST()),
		port: freePort(t)}
	reconcile(t, l.client, pools)
	t.Cleanup(func() { reconcile(t, l.client, nil) })
	fatal.Until(t, "the nodes to be ready", func() error {
		list, err := l.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, n := range list.Items {
			for _, x := range n.Spec.Taints {
				if x.Key == corev1.TaintNodeNotReady {
					return fmt.Errorf("%s is not", n.Name)
				}
			}
		}
		return nil
	})
	return l
}

// reconcile gives a cluster the nodes and devices of the pools, and takes all others away.
func reconcile(t *testing.T, client kubernetes.Interface, pools []nodepool.Pool) {
	t.Helper()
	_, err := nodepool.Reconcile(context.Background(), client, pools)
	if err == nil {
		_, err = nodepool.Publish(context.Background(), client, pools)
	}
	fatal.If(t, err)
}

func freePort(t *testing.T) int {
	t.Helper()
	l := fatal.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// schedule runs the scheduler with the profiles. stop ends it and checks that it ends without error.
func (l *lab) schedule(t *testing.T, profiles ...Profile) (stop func()) {
	t.Helper()
	return l.run(t, Config{Profiles: profiles, QPS: 1000})
}

// run is schedule with a whole configuration.
func (l *lab) run(t *testing.T, c Config) (stop func()) {
	t.Helper()
	return l.runOn(context.Background(), t, c, l.cluster.Kubeconfig())
}

// runOn is run with another kubeconfig, and with the logger of ctx. Networks without a deadline of their own
// get patience: on a loaded machine a pass may take longer than the default, and upstream's scoring would
// decide.
func (l *lab) runOn(ctx context.Context, t *testing.T, c Config, config string) (stop func()) {
	t.Helper()
	c.Profiles = slices.Clone(c.Profiles)
	for i, p := range c.Profiles {
		if p.Deadline.Duration == 0 && p.Policy == "" && p.SchedulerName != DefaultProfile {
			c.Profiles[i].Deadline.Duration = patience
		}
	}
	return l.start(ctx, t, c, config)
}

// start runs the scheduler with any configuration. stop ends it and checks that it ends without error.
func (l *lab) start(ctx context.Context, t *testing.T, c Configuration, config string) (stop func()) {
	t.Helper()
	file, remove, err := WriteTemporary(c, kubeconfig.Target{Kubeconfig: config})
	fatal.If(t, err)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		ended <- Run(ctx, file, Endpoint{Address: "127.0.0.1", Port: l.port, Recording: l.recording},
			func() { remove(); close(ready) })
	}()
	stop = func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the scheduler ended with %v", err)
			}
		case <-time.After(patience):
			t.Error("the scheduler does not end")
		}
	}
	select {
	case <-ready:
	case err := <-ended:
		cancel()
		remove()
		t.Fatalf("the scheduler does not start: %v", err)
	}
	return stop
}

// network writes an untrained checkpoint of a variant; edit, if not nil, changes it first.
func network(t *testing.T, variant string, edit func(*checkpoint.Checkpoint)) string {
	t.Helper()
	a := checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 32}
	if strings.HasSuffix(variant, "dqn") {
		a.Encoder = checkpoint.MLP
	}
	if strings.HasPrefix(variant, "ac") {
		a.Head = checkpoint.ActorCritic
	}
	if strings.HasPrefix(variant, "gpu-") {
		a.Graph = checkpoint.GPUGraph
	}
	c := checkpoint.Random(a, rand.New(rand.NewPCG(7, 7)))
	if edit != nil {
		edit(c)
	}
	file := filepath.Join(t.TempDir(), variant+".safetensors")
	fatal.If(t, c.Save(file))
	return file
}

// namespaces counts them, because one that is deleted may be there for a while.
var namespaces int

// namespace creates a namespace whose name begins with a prefix. It is deleted with its content after the test.
func (l *lab) namespace(t *testing.T, prefix string) (name string) {
	t.Helper()
	namespaces++
	name = fmt.Sprint(prefix, "-", namespaces)
	l.namespaceNamed(t, name)
	return name
}

func (l *lab) namespaceNamed(t *testing.T, name string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	fatal.Until(t, "an earlier namespace to be gone", func() error {
		_, err := l.client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
		return err
	})
	if l.memory != nil {
		return
	}
	t.Cleanup(func() {
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
		ctx := context.Background()
		err := errors.Join(
			l.client.AppsV1().Deployments(name).DeleteCollection(ctx,
				metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}, metav1.ListOptions{}),
			l.client.CoreV1().Namespaces().Delete(ctx, name, now),
		)
		if err != nil {
			t.Error(err)
		}
		fatal.Until(t, "namespace "+name+" to be empty", func() error {
			if err := l.client.CoreV1().Pods(name).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
				return err
			}
			if n := len(l.pods(t, name)); n > 0 {
				return fmt.Errorf("%d pods are left", n)
			}
			return nil
		})
	})
}

// apply works like `kubectl apply -n namespace -f` with a file of testdata/manifests.
func (l *lab) apply(t *testing.T, namespace, file string) {
	t.Helper()
	b := fatal.Value(os.ReadFile(filepath.Join("testdata", "manifests", file)))(t)
	docs := kyaml.NewYAMLOrJSONDecoder(bytes.NewReader(b), 4096)
	for {
		var o unstructured.Unstructured
		if err := docs.Decode(&o); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		l.applyObject(t, namespace, &o)
	}
}

func (l *lab) applyObject(t *testing.T, namespace string, o *unstructured.Unstructured) {
	t.Helper()
	if l.memory != nil {
		l.memory.apply(t, namespace, o)
		return
	}
	gvr, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	var r dynamic.ResourceInterface = l.dynamic.Resource(gvr)
	if o.GetKind() != "PriorityClass" {
		r = l.dynamic.Resource(gvr).Namespace(namespace)
	}
	fatal.Value(r.Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "test"}))(t)
}

func (l *lab) pods(t *testing.T, namespace string) []corev1.Pod {
	t.Helper()
	list := fatal.Value(l.client.CoreV1().Pods(namespace).List(context.Background(), metav1.ListOptions{}))(t)
	return list.Items
}

// bound waits until want pods of the namespace have a node, and returns them.
func (l *lab) bound(t *testing.T, namespace string, want int) []corev1.Pod {
	t.Helper()
	var out []corev1.Pod
	fatal.Until(t, fmt.Sprintf("%d pods in %s to get a node", want, namespace), func() error {
		out = nil
		for _, p := range l.pods(t, namespace) {
			if p.Spec.NodeName != "" && p.DeletionTimestamp == nil {
				out = append(out, p)
			}
		}
		if len(out) != want {
			return fmt.Errorf("%d have one", len(out))
		}
		return nil
	})
	return out
}

// events returns the events of a pod (of any pod, if the name is empty) with a reason.
func (l *lab) events(t *testing.T, namespace, pod, reason string) []corev1.Event {
	t.Helper()
	list := fatal.Value(l.client.CoreV1().Events(namespace).List(context.Background(), metav1.ListOptions{}))(t)
	var out []corev1.Event
	for _, e := range list.Items {
		if e.Reason == reason && (pod == "" || e.InvolvedObject.Name == pod) {
			out = append(out, e)
		}
	}
	return out
}

// get sends a request to the scheduler's endpoint, with a token unless it is empty.
func (l *lab) get(t *testing.T, path, token string) (status int, body string) {
	t.Helper()
	return l.ask(t, http.MethodGet, path, token)
}

// ask is get with any method. The body of a PUT is "0".
func (l *lab) ask(t *testing.T, method, path, token string) (status int, body string) {
	t.Helper()
	var content io.Reader
	if method == http.MethodPut {
		content = strings.NewReader("0")
	}
	req := fatal.Value(http.NewRequestWithContext(t.Context(), method, fmt.Sprintf("https://127.0.0.1:%d%s", l.port, path), content))(t)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	// The certificate is self-signed, and the connection does not leave loopback.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	resp := fatal.Value((&http.Client{Transport: transport}).Do(req))(t)
	defer resp.Body.Close()
	b := fatal.Value(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, string(b)
}

// samples holds the metrics of the scheduler's endpoint at one moment.
type samples testutil.Metrics

func (l *lab) metrics(t *testing.T) samples {
	t.Helper()
	status, body := l.get(t, "/metrics", l.cluster.REST().BearerToken)
	if status != http.StatusOK {
		t.Fatalf("metrics: status %d: %s", status, body)
	}
	all := testutil.NewMetrics()
	fatal.If(t, testutil.ParseMetrics(body, &all))
	return samples(all)
}

// sum adds up the samples of a metric that have the given labels, which are pairs of name and value. It
// is 0 if there are none.
func (m samples) sum(name string, labels ...string) float64 {
	var sum float64
next:
	for _, s := range m[name] {
		for i := 0; i < len(labels); i += 2 {
			if string(s.Metric[model.LabelName(labels[i])]) != labels[i+1] {
				continue next
			}
		}
		sum += float64(s.Value)
	}
	return sum
}

// untilReady waits until the scheduler's endpoint says that it is ready.
func (l *lab) untilReady(t *testing.T) {
	t.Helper()
	url := &url.URL{Scheme: "https", Host: fmt.Sprintf("127.0.0.1:%d", l.port), Path: "/readyz"}
	fatal.Until(t, "the endpoint to be ready", func() error {
		return CheckHealth(t.Context(), url, patience, io.Discard)
	})
}
