package fill

import (
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/policy"
)

// state is everything that a node's value depends on.
type state struct {
	free   cluster.Resources
	model  string
	access fragmentation.Access
	known  int8                      // devices
	rooms  [cluster.MaxDevices]int16 // thousandths that are left of each device, descending
}

// stateOf returns the state of n after a pod that requests r is placed on the devices, without its access.
func stateOf(n *cluster.Node, r cluster.Resources, on cluster.DeviceSet) state {
	s := state{free: cluster.Resources{MilliCPU: n.Free().MilliCPU - r.MilliCPU}, model: n.GPUModel, known: int8(len(n.GPUs))}
	s.rooms = policy.Rooms(n, r, on)
	return s
}

// idle returns the thousandths that are idle of all devices.
func (s *state) idle() (milli int64) {
	for _, room := range s.rooms[:s.known] {
		milli += int64(room)
	}
	return milli
}

// states numbers states, keeps what they are worth, and their values for one decision.
type states struct {
	ids  map[state]int32
	list []worth // by state
}

// worth holds the parts of a state's value.
type worth struct {
	idle float32 // devices that stay idle
	held encode.Held

	value float32 // at the decision
	at    int64   // the decision; 0: none
}

func (s *states) clear() { s.ids, s.list = map[state]int32{}, s.list[:0] }

// find returns the number of a state. For a new state, add gives what it is worth.
func (s *states) find(x state, add func() worth) int32 {
	id, known := s.ids[x]
	if !known {
		id = int32(len(s.list))
		s.ids[x] = id
		s.list = append(slices.Grow(s.list, 1), add())
	}
	return id
}

// value returns how many devices of a node in a state stay idle, minus what it is worth to the reserve, at decision now.
func (s *states) value(id int32, now int64, r *encode.Reserve) float32 {
	x := &s.list[id]
	if x.at != now {
		x.value, x.at = x.idle-float32(r.Worth(&x.held)), now
	}
	return x.value
}
