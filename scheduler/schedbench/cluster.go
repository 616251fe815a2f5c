package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/eval/testbed/inprocess"
)

// creators is the number of pods that are created at the same time.
const creators = 16

// measureCluster compares the profiles on one simulated cluster in this process.
func (o *options) measureCluster(ctx context.Context, add func(result, error) error) error {
	start := time.Now()
	c := testbed.Config{Name: "bench", Launcher: inprocess.Launcher{}, Nodes: testbed.Nodes{Pools: pools(o.nodes)}}
	return testbed.Run(ctx, c, func(ctx context.Context, b *testbed.Bed) error {
		fmt.Fprintf(o.progress, "%s  cluster of %d nodes is ready after %.0f s\n", time.Now().Format(time.TimeOnly),
			o.nodes, time.Since(start).Seconds())
		for _, s := range o.shares() {
			what := fmt.Sprintf("cluster, %d nodes, %v", o.nodes, s)
			err := add(o.compare(ctx, what, o.inProcess(what, func(ctx context.Context, profile string) (run, error) {
				return o.runCluster(ctx, b, profile, s)
			})))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// runCluster creates the backlog, starts a scheduler, waits until every pod is bound, and cleans
// up.
func (o *options) runCluster(ctx context.Context, b *testbed.Bed, profile string, s share) (r run, err error) {
	defer func() { err = errors.Join(err, deletePods(context.WithoutCancel(ctx), b.Client)) }()
	if err := createPods(ctx, b.Client, profile, s.pods); err != nil {
		return r, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	bound := newMeter(s.pods)
	if err := countBindings(ctx, b.Client, bound, cancel); err != nil {
		return r, err
	}
	stop, err := b.StartScheduler(ctx, o.config(s.percentage))
	if err != nil {
		return r, err
	}
	defer stop()
	return bound.wait(ctx)
}

// createPods creates a backlog.
func createPods(ctx context.Context, client kubernetes.Interface, schedulerName string, pods int) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(creators)
	for i := range pods {
		g.Go(func() error {
			p := pod(schedulerName, i)
			_, err := client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
			return err
		})
	}
	return g.Wait()
}

// countBindings counts bound pods by a watch of the pods without a node. A pod leaves that watch
// when it gets a node, so later events of it cost nothing.
func countBindings(ctx context.Context, client kubernetes.Interface, bound *meter, fail context.CancelCauseFunc) error {
	const waiting = "spec.nodeName="
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	list, err := pods.List(ctx, metav1.ListOptions{FieldSelector: waiting})
	if err != nil {
		return err
	}
	if len(list.Items) != bound.total {
		return fmt.Errorf("%d pods wait for a node, want %d", len(list.Items), bound.total)
	}
	// The API server ends watches that are read too slowly, as happens on a busy machine; they begin again.
	w, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = waiting
			return pods.Watch(ctx, o)
		},
	})
	if err != nil {
		return err
	}
	go func() {
		defer w.Stop()
		for e := range w.ResultChan() {
			switch e.Type {
			case watch.Deleted:
				bound.add()
			case watch.Error:
				fail(fmt.Errorf("watch the pods: %v", e.Object))
			}
		}
		fail(errors.New("the watch of the pods ended"))
	}()
	return nil
}

// deletePods deletes the pods of a run and waits until none is left.
func deletePods(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	for {
		if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{}); err != nil {
			return fmt.Errorf("delete the pods: %w", err)
		}
		list, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return fmt.Errorf("delete the pods: %w", err)
		}
		if len(list.Items) == 0 {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}
