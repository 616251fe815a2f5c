package testbed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/server"
)

// Schedule runs kube-scheduler in this process until the returned function stops it; should
// it end by itself, ended is told why. It writes its configuration into dir.
func Schedule(ctx context.Context, dir string, c server.Config, ended func(error)) (stop func(), err error) {
	y, err := c.YAML()
	if err != nil {
		return nil, exit.New(exit.Usage, err, "")
	}
	file := filepath.Join(dir, "scheduler.yaml")
	if err := os.WriteFile(file, y, 0o600); err != nil {
		return nil, fmt.Errorf("write the scheduler configuration: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Run(ctx, file, server.Endpoint{Address: "127.0.0.1"}, nil); err != nil {
			ended(err)
		}
	}()
	return func() { cancel(); <-done }, nil
}
