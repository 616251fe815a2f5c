// Package recorded makes node pools of the nodes of a record.
package recorded

import (
	"fmt"
	"maps"

	"gnnsched/internal/cluster"
	"gnnsched/kwok/nodepool"
	"gnnsched/workload/record"
	"gnnsched/workload/record/play"
)

// Pools returns a pool of one node for each node of a record at a time, and notes about omissions.
func Pools(m record.Moment) ([]nodepool.Pool, []string, error) {
	machines, notes, err := play.Machines(m)
	if err != nil {
		return nil, nil, err
	}
	nodes := make([]*cluster.Node, len(machines))
	for i, machine := range machines {
		nodes[i] = machine.Node
	}
	out := nodepool.Single(nodes, nodepool.InCapacity)
	for i, machine := range machines {
		maps.Copy(out[i].Capacity, machine.Extended)
	}
	if err := nodepool.Validate(out); err != nil {
		return nil, nil, fmt.Errorf("%s has nodes that cannot be simulated: %w", m.Dir, err)
	}
	return out, notes, nil
}
