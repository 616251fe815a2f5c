package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/metrics/pkg/client/clientset/versioned"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/internal/logging"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/eval/testbed/inprocess"
	"gnnsched/workload/record"
	"gnnsched/workload/record/observe"
)

// One cluster, and three users: with the rights that RBAC prints, with those to nodes and pods only, and with none.
func TestRecordingACluster(t *testing.T) {
	logging.DropKlog() // reflectors log every refusal
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := testbed.Run(ctx, testbed.Config{Name: "record", Launcher: inprocess.Launcher{}, Nodes: testbed.Nodes{Count: 2}},
		func(ctx context.Context, b *testbed.Bed) error {
			role, err := RBAC(true)
			if err != nil {
				return err
			}
			recorder = rulesOf(t, role)
			recordPods(ctx, t, b)
			refused(ctx, t, b)
			measuredByPrometheus(ctx, t, b)
			return nil
		})
	if err != nil {
		t.Error(err)
	}
}

// What three users may do: recorder what RBAC prints.
var (
	recorder []rbacv1.PolicyRule
	narrow   = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"list", "watch"}}}
	half     = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"list"}}}
)

func rulesOf(t *testing.T, role []byte) []rbacv1.PolicyRule {
	t.Helper()
	var r rbacv1.ClusterRole
	fatal.If(t, yaml.UnmarshalStrict(role, &r))
	return r.Rules
}

// guard refuses requests as an API server with RBAC does. The simulated cluster's allows everything.
type guard struct {
	rules []rbacv1.PolicyRule
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	verb, group, path := "list", "", strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if w := r.URL.Query().Get("watch"); w == "true" || w == "1" {
		verb = "watch"
	}
	if path[0] == "apis" {
		group = path[1]
	}
	name := path[len(path)-1]
	allowed := slices.ContainsFunc(g.rules, func(x rbacv1.PolicyRule) bool {
		return slices.Contains(x.APIGroups, group) && slices.Contains(x.Resources, name) && slices.Contains(x.Verbs, verb)
	})
	if r.Method == http.MethodGet && allowed {
		return g.next.RoundTrip(r)
	}
	status := apierrors.NewForbidden(schema.GroupResource{Group: group, Resource: name}, "", errors.New("no")).Status()
	status.APIVersion, status.Kind = "v1", "Status"
	body, err := json.Marshal(status)
	return &http.Response{
		StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
		Request: r,
	}, err
}

// as returns a recorder of a user with some rights, and its warnings.
func as(t *testing.T, b *testbed.Bed, may []rbacv1.PolicyRule, w *record.Writer) (*Recorder, *warnings) {
	t.Helper()
	config := rest.CopyConfig(b.REST)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return guard{may, next} })
	client, err := kubernetes.NewForConfig(config)
	fatal.If(t, err)
	usage, err := versioned.NewForConfig(config)
	fatal.If(t, err)
	said := &warnings{}
	f := observe.NewFollower(observe.Config{Out: w, Now: func() int64 { return time.Now().UnixMilli() }})
	return New(Config{Client: client, Usage: MetricsAPI(usage), Interval: time.Second, Follower: f, Warn: said.say, Sample: w.Sample}), said
}

type warnings struct {
	mu  sync.Mutex
	all []string
}

func (w *warnings) say(s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, s)
}

func (w *warnings) said() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

// until waits for a condition.
func until(ctx context.Context, t *testing.T, what string, ok func() bool) {
	t.Helper()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			SchedulerName: "test", TerminationGracePeriodSeconds: ptr.To[int64](0),
			Containers: []corev1.Container{{
				Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("250m")}},
			}},
		}}
}

// recordPods records pods that are bound, deleted or wait, while a node leaves.
func recordPods(ctx context.Context, t *testing.T, b *testbed.Bed) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "r")
	w, err := record.Create(dir, record.Options{})
	fatal.If(t, err)
	r, said := as(t, b, recorder, w)
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(running) }()
	counts := r.cfg.Follower.Counts
	until(ctx, t, "nodes", func() bool { return counts().Nodes == 3 }) // with the control plane
	nodes, err := b.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "!node-role.kubernetes.io/control-plane"})
	if err != nil || len(nodes.Items) != 2 {
		t.Fatalf("%d nodes, %v", len(nodes.Items), err)
	}
	pods := b.Client.CoreV1().Pods("default")
	for _, name := range []string{"stays", "goes", "waits"} {
		if _, err := pods.Create(ctx, newPod(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if name == "waits" {
			continue
		}
		bind := &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: nodes.Items[0].Name},
		}
		fatal.If(t, pods.Bind(ctx, bind, metav1.CreateOptions{}))
	}
	until(ctx, t, "bindings", func() bool { return counts().Bound == 2 && counts().Waiting == 1 })
	fatal.If(t, pods.Delete(ctx, "goes", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
	fatal.If(t, b.Client.CoreV1().Nodes().Delete(ctx, nodes.Items[1].Name, metav1.DeleteOptions{}))
	until(ctx, t, "departures", func() bool { return counts().Ended == 1 && counts().Nodes == 2 })
	stop()
	fatal.If(t, <-ended)
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if len(said.said()) > 0 {
		t.Errorf("with the printed rights it warned: %q", said.said())
	}
	checkRecord(t, dir, nodes.Items[0].Name, nodes.Items[1].Name)
}

func checkRecord(t *testing.T, dir, node, gone string) {
	t.Helper()
	r, err := record.Open(dir)
	fatal.If(t, err)
	pods, err := r.Pods()
	fatal.If(t, err)
	var got []string
	for _, p := range pods {
		if p.Namespace == "default" {
			got = append(got, fmt.Sprintf("%s %d %s bound %v %s", p.Name, p.MilliCPU, p.Node, p.Bound >= p.Arrived && p.Bound > 0, p.End))
		}
	}
	slices.Sort(got)
	want := []string{"goes 250 " + node + " bound true Deleted", "stays 250 " + node + " bound true ", "waits 250  bound false "}
	if !slices.Equal(got, want) {
		t.Errorf("pods %q, want %q", got, want)
	}
	nodes, err := r.Nodes()
	if err != nil || !slices.ContainsFunc(nodes, func(n record.Node) bool { return n.Name == gone && n.Gone && n.To > 0 }) {
		t.Errorf("the node %s has not left: %+v, %v", gone, nodes, err)
	}
	objects, err := r.Objects()
	for _, kind := range []string{record.KindNamespace, record.KindPriorityClass} {
		if err != nil || !slices.ContainsFunc(objects, func(o record.Object) bool { return o.Kind == kind }) {
			t.Errorf("no %s: %v", kind, err)
		}
	}
}

// refused checks users without some rights.
func refused(ctx context.Context, t *testing.T, b *testbed.Bed) {
	t.Helper()
	w, err := record.Create(filepath.Join(t.TempDir(), "r"), record.Options{})
	fatal.If(t, err)
	defer w.Close() //nolint:errcheck // nothing is read
	r, said := as(t, b, narrow, w)
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(running) }()
	until(ctx, t, "refusals", func() bool { return len(said.said()) >= 5 && r.cfg.Follower.Counts().Nodes > 0 })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	all := said.said()
	slices.Sort(all)
	for i, want := range []string{"nodes and pods.metrics.k8s.io", "jobs.batch", "namespaces", "poddisruptionbudgets.policy",
		"priorityclasses.scheduling.k8s.io"} {
		if len(all) != 5 || !strings.HasPrefix(all[i], "may not ") || !strings.Contains(all[i], want) {
			t.Errorf("warnings %q, want one about %s", all, want)
		}
	}
	for verb, may := range map[string][]rbacv1.PolicyRule{"": nil, "watch": half} {
		r, _ = as(t, b, may, w)
		if err := r.Run(ctx); exit.Code(err) != exit.Kubeconfig || !strings.Contains(err.Error(), "does not let this user "+verb) {
			t.Errorf("without %q: %v", verb, err)
		}
	}
}
