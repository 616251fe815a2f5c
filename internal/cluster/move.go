package cluster

// Move says where a running pod goes.
type Move struct {
	Pod     int       // its index, for whoever makes the move
	Row     int32     // of the node; negative: to none
	Devices DeviceSet // of that node
	Start   int       // first memory slice of a MIG partition
}
