package cluster

import "math/bits"

// DeviceMilli is the capacity of one GPU device, in thousandths of it.
const DeviceMilli = 1000

// MaxDevices is the largest number of GPU devices of a node; a DeviceSet holds no more.
const MaxDevices = 64

// DeviceSet is a set of a node's GPU devices: bit i stands for device i, counted from 0.
type DeviceSet uint64

// Device returns the set that holds only device i.
func Device(i int) DeviceSet { return 1 << i }

// Has reports whether device i is in the set.
func (d DeviceSet) Has(i int) bool { return d>>i&1 == 1 }

// Len returns the number of devices in the set.
func (d DeviceSet) Len() int { return bits.OnesCount64(uint64(d)) }

// First returns the set of the first device in the set, which must not be empty.
func (d DeviceSet) First() DeviceSet { return Device(bits.TrailingZeros64(uint64(d))) }

// HasDevices reports whether the node's devices are known one by one.
func (n *Node) HasDevices() bool { return n.GPUs != nil }

// IdleDevices returns the number of devices that no pod uses.
func (n *Node) IdleDevices() (idle int64) {
	for _, used := range n.GPUs {
		if used == 0 {
			idle++
		}
	}
	return idle
}

// IdleGPUMilli returns the unused part of all devices together, in thousandths of a device.
func (n *Node) IdleGPUMilli() (idle int64) {
	for _, used := range n.GPUs {
		idle += max(DeviceMilli-used, 0)
	}
	return idle
}

// ChooseDevices returns the devices that Add gives to a pod with requests r. Whole GPUs go on the
// idle devices with the lowest indices. A share goes on the device with the least room that is
// enough for it; of equal devices, the first is chosen. If there is not enough room, the devices
// with the most room are chosen. The set is empty if r requests no GPU or the node's devices are
// not known.
func (n *Node) ChooseDevices(r Resources) (on DeviceSet) {
	switch {
	case n.GPUs == nil:
	case r.GPU > 0:
		for range min(r.GPU, int64(len(n.GPUs))) {
			on |= n.roomiest(on)
		}
	case r.GPUMilli > 0:
		best := int64(DeviceMilli + 1)
		for i, used := range n.GPUs {
			if room := DeviceMilli - used; room >= r.GPUMilli && room < best {
				best, on = room, Device(i)
			}
		}
		if on == 0 && len(n.GPUs) > 0 {
			on = n.roomiest(0)
		}
	}
	return on
}

// DistinctDevices returns the devices with room for a share of the given thousandths of a
// device. Of devices with the same room, and the same used memory slices, only the first is in the set.
func (n *Node) DistinctDevices(milli int64) (on DeviceSet) {
	for i, used := range n.GPUs {
		if used+milli > DeviceMilli {
			continue
		}
		first := true
		for j := 0; j < i && first; j++ {
			first = n.GPUs[j] != used || i < len(n.Slices) && n.Slices[j] != n.Slices[i]
		}
		if first {
			on |= Device(i)
		}
	}
	return on
}

// roomiest returns the least used device outside the given set, the first of equals.
func (n *Node) roomiest(except DeviceSet) (best DeviceSet) {
	least := int64(-1)
	for i, used := range n.GPUs {
		if !except.Has(i) && (least < 0 || used < least) {
			least, best = used, Device(i)
		}
	}
	return best
}

// useDevices adds sign pods (1 or -1) with requests r to the given devices.
func (n *Node) useDevices(r Resources, on DeviceSet, sign int64) {
	each := r.GPUMilli
	if r.GPU > 0 {
		each = DeviceMilli
	}
	for rest := on; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(uint64(rest))
		if n.GPUs[i] += sign * each; n.GPUs[i] < 0 {
			panic("cluster: removing a pod from a GPU of " + n.Name + " that it does not use")
		}
	}
}
