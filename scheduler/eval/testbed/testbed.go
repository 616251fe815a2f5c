package testbed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gnnsched/internal/kubeconfig"
	"gnnsched/scheduler/server"
)

// Config describes a test bed.
type Config struct {
	Name      string // part of the names of the temporary folder and of the cluster's log
	Launcher  Launcher
	Nodes     Nodes
	LogDir    string        // folder of the log Name-cluster.log; empty: the log is deleted with the cluster
	Scheduler server.Config // as of StartScheduler; without profiles, no scheduler is started
}

// Bed is a running cluster with kube-scheduler.
type Bed struct {
	Client kubernetes.Interface
	REST   *rest.Config

	dir        string // temporary folder
	cluster    Cluster
	cancel     context.CancelCauseFunc
	schedulers atomic.Int64 // started so far
}

// Run starts a test bed, calls use and takes the test bed down. The context of use ends when ctx
// ends, when the cluster or the scheduler ends, and when use calls End; the error is then the
// cause. When Run returns, the scheduler and the cluster have stopped and the temporary folder
// is deleted.
func Run(ctx context.Context, c Config, use func(ctx context.Context, b *Bed) error) (err error) {
	dir, err := os.MkdirTemp("", "gnnsched-"+c.Name+"-*")
	if err != nil {
		return fmt.Errorf("make a directory for the cluster: %w", err)
	}
	defer os.RemoveAll(dir)
	b := &Bed{dir: dir}
	if b.cluster, err = c.launch(ctx, dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.cluster.Stop()) }()
	ctx, b.cancel = context.WithCancelCause(ctx)
	defer b.cancel(nil)
	go b.watch(ctx)
	err = b.use(ctx, c, use)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// launch starts the cluster.
func (c Config) launch(ctx context.Context, dir string) (Cluster, error) {
	logDir := cmp.Or(c.LogDir, dir)
	return c.Launcher.Launch(ctx, c.Nodes, filepath.Join(dir, "cluster"), filepath.Join(logDir, c.Name+"-cluster.log"))
}

// watch ends the context of use when the cluster ends.
func (b *Bed) watch(ctx context.Context) {
	select {
	case <-b.cluster.Done():
		b.End(b.cluster.Err())
	case <-ctx.Done():
	}
}

// use connects to the cluster and calls use while the scheduler runs.
func (b *Bed) use(ctx context.Context, c Config, use func(ctx context.Context, b *Bed) error) error {
	client, rest, err := kubeconfig.Target{Kubeconfig: b.cluster.Kubeconfig()}.Connect(ctx)
	if err != nil {
		return err
	}
	b.Client, b.REST = client, rest
	if len(c.Scheduler.Profiles) > 0 {
		stop, err := b.StartScheduler(ctx, c.Scheduler)
		if err != nil {
			return err
		}
		defer stop()
	}
	return use(ctx, b)
}

// End ends the context of use with a cause.
func (b *Bed) End(cause error) { b.cancel(cause) }
