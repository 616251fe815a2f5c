package testbed

import (
	"context"
	"time"

	"gnnsched/workload/cleanup"
	"gnnsched/workload/driver"
)

// Room measures what the cluster offers to pods without tolerations.
func (b *Bed) Room(ctx context.Context) (driver.Room, error) {
	return driver.Measure(ctx, b.Client, nil)
}

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
	return cleaner.Remove(ctx, cleanup.Scope{Run: c.RunID}, nil)
}
