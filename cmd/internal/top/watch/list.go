package watch

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/refusal"
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
	var nodes []state.Node
	err = pages(ctx, listNodes(cfg).ListWithContext, func(obj runtime.Object) {
		nodes = append(nodes, state.NodeOf(obj.(*v1.Node)))
	})
	if err != nil {
		return state.Frame{}, listError(ctx, "nodes", err)
	}
	var pods []state.Pod
	err = pages(ctx, listPods(cfg).ListWithContext, func(obj runtime.Object) {
		pods = append(pods, obj.(*strippedPod).Pod)
	})
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

// pages calls each for every object, page by page.
func pages(ctx context.Context, list pager.ListPageFunc, each func(runtime.Object)) error {
	p := pager.New(list)
	p.PageSize = pageSize
	p.PageBufferSize = 1
	return p.EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		each(obj)
		return nil
	})
}

func listError(ctx context.Context, resource string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("list %s: %w", resource, ctx.Err())
	}
	return explain(refusal.Request{Verb: "list", Resource: resource}, err)
}
