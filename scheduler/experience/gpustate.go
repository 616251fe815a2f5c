package experience

import (
	"fmt"
	"math"

	"gnnsched/gnn/graph"
)

// GPUState is the state in which a network on the GPU graph decided. The graph of a whole GPU cluster would take a hundred kilobytes a
// step. So GPUState holds the vertices of some nodes only, drawn at random, and of every node the data that a learner needs for the
// targets.
type GPUState struct {
	Cluster []float32     // features of the cluster
	Kinds   []MachineKind // kinds of the nodes
	Nodes   []GPUAmounts  // every node with devices that pods with GPUs may use
	Waiting float64       // devices that waiting pods request, parts of them included

	Rows     []int32         // of some of the nodes, in Nodes
	Vertices []graph.GPUNode // of these nodes, before the placement

	// Before and After are the nodes of some candidates before and after the placement, for a network whose actor learns
	// from them. Others have none.
	Before, After []graph.GPUNode
}

// MachineKind describes nodes with equal capacity.
type MachineKind struct {
	MilliCPU, Memory int64 // thousandths of a core, bytes
	Devices          int64
	Model            string // of the devices; at most maxActor bytes
}

// GPUAmounts holds the data of a node that a learner needs.
type GPUAmounts struct {
	ID   uint64  // hash of the node's name
	Kind int32   // index in GPUState.Kinds
	Idle float32 // idle devices, parts of them included
}

// Devices returns the number of devices, and how many of them are idle, parts of them included.
func (g *GPUState) Devices() (all, idle float64) {
	for _, n := range g.Nodes {
		all += float64(g.Kinds[n.Kind].Devices)
		idle += float64(n.Idle)
	}
	return all, idle
}

// maxDevices is far more devices than any node has.
const maxDevices = 1 << 10

// validate checks that all indices exist, that the vertices have the same widths, and that every value is
// finite and in its range.
func (g *GPUState) validate() error {
	for i, k := range g.Kinds {
		if k.MilliCPU < 0 || k.Memory < 0 || k.Devices < 1 || k.Devices > maxDevices || len(k.Model) > maxActor {
			return fmt.Errorf("kind %d of machines has %d thousandths of a core, %d bytes and %d devices, of a model of %d letters",
				i, k.MilliCPU, k.Memory, k.Devices, len(k.Model))
		}
	}
	for i, n := range g.Nodes {
		if n.Kind < 0 || int(n.Kind) >= len(g.Kinds) {
			return fmt.Errorf("node %d is of kind %d of %d", i, n.Kind, len(g.Kinds))
		}
		if !(n.Idle >= 0 && int64(n.Idle) <= g.Kinds[n.Kind].Devices) {
			return fmt.Errorf("node %d has %v idle devices of %d", i, n.Idle, g.Kinds[n.Kind].Devices)
		}
	}
	if !(g.Waiting >= 0) || math.IsInf(g.Waiting, 0) {
		return fmt.Errorf("waiting pods request %v devices", g.Waiting)
	}
	if len(g.Rows) != len(g.Vertices) || len(g.Before) != len(g.After) {
		return fmt.Errorf("%d rows with %d vertices, %d candidates before and %d after the placement", len(g.Rows), len(g.Vertices),
			len(g.Before), len(g.After))
	}
	for _, r := range g.Rows {
		if r < 0 || int(r) >= len(g.Nodes) {
			return fmt.Errorf("row %d of %d nodes", r, len(g.Nodes))
		}
	}
	return g.validateFeatures()
}

func (g *GPUState) validateFeatures() error {
	width := -1
	for _, list := range [][]graph.GPUNode{g.Vertices, g.Before, g.After} {
		for _, n := range list {
			if width < 0 {
				width = len(n.X)
			}
			if len(n.X) != width || len(n.Free) > maxDevices {
				return fmt.Errorf("a vertex has %d features and %d devices, another %d features", len(n.X), len(n.Free), width)
			}
			if err := finite(n.X, n.Free); err != nil {
				return err
			}
		}
	}
	return finite(g.Cluster)
}
