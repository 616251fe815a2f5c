package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"gnnsched/kwok"
	"gnnsched/kwok/nodepool"
	"gnnsched/scheduler/server"
)

// creators is how many pods are made at a time.
const creators = 16

// measureCluster compares the profiles on one simulated cluster in this process.
func (o *options) measureCluster(ctx context.Context, add func(result, error) error) (err error) {
	dir, err := os.MkdirTemp("", "gnnsched-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	start := time.Now()
	cluster, err := kwok.Start(ctx, kwok.Config{Dir: filepath.Join(dir, "cluster"), Pools: []nodepool.Pool{{Name: "node", Count: o.nodes, Capacity: nodeCapacity(), Zones: zones}}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop(context.WithoutCancel(ctx))) }()
	fmt.Fprintf(o.progress, "%s  cluster of %d nodes is ready after %.0f s\n", time.Now().Format(time.TimeOnly), o.nodes, time.Since(start).Seconds())
	client, err := protobufClient(cluster.REST())
	if err != nil {
		return err
	}
	for _, s := range o.shares() {
		what := fmt.Sprintf("cluster, %d nodes, %v", o.nodes, s)
		y, err := o.config(cluster.Kubeconfig(), s.percentage).YAML()
		if err != nil {
			return err
		}
		file := filepath.Join(dir, "scheduler.yaml")
		if err := os.WriteFile(file, y, 0o600); err != nil {
			return err
		}
		err = add(o.compare(ctx, what, func(ctx context.Context, profile string) (run, error) {
			return runCluster(ctx, client, file, profile, s.pods)
		}))
		if err != nil {
			return err
		}
	}
	return nil
}

func protobufClient(c *rest.Config) (*kubernetes.Clientset, error) {
	c.ContentType = "application/vnd.kubernetes.protobuf"
	c.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return kubernetes.NewForConfig(c)
}

// runCluster makes the backlog, starts a scheduler, waits until it is done, and cleans up.
func runCluster(ctx context.Context, client kubernetes.Interface, configFile, profile string, pods int) (r run, err error) {
	defer func() { err = errors.Join(err, deletePods(context.WithoutCancel(ctx), client)) }()
	if err := createPods(ctx, client, profile, pods); err != nil {
		return r, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	bound := newMeter(pods)
	if err := countBindings(ctx, client, bound, cancel); err != nil {
		return r, err
	}
	ended := make(chan error, 1)
	go func() {
		err := server.Run(ctx, configFile, server.Endpoint{Address: "127.0.0.1"}, nil)
		if err != nil {
			cancel(err)
		}
		ended <- err
	}()
	r, err = bound.wait(ctx)
	cancel(nil)
	return r, errors.Join(err, <-ended)
}

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

// countBindings watches the pods without a node: each leaves the watch when it gets one, and
// what happens to it later costs nothing here.
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
	// The API server ends watches that are slow to read, which on a busy machine they are.
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

// deletePods leaves the cluster as the run found it.
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
