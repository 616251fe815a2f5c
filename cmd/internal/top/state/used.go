package state

// Measured is the usage of one or several nodes that metrics.k8s.io reports.
type Measured struct {
	CPU    int64 // millicores
	Memory int64 // bytes
}

// UsedCPU returns the measured CPU beside the allocatable; nothing is used on a node that is not measured.
func (n *Node) UsedCPU() Usage {
	if n.Used == nil {
		return Usage{Allocatable: n.CPU.Allocatable}
	}
	return Usage{n.Used.CPU, n.CPU.Allocatable}
}

// UsedMemory returns the measured memory beside the allocatable; nothing is used on a node that is not measured.
func (n *Node) UsedMemory() Usage {
	if n.Used == nil {
		return Usage{Allocatable: n.Memory.Allocatable}
	}
	return Usage{n.Used.Memory, n.Memory.Allocatable}
}

// SetUsed sets the nodes' usage. Nodes that are not in the map are not measured. The caller must not change the map any more.
func (c *Cluster) SetUsed(used map[string]Measured) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = used
}

// measure adds a node's measured usage, unless it is nil.
func (t *Totals) measure(used *Measured) {
	if used == nil {
		return
	}
	if t.Used == nil {
		t.Used = &Measured{}
	}
	t.Used.CPU, t.Used.Memory = t.Used.CPU+used.CPU, t.Used.Memory+used.Memory
	t.Measured++
}
