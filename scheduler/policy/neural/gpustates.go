package neural

import (
	"slices"

	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/encode"
)

// gpuState is everything that the network sees of a node.
type gpuState struct {
	free, allocatable cluster.Resources
	model             string
	access            fragmentation.Access
	rooms             [cluster.MaxDevices]int16 // thousandths that are left of each device, descending
}

// stateOf returns the state of n after a pod that requests r is placed on the devices, without its access.
func stateOf(n *cluster.Node, r cluster.Resources, on cluster.DeviceSet) gpuState {
	s := gpuState{free: n.Free().Minus(r), allocatable: n.Allocatable, model: n.GPUModel}
	s.free.Pods, s.free.GPU, s.free.GPUMilli = 0, 0, 0 // rooms describes the GPUs
	_, milli := fragmentation.Devices(r)
	for i, used := range n.GPUs {
		if on.Has(i) {
			used += milli
		}
		room, j := int16(max(cluster.DeviceMilli-used, 0)), i
		for ; j > 0 && s.rooms[j-1] < room; j-- {
			s.rooms[j] = s.rooms[j-1]
		}
		s.rooms[j] = room
	}
	return s
}

// gpuStates numbers states, keeps their embeddings, and keeps their values for one decision.
type gpuStates struct {
	width      int
	ids        map[gpuState]int32
	embeddings []float32     // states × width
	held       []encode.Held // by state
	watts      []float32     // by state
	values     []float32     // by state, at the decision in computed
	computed   []int64       // by state; 0: never
}

func (s *gpuStates) clear() {
	s.ids = map[gpuState]int32{}
	s.embeddings = s.embeddings[:0]
	s.held = s.held[:0]
	s.watts = s.watts[:0]
	s.values = s.values[:0]
	s.computed = s.computed[:0]
}

func (s *gpuStates) len() int { return len(s.ids) }

// find returns the number of a state. For a new state it also returns the row of embeddings that
// the caller must fill, which is nil for a known state.
func (s *gpuStates) find(state gpuState) (id int32, embedding []float32) {
	id, known := s.ids[state]
	if known {
		return id, nil
	}
	id = int32(len(s.computed))
	s.ids[state] = id
	s.embeddings = slices.Grow(s.embeddings, s.width)[:len(s.embeddings)+s.width]
	s.held, s.watts = append(s.held, encode.Held{}), append(s.watts, 0)
	s.values, s.computed = append(s.values, 0), append(s.computed, 0)
	return id, s.embeddings[int(id)*s.width:][:s.width]
}

// value returns the dot product of a state's embedding and psi, the embedding of the cluster at
// decision now, minus what the state is worth to the decision's reserve.
func (s *gpuStates) value(id int32, now int64, psi []float32, reserve *encode.Reserve) float32 {
	if s.computed[id] != now {
		at := int(id) * s.width
		s.values[id] = infer.Dot(s.embeddings[at:at+s.width], psi) - float32(reserve.Worth(&s.held[id]))
		s.computed[id] = now
	}
	return s.values[id]
}
