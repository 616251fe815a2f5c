// These tests run the workload packages end to end, on a simulated cluster with a real API server, the real controllers and kwok's nodes.

package live_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/internal/logging"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/eval/testbed/inprocess"
	"gnnsched/workload"
	"gnnsched/workload/cleanup"
	"gnnsched/workload/driver"
	"gnnsched/workload/record"
	"gnnsched/workload/record/live"
	"gnnsched/workload/record/observe"
	"gnnsched/workload/record/play"
)

func TestWorkloadOnACluster(t *testing.T) {
	logging.DropKlog() // controllers log a lot while their objects are deleted
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	log := &lines{}
	err := testbed.Run(ctx, testbed.Config{
		Name: "e2e", Launcher: inprocess.Launcher{Log: zerolog.New(log).Level(zerolog.InfoLevel)}, Nodes: testbed.Nodes{Count: 4},
	}, func(ctx context.Context, b *testbed.Bed) error {
		fillAndClean(ctx, t, b)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if got := log.with("failed to apply stage"); len(got) > 0 {
		t.Errorf("kwok logged %d errors about pods that were deleted, the first %s", len(got), got[0])
	}
}

// fillAndClean fills the cluster twice, checks the pods and removes them.
func fillAndClean(ctx context.Context, t *testing.T, bed *testbed.Bed) {
	client := bed.Client
	cleaner := fatal.Value(cleanup.New(bed.REST))(t)
	nodes, err := cleaner.Nodes(ctx)
	if err != nil || !nodes.Simulated() {
		t.Fatalf("nodes %+v, %v: want simulated ones alone", nodes, err)
	}
	cleaner.Force = true
	checkOther := deployOther(ctx, t, client)
	stop := bindAll(ctx, t, client)
	defer stop()

	room, err := driver.Measure(ctx, client, nil)
	if err != nil || room.Nodes != 4 || room.Excluded != 1 {
		t.Fatalf("room %+v, %v: want 4 nodes and the control plane left out", room, err)
	}
	plan := fatal.Value(workload.Generator{
		Seed: 1, Shapes: workload.DefaultShapes(), ReplicasMin: 5, ReplicasMax: 15, Fills: 2,
		Target: workload.Load{CPU: 0.1, Memory: 0.1, Pods: 0.1}, Capacity: room.Allocatable, Used: room.Used,
	}.Plan())(t)
	sum := fatal.Value(driver.Run(ctx, driver.Config{
		Client: client, Cleaner: cleaner, Plan: plan, Capacity: room, SchedulerName: "test-binder", RunID: "it",
	}))(t)
	for i, f := range plan.Fills() {
		if s := sum.Fills[i]; s.Deployments != f.Deployments || s.Created != f.Pods || s.Bound != f.Pods || s.Pending != 0 {
			t.Errorf("fill %d: %+v, planned %+v", i+1, s, f)
		}
	}
	checkPods(ctx, t, client, plan.Fills()[1].Pods)
	leavesSlowly(ctx, t, client)
	clean(ctx, t, client, cleaner, checkOther)
}

// leavesSlowly adds a pod of the run that takes a few seconds to end.
func leavesSlowly(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	t.Helper()
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: workload.LabelRun + "=it"})
	if err != nil || len(pods.Items) == 0 {
		t.Fatal("no pod of the run:", err)
	}
	of := pods.Items[0]
	fatal.Value(client.CoreV1().Pods(of.Namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "slow", Labels: map[string]string{
			workload.LabelManagedBy: workload.ManagedBy, workload.LabelRun: "it",
		}},
		Spec: corev1.PodSpec{NodeName: of.Spec.NodeName, Containers: []corev1.Container{{
			Name: "app", Image: "img", Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}},
		}}},
	}, metav1.CreateOptions{}))(t)
}

// lines are the lines of a log.
type lines struct {
	mu  sync.Mutex
	all []string
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(b))
	return len(b), nil
}

// with returns the lines that contain the text.
func (l *lines) with(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.all), func(line string) bool { return !strings.Contains(line, text) })
}

// deployOther creates a Deployment that no run made and returns a check that it still has its
// pod.
func deployOther(ctx context.Context, t *testing.T, client kubernetes.Interface) func() {
	t.Helper()
	labels := map[string]string{"app": "mine"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			SchedulerName: "test-binder", Containers: []corev1.Container{{Name: "app", Image: "img"}},
		}},
	}}
	fatal.Value(client.AppsV1().Deployments("default").Create(ctx, d, metav1.CreateOptions{}))(t)
	return func() {
		t.Helper()
		pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=mine"})
		if err != nil || len(pods.Items) != 1 {
			t.Errorf("%d pods of the other Deployment, %v", len(pods.Items), err)
		}
	}
}

// bindAll stands in for a scheduler: it binds the pods to the nodes in turn.
func bindAll(ctx context.Context, t *testing.T, client kubernetes.Interface) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	w, err := client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
	fatal.If(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		next := 0
		for e := range w.ResultChan() {
			p, ok := e.Object.(*corev1.Pod)
			if !ok || e.Type != "ADDED" {
				continue
			}
			next = (next + 1) % 4
			b := &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace},
				Target:     corev1.ObjectReference{Kind: "Node", Name: fmt.Sprintf("node-%d", next)},
			}
			if err := client.CoreV1().Pods(p.Namespace).Bind(ctx, b, metav1.CreateOptions{}); err != nil && ctx.Err() == nil &&
				!apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				t.Errorf("bind %s: %v", p.Name, err)
			}
		}
	}()
	return func() { cancel(); w.Stop(); <-done }
}

// checkPods checks that only the pods of the last fill are left, with the labels that cleanup
// needs.
func checkPods(ctx context.Context, t *testing.T, client kubernetes.Interface, want int) {
	t.Helper()
	pods := fatal.Value(client.CoreV1().Pods(driver.DefaultNamespace).List(ctx, metav1.ListOptions{}))(t)
	for _, p := range pods.Items {
		if p.Labels[workload.LabelManagedBy] != workload.ManagedBy || p.Labels[workload.LabelRun] != "it" || p.Labels[workload.LabelFill] != "2" {
			t.Fatalf("pod %s has the labels %v", p.Name, p.Labels)
		}
	}
	if len(pods.Items) != want {
		t.Errorf("%d pods, want the %d of the last fill", len(pods.Items), want)
	}
}

// clean removes the run, first with a foreign object in its namespace, then without.
func clean(ctx context.Context, t *testing.T, client kubernetes.Interface, cleaner *cleanup.Client, checkOther func()) {
	t.Helper()
	mine := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}
	fatal.Value(client.CoreV1().ConfigMaps(driver.DefaultNamespace).Create(ctx, mine, metav1.CreateOptions{}))(t)
	scope := cleanup.Scope{Run: "it"}
	fatal.If(t, cleaner.Remove(ctx, scope, nil))
	spaces, err := cleaner.Namespaces(ctx, scope)
	if err != nil || len(spaces) != 1 || spaces[0].Keep != "it holds other objects: configmaps/mine" {
		t.Fatalf("namespaces %+v, %v", spaces, err)
	}
	fatal.If(t, cleaner.RemoveNamespaces(ctx, spaces))
	if _, err := client.CoreV1().ConfigMaps(driver.DefaultNamespace).Get(ctx, "mine", metav1.GetOptions{}); err != nil {
		t.Errorf("the other object in the run's namespace: %v", err)
	}
	fatal.If(t, client.CoreV1().ConfigMaps(driver.DefaultNamespace).Delete(ctx, "mine", metav1.DeleteOptions{}))
	if spaces, err = cleaner.Namespaces(ctx, scope); err != nil || len(spaces) != 1 || spaces[0].Keep != "" {
		t.Fatalf("namespaces %+v, %v", spaces, err)
	}
	fatal.If(t, cleaner.RemoveNamespaces(ctx, spaces))
	if _, err := client.CoreV1().Namespaces().Get(ctx, driver.DefaultNamespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the run's namespace: %v", err)
	}
	checkOther()
}

// A cluster is recorded, played, and recorded again: the pods have the same constraints. Then everything is removed.
func TestReplayOfARecord(t *testing.T) {
	logging.DropKlog()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	err := testbed.Run(ctx, testbed.Config{Name: "replay", Launcher: inprocess.Launcher{}, Nodes: testbed.Nodes{Count: 4}},
		func(ctx context.Context, b *testbed.Bed) error {
			stop := bindAll(ctx, t, b.Client)
			defer stop()
			original := constrained(ctx, t, b)
			first := recordUntil(ctx, t, b, original)
			played, before := playAgain(ctx, t, b, first)
			second := rowsOf(t, recordUntil(ctx, t, b, 2*original))
			for name, want := range before {
				got, ok := second[played[name]]
				if !ok {
					t.Errorf("%s was not played as %s", name, played[name])
					continue
				}
				if d := cmp.Diff(constraints(t, want, true), constraints(t, got, false)); d != "" {
					t.Errorf("%s: %s", name, d)
				}
				if got.Node != want.Node {
					t.Errorf("%s ran on %s at the beginning, and is on %s", name, want.Node, got.Node)
				}
			}
			if len(before) != original {
				t.Errorf("compared %d pods, want %d", len(before), original)
			}
			removePlayed(ctx, t, b)
			return nil
		})
	if err != nil {
		t.Error(err)
	}
}

// constrained creates pods with every kind of constraint in two namespaces, and returns their number.
func constrained(ctx context.Context, t *testing.T, b *testbed.Bed) int {
	t.Helper()
	must := func(err error) {
		t.Helper()
		fatal.If(t, err)
	}
	for _, ns := range []string{"shop", "db"} {
		_, err := b.Client.CoreV1().Namespaces().Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: map[string]string{"team": ns}}}, metav1.CreateOptions{})
		must(err)
	}
	_, err := b.Client.SchedulingV1().PriorityClasses().Create(ctx,
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000, PreemptionPolicy: ptr.To(corev1.PreemptNever)},
		metav1.CreateOptions{})
	must(err)
	labels := map[string]string{"app.kubernetes.io/name": "web", "app": "web"}
	spec := corev1.PodSpec{
		SchedulerName: "test-binder", PriorityClassName: "high", NodeSelector: map[string]string{"kubernetes.io/hostname": "node-1"},
		Tolerations: []corev1.Toleration{{
			Key: "gpu", Operator: corev1.TolerationOpEqual, Value: "yes", Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](60),
		}},
		Affinity: &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"b"}}},
				MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn,
					Values: []string{"node-2"}}}}}}},
			PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 7,
				PodAffinityTerm: corev1.PodAffinityTerm{
					TopologyKey: "zone", Namespaces: []string{"db"}, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}}}},
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: "kubernetes.io/hostname", LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
				MatchLabelKeys:    []string{"pod-template-hash"},
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "shop"}}}}},
		},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 2, TopologyKey: "zone", WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, MatchLabelKeys: []string{"pod-template-hash"}}},
		Containers: []corev1.Container{{Name: "c", Image: "i", Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080},
			{ContainerPort: 53, HostPort: 53, Protocol: corev1.ProtocolUDP, HostIP: "127.0.0.1"}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("250m"),
				"memory": resource.MustParse("1Gi"), "example.com/fpga": resource.MustParse("2")},
				Limits: corev1.ResourceList{"cpu": resource.MustParse("500m"), "example.com/fpga": resource.MustParse("2")}}}},
	}
	_, err = b.Client.AppsV1().Deployments("shop").Create(ctx,
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}}}, metav1.CreateOptions{})
	must(err)
	for _, name := range []string{"db-0", "db-1"} {
		_, err = b.Client.CoreV1().Pods("db").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{"app": "db", "app.kubernetes.io/managed-by": "gnnsched"}},
			Spec: corev1.PodSpec{SchedulerName: "test-binder", PriorityClassName: "system-node-critical",
				Containers: []corev1.Container{{Name: "c", Image: "i"}}}}, metav1.CreateOptions{})
		must(err)
	}
	return 4
}

// recordUntil records the cluster into a new folder until it has the given number of bound pods.
func recordUntil(ctx context.Context, t *testing.T, b *testbed.Bed, pods int) (dir string) {
	t.Helper()
	waitForPods(ctx, t, b, pods)
	dir = filepath.Join(t.TempDir(), "r.record")
	w := fatal.Value(record.Create(dir, record.Options{}))(t)
	from := time.Now().Add(time.Second).UnixMilli() // the API's times are whole seconds
	f := observe.NewFollower(observe.Config{Out: w, Now: func() int64 { return max(from, time.Now().UnixMilli()) }})
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- live.New(live.Config{Client: b.Client, Follower: f, Warn: func(s string) { t.Error(s) }}).Run(running)
	}()
	for c := f.Counts(); c.Nodes < 5 || c.Bound < pods; c = f.Counts() {
		pause(ctx, t)
	}
	stop()
	fatal.If(t, <-ended)
	w.Run(record.Run{ID: "1", Source: "live", From: from, To: max(from+1, time.Now().UnixMilli())})
	fatal.Value(w.Close())(t)
	return dir
}

func waitForPods(ctx context.Context, t *testing.T, b *testbed.Bed, pods int) {
	t.Helper()
	for {
		list := fatal.Value(b.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName!="}))(t)
		if len(list.Items) == pods {
			return
		}
		pause(ctx, t)
	}
}

func pause(ctx context.Context, t *testing.T) {
	t.Helper()
	select {
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	case <-time.After(50 * time.Millisecond):
	}
}

func rowsOf(t *testing.T, dir string) map[string]record.Pod {
	t.Helper()
	r := fatal.Value(record.Open(dir))(t)
	pods := fatal.Value(r.Pods())(t)
	out := map[string]record.Pod{}
	for _, p := range pods {
		out[p.Namespace+"/"+p.Name] = p
	}
	return out
}

// playAgain plays a record, and returns the pods of the record and their names on the cluster now.
func playAgain(ctx context.Context, t *testing.T, b *testbed.Bed, dir string) (played map[string]string, before map[string]record.Pod) {
	t.Helper()
	r := fatal.Value(play.LoadReplay(dir))(t)
	cleaner, err := cleanup.New(b.REST)
	fatal.If(t, err)
	source := driver.Replayed(r, 1000, 0)
	log := &lines{}
	c := driver.Config{
		Client: b.Client, Cleaner: cleaner, SchedulerName: "test-binder", RunID: "20260101-Re_play", Namespace: "sim", Simulated: true,
		Log: zerolog.New(log),
	}
	source.Pace(&c)
	if c.Plan, err = source.Plan(driver.Capacity{}); err != nil {
		t.Fatal(err)
	}
	sum, err := driver.Run(ctx, c)
	if err != nil || sum.Fills[0].Placed != len(r.Parts) {
		t.Fatalf("%+v, %v", sum, err)
	}
	if warned := log.with(`"warn"`); len(warned) > 0 {
		t.Errorf("it warned %q", warned)
	}
	if _, err = driver.Run(ctx, c); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("a second replay: %v", err)
	}
	played, before = map[string]string{}, map[string]record.Pod{}
	for name, part := range r.Parts {
		was := part.Row.Namespace + "/" + part.Row.Name
		before[was], played[was] = *part.Row, "sim-"+part.Row.Namespace+"/"+name
	}
	return played, before
}

// constraints returns the fields that must be equal in a pod and its replayed copy. was is true for the original.
func constraints(t *testing.T, p record.Pod, was bool) map[string]any {
	t.Helper()
	shape := cluster.Resources{MilliCPU: p.MilliCPU, Memory: p.Memory, GPU: p.GPU, GPUMilli: p.GPUMilli}
	affinity, tolerations := p.Affinity, p.Tolerations
	labels := map[string]string{}
	maps.Copy(labels, decoded[map[string]string](t, p.Labels))
	for _, own := range []string{workload.LabelManagedBy, workload.LabelRun, workload.LabelFill} {
		delete(labels, own)
	}
	if was {
		affinity = strings.NewReplacer(`["db"]`, `["sim-db"]`, `"kubernetes.io/metadata.name":"shop"`,
			`"kubernetes.io/metadata.name":"sim-shop"`).Replace(affinity)
		kwok := `{"key":"kwok.x-k8s.io/node","operator":"Exists"}]`
		if tolerations == "" {
			tolerations = "[" + kwok
		} else {
			tolerations = strings.TrimSuffix(tolerations, "]") + "," + kwok
		}
	}
	return map[string]any{
		"requests": shape, "cpu limit": p.CPULimit, "memory limit": p.MemoryLimit, "extended": p.Extended, "labels": labels,
		"node selector": p.NodeSelector, "affinity": affinity,
		"spread": p.Spread, "tolerations": tolerations, "ports": p.HostPorts, "priority": p.Priority, "preemption": p.Preemption,
		"workload": p.Workload,
	}
}

// removePlayed removes the run, with its priority class and namespaces.
func removePlayed(ctx context.Context, t *testing.T, b *testbed.Bed) {
	t.Helper()
	cleaner := fatal.Value(cleanup.New(b.REST))(t)
	cleaner.Force = true
	found, err := cleaner.Inventory(ctx, cleanup.Scope{})
	if n := found.Counts(); err != nil || n.Pods != 4 || n.Classes != 1 || len(found.Namespaces) != 2 {
		t.Errorf("found %v, %v", found, err)
	}
	fatal.Value(cleaner.RemoveAll(ctx, cleanup.Scope{}, func(cleanup.Progress) {}))(t)
	classes, err := b.Client.SchedulingV1().PriorityClasses().List(ctx, metav1.ListOptions{LabelSelector: workload.LabelRun})
	if err != nil || len(classes.Items) > 0 {
		t.Errorf("priority classes %v, %v", classes.Items, err)
	}
	if _, err := b.Client.SchedulingV1().PriorityClasses().Get(ctx, "high", metav1.GetOptions{}); err != nil {
		t.Errorf("the cluster's own priority class: %v", err)
	}
	if _, err := b.Client.CoreV1().Namespaces().Get(ctx, "sim-shop", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace of the replay: %v", err)
	}
}

func decoded[T any](t *testing.T, text string) (out T) {
	t.Helper()
	if text == "" {
		return out
	}
	fatal.If(t, json.Unmarshal([]byte(text), &out))
	return out
}

// More pods than one request deletes are removed from a real API server, although the answer
// to the first deletion is lost.
func TestRemoveManyPods(t *testing.T) {
	logging.DropKlog()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	err := testbed.Run(ctx, testbed.Config{Name: "e2e", Launcher: inprocess.Launcher{}, Nodes: testbed.Nodes{Count: 1}},
		func(ctx context.Context, b *testbed.Bed) error {
			removeManyPods(ctx, t, b)
			return nil
		})
	if err != nil {
		t.Error(err)
	}
}

// removeManyPods creates the pods and removes them.
func removeManyPods(ctx context.Context, t *testing.T, bed *testbed.Bed) {
	const pods = 1100
	client := bed.Client
	createPods(ctx, t, client, pods)
	flaky := &flakyTransport{}
	rc := rest.CopyConfig(bed.REST)
	rc.Wrap(flaky.wrap)
	cleaner, err := cleanup.New(rc)
	fatal.If(t, err)
	cleaner.Force = true
	var first, last cleanup.Counts
	err = cleaner.Remove(ctx, cleanup.Scope{Run: "large"}, func(left cleanup.Counts) {
		if first.Pods == 0 {
			first = left
		}
		last = left
	})
	if err != nil || first.Pods != pods || last.Pods != 0 {
		t.Fatalf("from %d to %d pods, %v", first.Pods, last.Pods, err)
	}
	if n := flaky.deletions.Load(); n < 4 {
		t.Errorf("%d requests deleted %d pods", n, pods)
	}
	if n := flaky.unlimited.Load(); n > 0 {
		t.Errorf("%d requests deleted collections of any size", n)
	}
	left, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil || len(left.Items) != 1 || left.Items[0].Name != "mine" {
		t.Errorf("%d pods are left, %v", len(left.Items), err)
	}
}

// createPods creates pods of one run, and a pod that no run made.
func createPods(ctx context.Context, t *testing.T, client kubernetes.Interface, n int) {
	t.Helper()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range n + 1 {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("p-%d", i), Labels: map[string]string{workload.LabelManagedBy: workload.ManagedBy, workload.LabelRun: "large"},
			},
			Spec: corev1.PodSpec{SchedulerName: "nobody", Containers: []corev1.Container{{Name: "app", Image: "img"}}},
		}
		if i == n {
			p.Name, p.Labels = "mine", nil
		}
		group.Go(func() error {
			_, err := client.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{})
			return err
		})
	}
	fatal.If(t, group.Wait())
}

// flakyTransport counts the requests that delete pods. It loses the answer to the first of them.
type flakyTransport struct {
	deletions, unlimited atomic.Int32
	next                 http.RoundTripper
}

func (f *flakyTransport) wrap(next http.RoundTripper) http.RoundTripper {
	f.next = next
	return f
}

// RoundTrip implements http.RoundTripper. It counts a request before it sends it: the last one is
// given up when a list shows first that no pod is left.
func (f *flakyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodDelete || filepath.Base(r.URL.Path) != "pods" {
		return f.next.RoundTrip(r)
	}
	if r.URL.Query().Get("limit") == "" {
		f.unlimited.Add(1)
	}
	first := f.deletions.Add(1) == 1
	answer, err := f.next.RoundTrip(r)
	if err == nil && first {
		return nil, errors.Join(errors.New("stream error: stream ID 7; INTERNAL_ERROR; received from peer"), answer.Body.Close())
	}
	return answer, err
}
