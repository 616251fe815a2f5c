package kwok

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gnnsched/kwok/nodepool"
)

const (
	nodePoll        = 200 * time.Millisecond // pause between two lists of the nodes
	nodePollPerNode = time.Millisecond       // added for each node, because lists of many nodes are slow
	nodeTimeout     = 5 * time.Minute        // for all nodes together
	progressEvery   = time.Second
)

// waitNodes waits until every node of the pools is ready.
func waitNodes(ctx context.Context, cs kubernetes.Interface, pools []nodepool.Pool, progress func(string)) error {
	want := nodepool.Nodes(pools)
	limit := time.NewTimer(nodeTimeout)
	defer limit.Stop()
	tick := time.NewTicker(nodePoll + time.Duration(want)*nodePollPerNode)
	defer tick.Stop()
	reported := time.Now()
	for {
		nodes, err := countNodes(ctx, cs, nodepool.LabelManagedBy+"="+nodepool.ManagedBy)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if nodes.Ready >= want {
			return nil
		}
		if time.Since(reported) > progressEvery {
			progress(fmt.Sprintf("%d of %d nodes are ready", nodes.Ready, want))
			reported = time.Now()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the nodes: %w", context.Cause(ctx))
		case <-limit.C:
			return fmt.Errorf("only %d of %d nodes are ready after %v", nodes.Ready, want, nodeTimeout)
		case <-tick.C:
		}
	}
}

// NodeCount holds the number of nodes, and of ready nodes.
type NodeCount struct {
	Ready int `json:"ready"`
	Total int `json:"total"`
}

// countNodes counts the nodes that match the label selector, from the API server's cache.
func countNodes(ctx context.Context, cs kubernetes.Interface, selector string) (NodeCount, error) {
	list, err := cs.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: selector, ResourceVersion: "0"})
	if err != nil {
		return NodeCount{}, fmt.Errorf("list the nodes: %w", err)
	}
	n := NodeCount{Total: len(list.Items)}
	for i := range list.Items {
		if nodeReady(&list.Items[i]) {
			n.Ready++
		}
	}
	return n, nil
}

// nodeReady reports whether pods can be placed on the node: its Ready condition is true, and the
// taint of new nodes has been removed.
func nodeReady(n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable {
			return false
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
