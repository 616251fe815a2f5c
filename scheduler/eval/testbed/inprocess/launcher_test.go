package inprocess_test

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/eval/testbed/inprocess"
)

// The cluster outlives the context of Run until use has returned, so that use can clean up.
func TestClusterOutlivesInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	nodes := testbed.Nodes{Pools: []byte("pools: [{name: big, count: 2, capacity: {cpu: 8, memory: 32Gi}}]\n")}
	err := testbed.Run(ctx, testbed.Config{Name: "test", Launcher: inprocess.Launcher{}, Nodes: nodes},
		func(ctx context.Context, b *testbed.Bed) error {
			cancel()
			<-ctx.Done()
			list, err := b.Client.CoreV1().Nodes().List(context.WithoutCancel(ctx), metav1.ListOptions{})
			if err != nil || len(list.Items) != 2 || list.Items[0].Name != "big-0" {
				t.Errorf("%v: %d nodes", err, len(list.Items))
			}
			return ctx.Err()
		})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestLaunchRefuses(t *testing.T) {
	for _, n := range []testbed.Nodes{{Pools: []byte("pools: []\n")}, {List: "nowhere.csv", Count: 1}} {
		if _, err := (inprocess.Launcher{}).Launch(t.Context(), n, t.TempDir()+"/cluster", ""); err == nil {
			t.Errorf("%+v: no error", n)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (inprocess.Launcher{}).Launch(ctx, testbed.Nodes{Count: 1}, t.TempDir()+"/cluster", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
