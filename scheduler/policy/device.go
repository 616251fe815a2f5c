package policy

import "gnnsched/internal/cluster"

// DeviceChooser is a policy that also says which GPU devices of a node a pod gets. Where a
// policy does not, they are those of cluster.Node.ChooseDevices.
type DeviceChooser interface {
	Policy
	// Devices are the devices of n for pod, which fits there: as many as it asks for, or one
	// for a share; none for a pod without GPUs or where devices are not known.
	Devices(n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet
}

// Devices are the devices of n that p puts pod on.
func Devices(p Policy, n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet {
	if c, chooses := p.(DeviceChooser); chooses {
		return c.Devices(n, pod)
	}
	return n.ChooseDevices(pod.Requests)
}
