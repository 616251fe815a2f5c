package watch

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"

	"gnnsched/cmd/internal/top/state"
)

// pageSize is the number of objects in one answer of the server: a few megabytes before they
// are stripped.
const pageSize = 1000

// List reads the cluster once. It returns errors with the same exit codes as [Start].
func List(ctx context.Context, cfg Config) (state.Frame, error) {
	cfg, err := cfg.ready()
	if err != nil {
		return state.Frame{}, err
	}
	cluster := state.New()
	nodes, err := pages(ctx, listNodes(cfg), stripNode)
	if err != nil {
		return state.Frame{}, listError(ctx, "nodes", err)
	}
	pods, err := pages(ctx, listPods(cfg), stripPod)
	if err != nil {
		return state.Frame{}, listError(ctx, "pods", err)
	}
	if used, err := listUsed(ctx, cfg); err == nil {
		cluster.SetUsed(used)
	}
	readDevices(ctx, cfg, cluster)
	now := cfg.Now()
	cluster.ReplaceNodes(nodes)
	cluster.ReplacePods(pods, now)
	return cluster.Frame(now, state.All), nil
}

// pages returns all objects stripped, which it reads page by page. After an error it returns those before it.
func pages[T any](ctx context.Context, list *cache.ListWatch, strip func(any) (T, error)) (all []T, err error) {
	p := pager.New(list.ListWithContext)
	p.PageSize = pageSize
	p.PageBufferSize = 1
	err = p.EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		x, err := strip(obj)
		if err == nil {
			all = append(all, x)
		}
		return err
	})
	return all, err
}

func listError(ctx context.Context, resource string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("list %s: %w", resource, ctx.Err())
	}
	return explain("list", resource, err)
}
