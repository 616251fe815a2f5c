package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gnnsched/internal/fatal"
	"gnnsched/internal/logging"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/eval/testbed/inprocess"
	"gnnsched/workload"
	"gnnsched/workload/cleanup"
)

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
