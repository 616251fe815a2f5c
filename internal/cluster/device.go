package cluster

import "math/bits"

// DeviceMilli is what one GPU device has to give, in thousandths of it.
const DeviceMilli = 1000

// MaxDevices is how many GPU devices a node may have: a DeviceSet holds no more.
const MaxDevices = 64

// DeviceSet is a set of a node's GPU devices, bit i for device i.
type DeviceSet uint64

// Device is the set of device i alone.
func Device(i int) DeviceSet { return 1 << i }

// Has tells whether device i is in the set.
func (d DeviceSet) Has(i int) bool { return d>>i&1 == 1 }

// Len is how many devices are in the set.
func (d DeviceSet) Len() int { return bits.OnesCount64(uint64(d)) }

// HasDevices tells whether the node's devices are known one by one.
func (n *Node) HasDevices() bool { return n.GPUs != nil }

// IdleDevices is how many devices nobody uses any of.
func (n *Node) IdleDevices() (idle int64) {
	for _, used := range n.GPUs {
		if used == 0 {
			idle++
		}
	}
	return idle
}

// IdleGPUMilli is what is left on all devices together, in thousandths of a device.
func (n *Node) IdleGPUMilli() (idle int64) {
	for _, used := range n.GPUs {
		idle += max(DeviceMilli-used, 0)
	}
	return idle
}

// ChooseDevices is where Add puts a pod that asks for r: whole GPUs on the idle devices of
// the lowest indices, a share on the device with the least room that fits, the first of
// equals. On a node that is asked for more than it has it takes the devices with the most
// room. It is empty where r asks for no GPU or the node's devices are not known.
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

// roomiest is the least used device that is not among those taken, the first of equals.
func (n *Node) roomiest(taken DeviceSet) (best DeviceSet) {
	least := int64(-1)
	for i, used := range n.GPUs {
		if !taken.Has(i) && (least < 0 || used < least) {
			least, best = used, Device(i)
		}
	}
	return best
}

// FitsOn reports whether a pod that requests r has room on the given devices of n: they are as
// many as r requests (one for a share, none without GPUs), and each has room for its part.
func (n *Node) FitsOn(r Resources, on DeviceSet) bool {
	count, each := r.GPU, int64(DeviceMilli)
	if r.GPUMilli > 0 {
		count, each = 1, r.GPUMilli
	}
	if int64(on.Len()) != count || on>>len(n.GPUs) != 0 {
		return false
	}
	for i, used := range n.GPUs {
		if on.Has(i) && used+each > DeviceMilli {
			return false
		}
	}
	return true
}

// fitsDevices tells whether the node's devices have room for what r asks of them.
func (n *Node) fitsDevices(r *Resources) bool {
	if r.GPU > 0 {
		if n.GPUs == nil {
			return r.GPU <= n.Allocatable.GPU-n.Requested.GPU
		}
		return r.GPU <= n.IdleDevices()
	}
	for _, used := range n.GPUs {
		if used+r.GPUMilli <= DeviceMilli {
			return true
		}
	}
	return false
}

// use accounts for a pod that asks for r on devices (by 1), or for its end (by -1).
func (n *Node) use(r Resources, on DeviceSet, by int64) {
	each := r.GPUMilli
	if r.GPU > 0 {
		each = DeviceMilli
	}
	for rest := on; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(uint64(rest))
		if n.GPUs[i] += by * each; n.GPUs[i] < 0 {
			panic("cluster: removing a pod from a GPU of " + n.Name + " that it is not on")
		}
	}
}
