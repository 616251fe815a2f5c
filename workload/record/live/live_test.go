package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	appsv1 "k8s.io/api/apps/v1"
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
	"gnnsched/internal/promapi"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/eval/testbed/inprocess"
	"gnnsched/workload/record"
	"gnnsched/workload/record/history/historytest"
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
	client := fatal.Value(kubernetes.NewForConfig(config))(t)
	usage := fatal.Value(versioned.NewForConfig(config))(t)
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
	w := fatal.Value(record.Create(dir, record.Options{}))(t)
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
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Namespace: "default"}, Spec: appsv1.ReplicaSetSpec{
		Replicas: ptr.To[int32](0), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: newPod("web").Spec},
	}}
	fatal.Value(b.Client.AppsV1().ReplicaSets("default").Create(ctx, set, metav1.CreateOptions{}))(t)
	until(ctx, t, "the owner", func() bool { return counts().Owners == "1 ReplicaSets" })
	pods := b.Client.CoreV1().Pods("default")
	for _, name := range []string{"stays", "goes", "waits"} {
		fatal.Value(pods.Create(ctx, newPod(name), metav1.CreateOptions{}))(t)
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
	fatal.Value(w.Close())(t)
	if len(said.said()) > 0 {
		t.Errorf("with the printed rights it warned: %q", said.said())
	}
	checkRecord(t, dir, nodes.Items[0].Name, nodes.Items[1].Name)
}

func checkRecord(t *testing.T, dir, node, gone string) {
	t.Helper()
	r := fatal.Value(record.Open(dir))(t)
	pods := fatal.Value(r.Pods())(t)
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
	for _, kind := range []string{record.KindNamespace, record.KindPriorityClass, record.KindReplicaSet} {
		if err != nil || !slices.ContainsFunc(objects, func(o record.Object) bool { return o.Kind == kind }) {
			t.Errorf("no %s: %v", kind, err)
		}
	}
}

// lacking are the resources that a user with rights to nodes and pods lacks, in alphabetical order.
var lacking = []string{"nodes and pods.metrics.k8s.io", "cronjobs.batch", "daemonsets.apps", "deployments.apps",
	"horizontalpodautoscalers.autoscaling", "jobs.batch", "namespaces", "poddisruptionbudgets.policy",
	"priorityclasses.scheduling.k8s.io", "replicasets.apps", "statefulsets.apps"}

// refused checks users without some rights.
func refused(ctx context.Context, t *testing.T, b *testbed.Bed) {
	t.Helper()
	w := fatal.Value(record.Create(filepath.Join(t.TempDir(), "r"), record.Options{}))(t)
	defer w.Close() //nolint:errcheck // nothing is read
	r, said := as(t, b, narrow, w)
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(running) }()
	until(ctx, t, "refusals", func() bool { return len(said.said()) >= len(lacking) && r.cfg.Follower.Counts().Nodes > 0 })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	all := said.said()
	slices.Sort(all)
	for i, want := range lacking {
		if len(all) != len(lacking) || !strings.HasPrefix(all[i], "may not ") || !strings.Contains(all[i], want) {
			t.Errorf("warnings %q, want one about %s", all, want)
		}
	}
	if lacks := strings.Join(r.Lacks(), "; "); !strings.Contains(lacks, "deployments.apps") {
		t.Errorf("the run lacks %q", lacks)
	}
	for verb, may := range map[string][]rbacv1.PolicyRule{"": nil, "watch": half} {
		r, _ = as(t, b, may, w)
		if err := r.Run(ctx); exit.Code(err) != exit.Kubeconfig || !strings.Contains(err.Error(), "does not let this user "+verb) {
			t.Errorf("without %q: %v", verb, err)
		}
	}
}

// measured is the time at which the tests measure.
var measured = historytest.Begin.Add(10 * time.Minute)

// nowhere is a sink for rows that no test looks at.
type nowhere struct{}

func (nowhere) Pod(record.Pod)       {}
func (nowhere) Node(record.Node)     {}
func (nowhere) Object(record.Object) {}

// asking returns a recorder of a cluster that has some pods of the namespace shop, and its samples.
func asking(t *testing.T, anonymise *record.Anonymiser, names ...string) (r *Recorder, said *warnings, got *[]record.Sample) {
	t.Helper()
	said, got = &warnings{}, new([]record.Sample)
	f := observe.NewFollower(observe.Config{Out: nowhere{}, Now: func() int64 { return 1 }, Anonymise: anonymise})
	for _, name := range names {
		f.Pod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "u"}}, false)
	}
	f.Node(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}},
	})
	r = New(Config{Follower: f, Warn: said.say, Sample: func(s record.Sample) { *got = append(*got, s) }})
	r.list(nodes)
	r.list(pods)
	return r, said, got
}

// source returns a source that asks a server.
func source(t *testing.T, url string) Prometheus {
	t.Helper()
	client := fatal.Value(promapi.New(promapi.Server{Address: url}))(t)
	t.Cleanup(client.HTTP.CloseIdleConnections)
	return Prometheus{Ask: client, Now: func() time.Time { return measured }}
}

func never(t *testing.T) func() {
	return func() { t.Error("measuring ended") }
}

func TestPrometheusMeasures(t *testing.T) {
	names := fatal.Value(record.NewAnonymiser(make([]byte, 32)))(t)
	p := source(t, historytest.Server(t, nil).URL)
	web := []record.Sample{
		{Time: measured.UnixMilli(), Namespace: "shop", Name: "web", MilliCPU: 500, Memory: 1 << 20},
		{Time: measured.UnixMilli(), Name: "n1", MilliCPU: 1000, Memory: 1 << 30},
	}
	for _, anonymise := range []*record.Anonymiser{nil, names} {
		r, said, got := asking(t, anonymise, "web")
		p.measure(t.Context(), r, never(t))
		if d := cmp.Diff(web, *got); d != "" || len(said.said()) > 0 || r.Trouble() != (Trouble{}) || len(r.Lacks()) > 0 {
			t.Errorf("%s, said %q, %+v", d, said.said(), r.Trouble())
		}
	}
}

// For any answers of Prometheus, recording goes on, and each trouble is reported once and counted.
func TestPrometheusInTrouble(t *testing.T) {
	vector := func(pod, value string) string {
		return fmt.Sprintf(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"namespace":"shop","pod":%q,"container":"c"},"value":[1,%q]}]}}`, pod, value)
	}
	const empty = `{"status":"success","data":{"resultType":"vector","result":[]}}`
	for _, c := range []struct {
		name   string
		status int
		body   string // of the answers about pods; those about nodes are empty
		said   string
		want   Trouble // after two measurements
		lacks  string
	}{
		{"not ready", 503, "not ready", "server error: 503", Trouble{Failed: 2}, "usage at 2 times"},
		{"not a Prometheus", 200, "<html>", "not an answer of Prometheus", Trouble{Failed: 2}, "usage at 2 times"},
		{"refused", 422, `{"status":"error","errorType":"execution","error":"too many samples"}`, "too many samples", Trouble{Failed: 2},
			"usage at 2 times"},
		{"forbidden", 403, "forbidden", "client error: 403", Trouble{Failed: 2}, "usage at 2 times"},
		{"no series", 200, empty, "Prometheus has no series", Trouble{Failed: 2}, "usage at 2 times"},
		{"not a number", 200, vector("web", "NaN"), "negative or no finite number", Trouble{Invalid: 2, NoPods: 2, NoNodes: 2},
			"2 values of usage"},
		{"negative", 200, vector("web", "-1"), "negative or no finite number", Trouble{Invalid: 2, NoPods: 2, NoNodes: 2}, "2 values of usage"},
		{"unknown pod", 200, vector("other", "1"), "pod shop/other, which the cluster does not have",
			Trouble{Unknown: 2, NoPods: 2, NoNodes: 2}, "usage of pods at 2 times"},
	} {
		bad := true
		s := historytest.Server(t, func(w http.ResponseWriter, q url.Values) bool {
			if bad && strings.Contains(q.Get("query"), "id=\"/\"") {
				_, _ = w.Write([]byte(empty))
			} else if bad {
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}
			return bad
		})
		p := source(t, s.URL)
		r, said, got := asking(t, nil, "web")
		for range 2 {
			p.measure(t.Context(), r, never(t))
		}
		if all := said.said(); len(all) != 1 || !strings.Contains(all[0], c.said) || len(*got) > 0 {
			t.Errorf("%s: said %q, want %q; samples %+v", c.name, all, c.said, *got)
		}
		if lacks := strings.Join(r.Lacks(), "; "); r.Trouble() != c.want || !strings.Contains(lacks, c.lacks) ||
			(lacks == "") != (c.lacks == "") {
			t.Errorf("%s: %+v, lacks %q", c.name, r.Trouble(), lacks)
		}
		bad = false
		p.measure(t.Context(), r, never(t))
		if len(*got) != 2 || r.Trouble() != c.want {
			t.Errorf("%s: afterwards samples %+v, %+v", c.name, *got, r.Trouble())
		}
		if all := said.said(); c.want.Failed > 0 && all[len(all)-1] != "Prometheus can be read again" {
			t.Errorf("%s: afterwards said %q", c.name, all)
		}
	}
}

// A server that is gone or hangs costs no more than the patience, and the end of the recording is no trouble.
func TestPrometheusDoesNotAnswer(t *testing.T) {
	asked := make(chan struct{}, 8)
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server notices when the client leaves
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(hangs.Close)
	gone := historytest.Server(t, nil)
	gone.Close()
	for _, c := range []struct{ url, said string }{{hangs.URL, "context deadline exceeded"}, {gone.URL, "refused"}} {
		p := source(t, c.url)
		p.Patience = 50 * time.Millisecond
		r, said, _ := asking(t, nil, "web")
		p.measure(t.Context(), r, never(t))
		if all := said.said(); len(all) != 1 || !strings.Contains(all[0], c.said) || r.Trouble().Failed != 1 {
			t.Errorf("said %q, want %q; %+v", all, c.said, r.Trouble())
		}
	}
	for len(asked) > 0 {
		<-asked
	}
	p := source(t, hangs.URL)
	p.Patience = time.Hour
	r, said, _ := asking(t, nil, "web")
	ctx, stop := context.WithCancelCause(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); p.measure(ctx, r, never(t)) }()
	<-asked
	stop(errors.New("Ctrl-C"))
	<-ended
	if len(said.said()) > 0 || r.Trouble() != (Trouble{}) {
		t.Errorf("at the end it said %q, %+v", said.said(), r.Trouble())
	}
}

// asker counts queries, and answers each with nothing.
type asker struct{ asked int }

func (a *asker) Query(context.Context, string, time.Time) (model.Vector, error) {
	a.asked++
	return nil, nil
}

func (*asker) Range(context.Context, string, time.Time, time.Time, time.Duration) (model.Matrix, error) {
	panic("not a range")
}

// Prometheus is asked once the recorder knows the nodes and pods.
func TestPrometheusWaitsForTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asker{}
		p := Prometheus{Ask: a, Now: time.Now}
		f := observe.NewFollower(observe.Config{Out: nowhere{}})
		r := New(Config{Follower: f, Warn: func(string) {}})
		ended := make(chan struct{})
		go func() { defer close(ended); p.measure(t.Context(), r, never(t)) }()
		for _, what := range []target{nodes, nodes, pods} {
			if synctest.Wait(); a.asked > 0 {
				t.Errorf("asked before %s were listed", what.name)
			}
			r.list(what)
		}
		<-ended
		if a.asked == 0 {
			t.Error("never asked")
		}
		r.list(pods) // reflectors list again
	})
}

// measuredByPrometheus records the usage of a node of the cluster, and leaves out a foreign node's.
func measuredByPrometheus(ctx context.Context, t *testing.T, b *testbed.Bed) {
	t.Helper()
	list, err := b.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		t.Fatalf("%+v, %v", list, err)
	}
	node := list.Items[0].Name
	s := historytest.Server(t, func(w http.ResponseWriter, q url.Values) bool {
		if strings.Contains(q.Get("query"), "id=\"/\"") {
			_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"node":%q},"value":[1,"2"]},{"metric":{"node":"elsewhere"},"value":[1,"2"]}]}}`, node)
			return true
		}
		return false
	})
	samples := make(chan record.Sample, 100)
	said := &warnings{}
	f := observe.NewFollower(observe.Config{Out: nowhere{}, Now: func() int64 { return time.Now().UnixMilli() }})
	r := New(Config{
		Client: b.Client, Follower: f, Warn: said.say, Usage: source(t, s.URL), Interval: time.Hour,
		Sample: func(s record.Sample) { samples <- s },
	})
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(running) }()
	select {
	case got := <-samples:
		if d := cmp.Diff(record.Sample{Time: measured.UnixMilli(), Name: node, MilliCPU: 2000, Memory: 2}, got); d != "" {
			t.Error(d)
		}
	case <-ctx.Done():
		t.Error("no usage was measured")
	}
	until(ctx, t, "unknown names", func() bool { return r.Trouble().Unknown == 2 }) // with the pod of the recorded answers
	stop()
	if err := <-ended; err != nil || len(said.said()) != 1 {
		t.Errorf("%v, said %q", err, said.said())
	}
}
