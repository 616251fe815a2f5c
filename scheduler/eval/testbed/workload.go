package testbed

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/workload"
	"gnnsched/workload/cleanup"
	"gnnsched/workload/driver"
)

// Deploy deploys a plan of one fill, calls inspect while its pods are still there, and removes
// them. It sets the client, the cleaner and the run ID of c. After an error the pods stay, since
// the cluster goes too.
func (b *Bed) Deploy(ctx context.Context, c driver.Config, inspect func(driver.FillSummary) error) error {
	cleaner, err := cleanup.New(b.REST)
	if err != nil {
		return err
	}
	cleaner.Force = true
	c.Client, c.Cleaner = b.Client, cleaner
	c.RunID = driver.NewRunID(time.Now())
	sum, err := driver.Run(ctx, c)
	if err != nil {
		return err
	}
	if err := inspect(sum.Fills[0]); err != nil {
		return err
	}
	// Otherwise the scheduler binds waiting pods to the room of deleted ones, and logs an error for each that is deleted before its binding.
	waiting := metav1.ListOptions{LabelSelector: workload.LabelRun + "=" + c.RunID, FieldSelector: "spec.nodeName="}
	if err := b.Client.CoreV1().Pods(sum.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, waiting); err != nil {
		return fmt.Errorf("delete the waiting pods: %w", err)
	}
	return cleaner.Remove(ctx, cleanup.Scope{Run: c.RunID}, nil)
}

// Snapshot reads a cluster from the API server. unbound is the number of pods without a node.
func Snapshot(ctx context.Context, client kubernetes.Interface) (s *cluster.Snapshot, unbound int, err error) {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, 0, fmt.Errorf("list the nodes: %w", err)
	}
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, 0, fmt.Errorf("list the pods: %w", err)
	}
	all, unbound, err := kube.Snapshot(nodes.Items, pods.Items)
	return &all, unbound, err
}
