// Package e2e tests the workload packages end to end, on a simulated cluster with a real API
// server, the real controllers and kwok's nodes.
package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"gnnsched/internal/fatal"
	"gnnsched/internal/logging"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/eval/testbed/inprocess"
	"gnnsched/workload"
	"gnnsched/workload/cleanup"
	"gnnsched/workload/driver"
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
	cleaner, err := cleanup.New(bed.REST)
	fatal.If(t, err)
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
	plan, err := workload.Generator{
		Seed: 1, Shapes: workload.DefaultShapes(), ReplicasMin: 5, ReplicasMax: 15, Fills: 2,
		Target: workload.Load{CPU: 0.1, Memory: 0.1, Pods: 0.1}, Capacity: room.Allocatable, Used: room.Used,
	}.Plan()
	fatal.If(t, err)
	sum, err := driver.Run(ctx, driver.Config{
		Client: client, Cleaner: cleaner, Plan: plan, Room: room, SchedulerName: "test-binder", RunID: "it",
	})
	fatal.If(t, err)
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
	if _, err := client.CoreV1().Pods(of.Namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "slow", Labels: map[string]string{
			workload.LabelManagedBy: workload.ManagedBy, workload.LabelRun: "it",
		}},
		Spec: corev1.PodSpec{NodeName: of.Spec.NodeName, Containers: []corev1.Container{{
			Name: "app", Image: "img", Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}},
		}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
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
	if _, err := client.AppsV1().Deployments("default").Create(ctx, d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
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
	pods, err := client.CoreV1().Pods(driver.DefaultNamespace).List(ctx, metav1.ListOptions{})
	fatal.If(t, err)
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
	if _, err := client.CoreV1().ConfigMaps(driver.DefaultNamespace).Create(ctx, mine, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
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
