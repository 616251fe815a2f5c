package testbed

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
