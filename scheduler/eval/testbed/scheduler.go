package testbed

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
	"gnnsched/scheduler/server"
)

// StartScheduler runs kube-scheduler in this process until the returned function stops it. It
// sets the kubeconfig, and kubeconfig.UnlimitedQPS as the limit of requests if c has none. When the scheduler ends
// by itself, its error ends the context of the bed.
func (b *Bed) StartScheduler(ctx context.Context, c server.Config) (stop func(), err error) {
	c.Kubeconfig = b.cluster.Kubeconfig()
	c.QPS = cmp.Or(c.QPS, kubeconfig.UnlimitedQPS)
	y, err := c.YAML()
	if err != nil {
		return nil, exit.New(exit.Usage, err, "")
	}
	file := filepath.Join(b.dir, fmt.Sprintf("scheduler-%d.yaml", b.schedulers.Add(1))) // of its own: it is read later
	if err := os.WriteFile(file, y, 0o600); err != nil {
		return nil, fmt.Errorf("write the scheduler configuration: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Run(ctx, file, server.Endpoint{Address: "127.0.0.1"}, nil); err != nil {
			b.End(err)
		}
	}()
	return func() { cancel(); <-done }, nil
}
