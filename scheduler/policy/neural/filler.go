package neural

import (
	"math"
	"math/rand/v2"
	"slices"

	"gnnsched/gnn/graph"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
)

const (
	fills  = 48 // times that a node is filled
	offers = 60 // pods that it is offered each time; with more, a node seems to be filled too well
)

// filler values a node by the devices that stay idle once it is full of pods of a workload. Every node of a GPU model is offered the same
// pods, so that two states of a node differ by no more than what the states are worth.
type filler struct {
	pods  []fragmentation.Pod // with devices
	known map[offer][][]int32

	leastCPU, leastMilli int64 // that a pod requests

	idles []float32 // by state
}

func (*filler) narrow(s *state) {
	s.free, s.allocatable = cluster.Resources{MilliCPU: s.free.MilliCPU}, cluster.Resources{}
}

func (*filler) begin([]float32) {}

func (f *filler) add(s *state, _ *graph.GPUNode) { f.idles = append(f.idles, f.idle(s)) }

func (f *filler) value(id int32) float32 { return f.idles[id] }

func (f *filler) forget() { f.idles = f.idles[:0] }

// offer holds what decides which pods a node is offered: those that may run there.
type offer struct {
	model  string
	access fragmentation.Access
}

func newFiller(typical *fragmentation.Typical) *filler {
	f := &filler{known: map[offer][][]int32{}, leastCPU: math.MaxInt64, leastMilli: math.MaxInt64}
	for _, p := range typical.Pods() {
		if p.Devices > 0 {
			f.leastCPU, f.leastMilli = min(f.leastCPU, p.MilliCPU), min(f.leastMilli, p.Milli)
			f.pods = append(f.pods, p)
		}
	}
	return f
}

// offersTo returns the pods that are offered to a node of a GPU model with an access: fills lists, each with every shape of pods as
// often as it is frequent, in random order. There are none if no pod may run there.
func (f *filler) offersTo(model string, access fragmentation.Access) [][]int32 {
	key := offer{model, access}
	if lists, found := f.known[key]; found {
		return lists
	}
	upTo, sum := make([]float64, len(f.pods)), 0.0
	for i := range f.pods {
		if p := &f.pods[i]; len(p.Models) == 0 || slices.Contains(p.Models, model) {
			sum += p.On(access)
		}
		upTo[i] = sum
	}
	var lists [][]int32
	if rng := rand.New(rand.NewPCG(1, 2)); sum > 0 {
		for range fills {
			list := make([]int32, offers)
			for i, k := range rng.Perm(offers) {
				at := (float64(k) + rng.Float64()) / offers * sum
				list[i] = int32(slices.IndexFunc(upTo, func(x float64) bool { return at < x }))
			}
			lists = append(lists, list)
		}
	}
	f.known[key] = lists
	return lists
}

// idle returns how many devices of a node stay idle, parts of them included, once pods of the workload have filled it: each of the pods
// that are offered is taken if it fits. It is the mean over the fills. Pods without devices are not offered, because other nodes serve them
// unless all are full.
func (f *filler) idle(s *state) float32 {
	before, devices := int64(0), 0
	for ; devices < len(s.rooms) && s.rooms[devices] > 0; devices++ {
		before += int64(s.rooms[devices])
	}
	lists := f.offersTo(s.model, s.access)
	if before == 0 || len(lists) == 0 {
		return float32(before) / cluster.DeviceMilli
	}
	sum := int64(0)
	for _, list := range lists {
		sum += f.fill(*s, devices, before, list)
	}
	return float32(sum) / cluster.DeviceMilli / float32(len(lists))
}

// fill returns what is idle, in thousandths of a device, after the pods of a list were offered to a node with that many devices that have
// room, of which idle thousandths are idle.
func (f *filler) fill(s state, devices int, idle int64, list []int32) int64 {
	rooms := s.rooms[:devices]
	for _, i := range list {
		p := &f.pods[i]
		if p.MilliCPU > s.free.MilliCPU || !take(rooms, p) {
			continue
		}
		s.free.MilliCPU -= p.MilliCPU
		idle -= p.Devices * p.Milli
		if s.free.MilliCPU < f.leastCPU || idle < f.leastMilli {
			break
		}
	}
	return idle
}

// take places a pod on the devices with the least room that is enough, the last of equal ones, and reports whether it fits.
func take(rooms []int16, p *fragmentation.Pod) bool {
	enough := int64(0)
	last := len(rooms) // after the last device with room enough; rooms descend at first only
	for i, room := range rooms {
		if int64(room) >= p.Milli {
			enough, last = enough+1, i
		}
	}
	if enough < p.Devices {
		return false
	}
	if p.Devices == 1 {
		for i, room := range rooms[:last] {
			if int64(room) >= p.Milli && room < rooms[last] {
				last = i
			}
		}
		rooms[last] -= int16(p.Milli)
		return true
	}
	left := p.Devices
	for i, room := range rooms {
		if left > 0 && int64(room) >= p.Milli {
			rooms[i], left = room-int16(p.Milli), left-1
		}
	}
	return true
}
