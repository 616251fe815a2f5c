package cluster

// The default model of a machine: medians of the 628 results of SPECpower_ssj2008 that were published from 2016 to 2026
// (spec.org/power_ssj2008), for each hardware thread.
const (
	fullOfThread = 3.3 // watts at full load
	idleOfFull   = 0.2
)

// MachinePower returns the model of a node without its GPUs: by measured watts, else the node's own, else the default for its CPU. Measured
// watts include GPUs, so they count only on nodes without GPUs.
func MachinePower(n *Node) PowerModel {
	if n.Usage != nil && n.Usage.Power != nil && len(n.GPUs) == 0 {
		return *n.Usage.Power
	}
	if n.Power != nil {
		return *n.Power
	}
	full := fullOfThread * float64(n.Allocatable.MilliCPU) / 1000
	return PowerModel{Idle: idleOfFull * full, Full: full}
}

// CPUDraw returns a node's power in watts while a fraction of its CPU is in use: by its own model (Node.Power) or the default one,
// plus its GPUs as in WattsAfter. A node whose model has sleep sleeps while no pod is on it.
func CPUDraw(n *Node, used float64) float64 {
	m := MachinePower(n)
	if m.Sleep != nil && n.Requested.Pods == 0 {
		return *m.Sleep
	}
	return m.At(used) + gpuWatts(n, Resources{}, 0)
}

// FullPower returns the most that a node can draw, in watts.
func FullPower(n *Node) float64 {
	m := MachinePower(n)
	return m.Full + float64(n.Allocatable.GPU)*gpuOf(n).full
}

// PowerRise returns the additional watts of the node's machine, without GPUs, if one more pod uses milliCPU thousandths of a core. The
// pod wakes a sleeping machine.
func PowerRise(n *Node, milliCPU float64) float64 {
	m, capacity, used := MachinePower(n), max(n.Capacity(UsedCPU), 1), n.Used(UsedCPU).Mean
	before := m.At(used / capacity)
	if m.Sleep != nil && n.Requested.Pods == 0 {
		before = *m.Sleep
	}
	return m.At((used+milliCPU)/capacity) - before
}
