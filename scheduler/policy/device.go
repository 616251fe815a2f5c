package policy

import (
	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/scheduler/policy/preference"
)

// DeviceChooser is a policy that also chooses the GPU devices of a node for a pod. For all other
// policies cluster.Node.ChooseDevices chooses them.
type DeviceChooser interface {
	Policy
	// Devices returns the devices of n for a pod that fits there: as many as the pod requests,
	// or one for a share of a device. The set is empty if the pod requests no GPU or n's devices
	// are not known.
	Devices(n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet
}

// Devices returns the devices of n that p gives to pod.
func Devices(p Policy, n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet {
	if c, chooses := p.(DeviceChooser); chooses {
		return c.Devices(n, pod)
	}
	return n.ChooseDevices(pod.Requests)
}

// StartChooser is a policy that also chooses where on a device a MIG partition lies.
type StartChooser interface {
	Policy
	// Start returns the memory slice at which a partition starts on a device with some slices in use; -1 if it does not fit.
	Start(used mig.Slices, p mig.Profile) int
}

// Start returns where p lets a partition start on a device with some slices in use; -1 if it does not fit. For policies that do not
// choose, it is where most placements stay free.
func Start(p Policy, used mig.Slices, profile mig.Profile) int {
	if c, chooses := p.(StartChooser); chooses {
		return c.Start(used, profile)
	}
	return profile.BestStart(used)
}

// FirstFit returns a policy that chooses nodes as p does, and the devices with the lowest numbers that have room, as upstream's
// allocator of claims does. A partition starts as low as it can.
func FirstFit(p Policy) Policy {
	f := firstFit{p}
	if u, is := p.(Upstream); is {
		return upstreamFirstFit{f, u}
	}
	return f
}

type firstFit struct{ Policy }

// Devices implements DeviceChooser.
func (firstFit) Devices(n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet {
	if share := pod.Requests.GPUMilli; share > 0 {
		for i, used := range n.GPUs {
			if used+share <= cluster.DeviceMilli {
				return cluster.Device(i)
			}
		}
	}
	return n.ChooseDevices(pod.Requests) // whole devices come in the order of their numbers
}

// Start implements StartChooser.
func (firstFit) Start(used mig.Slices, p mig.Profile) int {
	for s := range p.Free(used) {
		return s
	}
	return -1
}

// upstreamFirstFit is firstFit of an Upstream.
type upstreamFirstFit struct {
	firstFit
	upstream Upstream
}

// PreferenceWeights implements Upstream.
func (f upstreamFirstFit) PreferenceWeights() preference.Weights {
	return f.upstream.PreferenceWeights()
}

// DeviceWays lists the different ways to put a pod that requests r on n's devices. Two ways are
// different if they leave n in different states. Only a share of a device has more than one way,
// or none if no device has room for it.
func DeviceWays(n *cluster.Node, r cluster.Resources) (ways []cluster.DeviceSet) {
	if r.GPUMilli == 0 || !n.HasDevices() {
		return []cluster.DeviceSet{n.ChooseDevices(r)}
	}
	for rest := n.DistinctDevices(r.GPUMilli); rest != 0; rest &= rest - 1 {
		ways = append(ways, rest.First())
	}
	return ways
}
