package cleanup_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"gnnsched/internal/fatal"
	"gnnsched/workload"
	"gnnsched/workload/cleanup"
	"gnnsched/workload/driver/fakecluster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ours(run string) map[string]string {
	return map[string]string{workload.LabelManagedBy: workload.ManagedBy, workload.LabelRun: run}
}

func object(namespace, name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, UID: types.UID(namespace + "/" + name)}
}

func deployment(namespace, name string, labels map[string]string) runtime.Object {
	return &appsv1.Deployment{ObjectMeta: object(namespace, name, labels)}
}

func replicaSet(namespace, name string, labels map[string]string) runtime.Object {
	return &appsv1.ReplicaSet{ObjectMeta: object(namespace, name, labels)}
}

func pod(namespace, name string, labels map[string]string) runtime.Object {
	return &corev1.Pod{ObjectMeta: object(namespace, name, labels)}
}

func namespace(name string, labels map[string]string) runtime.Object {
	return &corev1.Namespace{ObjectMeta: object("", name, labels)}
}

func configMap(namespace, name string, labels map[string]string) runtime.Object {
	return &corev1.ConfigMap{ObjectMeta: object(namespace, name, labels)}
}

// inhabited returns a cluster with two runs and with objects that cleanup must not touch.
func inhabited() *fakecluster.Cluster {
	objects := []runtime.Object{
		namespace("gnnsched-sim", ours("a")), namespace("shared", ours("a")), namespace("theirs", nil), namespace("b-only", ours("b")),
		// objects of the project that no run made, and foreign objects with similar labels
		deployment("gnnsched-system", "scheduler", map[string]string{workload.LabelManagedBy: workload.ManagedBy}),
		deployment("theirs", "theirs", map[string]string{workload.LabelManagedBy: "helm", workload.LabelRun: "a"}),
		deployment("theirs", "plain", nil), pod("theirs", "plain-1", nil),
		// objects of others in a namespace that a run made
		pod("shared", "mine", map[string]string{"app": "mine"}), configMap("shared", "mine", nil),
		// objects that Kubernetes makes in each namespace
		configMap("gnnsched-sim", "kube-root-ca.crt", nil), &corev1.ServiceAccount{ObjectMeta: object("gnnsched-sim", "default", nil)},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "gnnsched-sim", Name: "default-token-x", Annotations: map[string]string{"kubernetes.io/service-account.name": "default"},
		}},
	}
	for _, at := range [][2]string{{"gnnsched-sim", "a"}, {"gnnsched-sim", "b"}, {"shared", "a"}, {"theirs", "a"}, {"b-only", "b"}} {
		ns, run := at[0], at[1]
		objects = append(objects, deployment(ns, "d-"+run, ours(run)), replicaSet(ns, "d-"+run+"-1", ours(run)),
			pod(ns, "d-"+run+"-1-x", ours(run)), pod(ns, "d-"+run+"-1-y", ours(run)))
	}
	return fakecluster.New(objects...)
}

func client(t *testing.T, c *fakecluster.Cluster) *cleanup.Client {
	return &cleanup.Client{Metadata: c.Metadata, Kinds: c, Clock: fakecluster.RunningClock(t)}
}

// everything lists the cluster's objects as kind namespace/name.
func everything(t *testing.T, c *fakecluster.Cluster) []string {
	t.Helper()
	ctx, all := context.Background(), metav1.ListOptions{}
	var out []string
	add := func(kind string, m metav1.ObjectMeta) {
		out = append(out, fmt.Sprintf("%s %s/%s", kind, m.Namespace, m.Name))
	}
	d := fatal.Value(c.Client.AppsV1().Deployments("").List(ctx, all))(t)
	for _, o := range d.Items {
		add("deployment", o.ObjectMeta)
	}
	r, _ := c.Client.AppsV1().ReplicaSets("").List(ctx, all)
	for _, o := range r.Items {
		add("replicaset", o.ObjectMeta)
	}
	p, _ := c.Client.CoreV1().Pods("").List(ctx, all)
	for _, o := range p.Items {
		add("pod", o.ObjectMeta)
	}
	m, _ := c.Client.CoreV1().ConfigMaps("").List(ctx, all)
	for _, o := range m.Items {
		add("configmap", o.ObjectMeta)
	}
	n, _ := c.Client.CoreV1().Namespaces().List(ctx, all)
	for _, o := range n.Items {
		add("namespace", o.ObjectMeta)
	}
	slices.Sort(out)
	return out
}

func without(all []string, gone ...string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(gone, s) })
}

func TestCleanRemovesOnlyWhatRunsMade(t *testing.T) {
	for _, test := range []struct {
		scope cleanup.Scope
		gone  []string
		kept  []string // namespaces
	}{
		{
			scope: cleanup.Scope{},
			gone: []string{
				"deployment gnnsched-sim/d-a", "replicaset gnnsched-sim/d-a-1", "pod gnnsched-sim/d-a-1-x", "pod gnnsched-sim/d-a-1-y",
				"deployment gnnsched-sim/d-b", "replicaset gnnsched-sim/d-b-1", "pod gnnsched-sim/d-b-1-x", "pod gnnsched-sim/d-b-1-y",
				"deployment shared/d-a", "replicaset shared/d-a-1", "pod shared/d-a-1-x", "pod shared/d-a-1-y",
				"deployment theirs/d-a", "replicaset theirs/d-a-1", "pod theirs/d-a-1-x", "pod theirs/d-a-1-y",
				"deployment b-only/d-b", "replicaset b-only/d-b-1", "pod b-only/d-b-1-x", "pod b-only/d-b-1-y",
				"namespace /gnnsched-sim", "namespace /b-only",
			},
			kept: []string{"shared"},
		},
		{
			scope: cleanup.Scope{Run: "a"},
			gone: []string{
				"deployment gnnsched-sim/d-a", "replicaset gnnsched-sim/d-a-1", "pod gnnsched-sim/d-a-1-x", "pod gnnsched-sim/d-a-1-y",
				"deployment shared/d-a", "replicaset shared/d-a-1", "pod shared/d-a-1-x", "pod shared/d-a-1-y",
				"deployment theirs/d-a", "replicaset theirs/d-a-1", "pod theirs/d-a-1-x", "pod theirs/d-a-1-y",
			},
			kept: []string{"gnnsched-sim", "shared"}, // run b has objects in the first
		},
		{
			scope: cleanup.Scope{Namespace: "gnnsched-sim", Run: "b"},
			gone: []string{
				"deployment gnnsched-sim/d-b", "replicaset gnnsched-sim/d-b-1", "pod gnnsched-sim/d-b-1-x", "pod gnnsched-sim/d-b-1-y",
			},
		},
		{scope: cleanup.Scope{Run: "no-such"}},
	} {
		checkRemoval(t, test.scope, test.gone, test.kept)
	}
}

// checkRemoval removes the scope from an inhabited cluster. gone are the objects that this must
// delete, kept the namespaces of the scope's runs that must stay.
func checkRemoval(t *testing.T, scope cleanup.Scope, gone, kept []string) {
	t.Helper()
	c := inhabited()
	before := everything(t, c)
	cl := client(t, c)
	ctx := context.Background()
	fatal.If(t, cl.Remove(ctx, scope, nil))
	list := fatal.Value(cl.Namespaces(ctx, scope))(t)
	fatal.If(t, cl.RemoveNamespaces(ctx, list))
	if d := cmp.Diff(without(before, gone...), everything(t, c)); d != "" {
		t.Errorf("%+v:\n%s", scope, d)
	}
	var staying []string
	for _, n := range list {
		if n.Keep != "" {
			staying = append(staying, n.Name)
		}
	}
	slices.Sort(staying)
	if d := cmp.Diff(kept, staying); d != "" {
		t.Errorf("%+v, namespaces kept:\n%s", scope, d)
	}
}

// A namespace that stays has a reason.
func TestNamespacesSayWhy(t *testing.T) {
	c := inhabited()
	list := fatal.Value(client(t, c).Namespaces(context.Background(), cleanup.Scope{}))(t)
	got := map[string]string{}
	for _, n := range list {
		got[n.Name] = n.Keep
	}
	if got["gnnsched-sim"] != "" || got["b-only"] != "" || len(got) != 3 {
		t.Errorf("got %q", got)
	}
	for _, want := range []string{"it holds other objects", "pods/mine", "configmaps/mine"} {
		if !strings.Contains(got["shared"], want) {
			t.Errorf("shared: %q lacks %q", got["shared"], want)
		}
	}
}

type brokenKinds struct{}

func (brokenKinds) ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error) {
	return nil, errors.New("metrics API is down")
}

// A namespace stays if its contents cannot be listed.
func TestNamespacesStayInDoubt(t *testing.T) {
	cl := client(t, inhabited())
	cl.Kinds = brokenKinds{}
	list, err := cl.Namespaces(context.Background(), cleanup.Scope{})
	if err != nil || len(list) != 3 {
		t.Fatal(list, err)
	}
	for _, n := range list {
		if !strings.Contains(n.Keep, "metrics API is down") {
			t.Errorf("%s: keep %q", n.Name, n.Keep)
		}
	}
}

func TestFindGroups(t *testing.T) {
	f := fatal.Value(client(t, inhabited()).Find(context.Background(), cleanup.Scope{}))(t)
	one := cleanup.Counts{Deployments: 1, ReplicaSets: 1, Pods: 2}
	want := []cleanup.Group{
		{Namespace: "b-only", Run: "b", Counts: one}, {Namespace: "gnnsched-sim", Run: "a", Counts: one},
		{Namespace: "gnnsched-sim", Run: "b", Counts: one},
		{Namespace: "shared", Run: "a", Counts: one}, {Namespace: "theirs", Run: "a", Counts: one},
	}
	if d := cmp.Diff(want, f.Groups()); d != "" {
		t.Error(d)
	}
	if got := f.Counts(); got != (cleanup.Counts{Deployments: 5, ReplicaSets: 5, Pods: 10}) || got.Total() != 20 {
		t.Errorf("counts %+v", got)
	}
}

// Remove repeats a deletion on which the server gave up.
func TestRemoveTriesAgain(t *testing.T) {
	c := inhabited()
	calls := 0
	c.OnDelete = func(resource string) error {
		if resource != "pods" {
			return nil
		}
		if calls++; calls <= 2 {
			return apierrors.NewTimeoutError("too many", 1)
		}
		return nil
	}
	var last cleanup.Counts
	fatal.If(t, client(t, c).Remove(context.Background(), cleanup.Scope{Run: "b"}, func(left cleanup.Counts) { last = left }))
	if calls < 3 || last.Total() != 0 {
		t.Errorf("%d calls, %+v left", calls, last)
	}
}

func TestRemoveReportsWhatIsStuck(t *testing.T) {
	c := inhabited()
	ctx, cancel := context.WithCancel(context.Background())
	c.OnDelete = func(resource string) error {
		if resource == "pods" {
			return apierrors.NewTimeoutError("no", 1)
		}
		return nil
	}
	cl := client(t, c)
	time.AfterFunc(50*time.Millisecond, cancel)
	err := cl.Remove(ctx, cleanup.Scope{Run: "b"}, nil)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "4 objects remain, among them pods d-b-1-") {
		t.Errorf("got %v", err)
	}
}

func TestRemoveStopsAtARefusal(t *testing.T) {
	c := inhabited()
	c.OnDelete = func(string) error {
		return apierrors.NewForbidden(appsv1.Resource("deployments"), "", errors.New("read only"))
	}
	err := client(t, c).Remove(context.Background(), cleanup.Scope{}, nil)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "delete deployments in namespace b-only") {
		t.Errorf("got %v", err)
	}
	if got := len(everything(t, c)); got != len(everything(t, inhabited())) {
		t.Errorf("%d objects are left", got)
	}
}

func TestScopeValidate(t *testing.T) {
	for run, ok := range map[string]bool{"": true, "20251120-101010-ab12": true, "a b": false, "a,app=x": false} {
		if err := (cleanup.Scope{Run: run}).Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", run, err)
		}
		if _, err := client(t, inhabited()).Find(context.Background(), cleanup.Scope{Run: run}); (err == nil) != ok {
			t.Errorf("find %q: %v", run, err)
		}
	}
}

func TestSimulated(t *testing.T) {
	node := func(name string, annotations map[string]string) runtime.Object {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
	}
	fake := map[string]string{workload.NodeTaint: workload.NodeSimulated}
	for _, c := range []struct {
		name        string
		nodes       []runtime.Object
		want        bool
		total, real int
	}{
		{"no nodes", nil, false, 0, 0},
		{"all simulated", []runtime.Object{node("a", fake), node("b", fake)}, true, 2, 0},
		{"one real", []runtime.Object{node("a", fake), node("b", nil)}, false, 2, 1},
		{"another value", []runtime.Object{node("a", map[string]string{workload.NodeTaint: "real"})}, false, 1, 1},
	} {
		got, err := client(t, fakecluster.New(c.nodes...)).Nodes(context.Background())
		if err != nil || got.Simulated() != c.want || got.Total != c.total || got.Real != c.real {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}

// crowded returns a cluster with the given number of pods of run a, and a pod that no run made.
func crowded(pods int) *fakecluster.Cluster {
	objects := []runtime.Object{pod("gnnsched-sim", "mine", nil)}
	for i := range pods {
		objects = append(objects, pod("gnnsched-sim", fmt.Sprintf("p-%05d", i), ours("a")))
	}
	return fakecluster.New(objects...)
}

// A server does not finish the deletion of a large collection within its request timeout.
func TestRemoveMoreThanOneRequestDeletes(t *testing.T) {
	for _, largest := range []int{600, 100, 40} {
		c := crowded(1300)
		c.LargestDelete = largest
		var seen []int
		err := client(t, c).Remove(context.Background(), cleanup.Scope{Run: "a"}, func(left cleanup.Counts) { seen = append(seen, left.Pods) })
		if err != nil {
			t.Fatalf("a server that deletes %d pods a request: %v", largest, err)
		}
		if got := everything(t, c); len(got) != 1 || got[0] != "pod gnnsched-sim/mine" {
			t.Errorf("a server that deletes %d pods a request: %d objects are left, the first %s", largest, len(got), got[0])
		}
		if seen[0] != 1300 || seen[len(seen)-1] != 0 {
			t.Errorf("progress %v", seen)
		}
	}
}

// A broken connection is no reason to give up, if it comes back soon.
func TestRemoveSurvivesBrokenConnections(t *testing.T) {
	c := crowded(3)
	broken := 4
	c.OnDelete = func(resource string) error {
		if resource != "pods" || broken == 0 {
			return nil
		}
		broken--
		return &url.Error{Op: "Delete", URL: "https://fake/pods", Err: errors.New("connection reset by peer")}
	}
	if err := client(t, c).Remove(context.Background(), cleanup.Scope{Run: "a"}, nil); err != nil {
		t.Error(err)
	}
}

// A server that fails every time is reported with its error.
func TestRemoveGivesUp(t *testing.T) {
	c := crowded(3)
	tries := 0
	c.OnDelete = func(resource string) error {
		if resource != "pods" {
			return nil
		}
		tries++
		return apierrors.NewInternalError(errors.New("no leader"))
	}
	err := client(t, c).Remove(context.Background(), cleanup.Scope{Run: "a"}, nil)
	if err == nil || !strings.Contains(err.Error(), "delete pods in namespace gnnsched-sim") || !strings.Contains(err.Error(), "no leader") {
		t.Errorf("got %v", err)
	}
	if tries < 5 || tries > 20 {
		t.Errorf("it tried %d times", tries)
	}
}
