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
	nodePoll     = 200 * time.Millisecond // and, as a list costs in proportion, for each node
	nodePollEach = time.Millisecond
	nodePatience = 5 * time.Minute // for all nodes together
	sayEvery     = time.Second     // at most one progress line in it
)

// waitNodes waits until every node of the pools is ready.
func waitNodes(ctx context.Context, cs kubernetes.Interface, pools []nodepool.Pool, say func(string)) error {
	want := nodepool.Nodes(pools)
	limit := time.NewTimer(nodePatience)
	defer limit.Stop()
	tick := time.NewTicker(nodePoll + time.Duration(want)*nodePollEach)
	defer tick.Stop()
	said := time.Now()
	for {
		nodes, err := countNodes(ctx, cs, nodepool.LabelManagedBy+"="+nodepool.ManagedBy)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if nodes.Ready >= want {
			return nil
		}
		if time.Since(said) > sayEvery {
			say(fmt.Sprintf("%d of %d nodes are ready", nodes.Ready, want))
			said = time.Now()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the nodes: %w", context.Cause(ctx))
		case <-limit.C:
			return fmt.Errorf("only %d of %d nodes are ready after %v", nodes.Ready, want, nodePatience)
		case <-tick.C:
		}
	}
}

// NodeCount says how many nodes there are, and how many of them are ready.
type NodeCount struct {
	Ready int `json:"ready"`
	Total int `json:"total"`
}

// countNodes counts the nodes that the label selector matches. The list comes from the API
// server's cache.
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

// nodeReady tells whether pods can be placed on the node: its Ready condition holds, and the
// taint with which every node begins its life has been lifted.
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
