// Package inprocess runs the cluster of a test bed in the calling process. It links an API
// server, so it is for benchmarks and tests and not for the programs that people deploy.
package inprocess

import (
	"cmp"
	"context"
	"fmt"

	"github.com/rs/zerolog"

	"gnnsched/kwok"
	"gnnsched/kwok/nodepool"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/workload/record"
	"gnnsched/workload/trace/openb"
)

// Launcher implements testbed.Launcher.
type Launcher struct {
	Log zerolog.Logger // receives warnings and errors of the cluster; the zero value drops them
}

// Launch implements testbed.Launcher. The cluster writes no log file.
func (l Launcher) Launch(ctx context.Context, nodes testbed.Nodes, folder, _ string) (testbed.Cluster, error) {
	pools, err := poolsOf(nodes)
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // only Stop may end a cluster that is ready
	detach := context.AfterFunc(ctx, end)
	defer detach()
	c, err := kwok.Start(life, kwok.Config{Dir: folder, Pools: pools, Log: l.Log})
	if err != nil {
		end()
		return nil, err
	}
	return &cluster{Cluster: c, end: end}, nil
}

// poolsOf reads the nodes as kwokcluster does.
func poolsOf(n testbed.Nodes) ([]nodepool.Pool, error) {
	switch {
	case n.Pools != nil:
		return nodepool.Parse("pools.yaml", n.Pools)
	case n.Record != "":
		moment, ok, err := record.ParseMoment(n.Record)
		if err != nil || !ok {
			return nil, fmt.Errorf("%s is no record: %w", n.Record, err)
		}
		pools, _, err := nodepool.Recorded(moment)
		return pools, err
	case n.List != "":
		machines, err := openb.LoadNodes(n.List)
		if err != nil {
			return nil, err
		}
		return nodepool.Single(openb.ClusterNodes(openb.Sample(machines, n.Count)), cmp.Or(nodepool.Offer(n.GPUs), nodepool.InCapacity)), nil
	}
	return nodepool.Default(n.Count), nil
}

// cluster implements testbed.Cluster.
type cluster struct {
	*kwok.Cluster
	end context.CancelFunc // of the cluster's context
}

// Err implements testbed.Cluster.
func (c *cluster) Err() error { return fmt.Errorf("the cluster ended: %w", c.Wait()) }

// Stop implements testbed.Cluster.
func (c *cluster) Stop() error {
	defer c.end()
	return c.Cluster.Stop(context.Background())
}
