package server

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"k8s.io/klog/v2"
)

// Once an instance ends, its requests fail because they are cancelled, which is no news. Other errors are,
// and so is a cancelled request of an instance that goes on.
func TestQuietAtEnd(t *testing.T) {
	var log lines
	ctx, cancel := context.WithCancel(log.context(t.Context()))
	logger := klog.LoggerWithValues(klog.LoggerWithName(klog.FromContext(quietAtEnd(ctx)), "reflector"), "type", "*v1.Pod")
	failed := fmt.Errorf("failed to list *v1.Pod: %w", context.Canceled)
	logger.Error(failed, "Failed to watch", "when", "before")
	cancel()
	logger.Error(failed, "Failed to watch", "when", "after")
	logger.Error(errors.New("forbidden"), "Failed to watch", "when", "after")
	logger.Info("bye")
	if log.count(`"when"="before"`) != 1 || log.count("context canceled") != 1 || log.count("forbidden") != 1 || log.count("bye") != 1 {
		t.Errorf("%q", log.all)
	}
}
