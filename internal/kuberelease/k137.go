//go:build !k136

package kuberelease

import (
	"context"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
)

func newInformers(client kubernetes.Interface) informers.SharedInformerFactory {
	return scheduler.NewInformerFactory(client, 0, nil)
}

// Cache returns a scheduler's cache of nodes and pods, without pod groups. ctx ends its goroutine.
func Cache(ctx context.Context) cache.Cache { return cache.New(ctx, nil, false, false) }
