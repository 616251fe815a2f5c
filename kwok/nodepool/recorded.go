package nodepool

import (
	"fmt"
	"maps"

	"gnnsched/internal/cluster"
	"gnnsched/workload/record"
	"gnnsched/workload/record/play"
)

// Recorded returns a pool of one node for each node of a record at a time, and notes about omissions.
func Recorded(m record.Moment) ([]Pool, []string, error) {
	machines, notes, err := play.Machines(m)
	if err != nil {
		return nil, nil, err
	}
	nodes := make([]*cluster.Node, len(machines))
	for i, machine := range machines {
		nodes[i] = machine.Node
	}
	out := Single(nodes, InCapacity)
	for i, machine := range machines {
		maps.Copy(out[i].Capacity, machine.Extended)
	}
	if err := Validate(out); err != nil {
		return nil, nil, fmt.Errorf("%s has nodes that cannot be simulated: %w", m.Dir, err)
	}
	return out, notes, nil
}
