package policy

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/policy/preference"
)

// Policy scores candidate nodes for a pod; the node with the highest score is the best. A policy
// may keep state between calls and is not safe for concurrent use.
type Policy interface {
	// Name is the policy's name in tables and logs.
	Name() string
	// Score writes the score of node s.Nodes[candidates[i]] for pod to scores[i]. Both slices
	// have the same length. After an error the scores are undefined.
	Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error
}

// Upstream is a policy that stands for a profile of upstream's plugins, in which preferences are
// further score plugins. Declared preferences come first for all other policies.
type Upstream interface {
	Policy
	// PreferenceWeights returns the weights of upstream's preference plugins: the total score of a node is the
	// sum of the policy's score and of these plugins' weighted scores.
	PreferenceWeights() preference.Weights
}

// Setting describes the episode or scheduler profile that a policy is made for.
type Setting struct {
	Seed    uint64                 // of the policy's random numbers
	Typical *fragmentation.Typical // the workload's typical pods; nil if they are not known
	Running *fragmentation.Typical // the same with each pod counted by the time for which it runs; nil if that is not known
}

// Best returns the index of the highest score, the first of equal ones; -1 if there are none.
func Best(scores []float32) int {
	best := -1
	for i, v := range scores {
		if best < 0 || v > scores[best] {
			best = i
		}
	}
	return best
}

// ReadingKind says how a policy made a score of a Reading.
type ReadingKind string

// The kinds of readings.
const (
	// LinearReading has one number for each of linear.Features, and Weights. The score is their dot product.
	LinearReading ReadingKind = "linear"
	// NetworkReading has what infer.Network.ScoreOf reads.
	NetworkReading ReadingKind = "network"
	// ValueReading has a node's value, which is a cost, before and after the placement. The score is the first minus
	// the second. What infer.Network.AttributeStep reads may follow.
	ValueReading ReadingKind = "value"
)

// Reading holds the inputs that a policy read of one candidate: enough to compute the candidate's score again.
type Reading struct {
	Kind     ReadingKind `json:"kind"`
	Features Numbers     `json:"features"`          // finite
	Weights  Numbers     `json:"weights,omitempty"` // of a LinearReading
	KeptFor  []KeptFor   `json:"keptFor,omitempty"` // kinds of pods that the node is kept for, those that the placement costs most first
}

// KeptFor says what a placement on a node takes from a kind of pods that arrive.
type KeptFor struct {
	Kind  string  `json:"kind"`  // as cluster.Kind.Text
	Share float64 `json:"share"` // of the pods that arrive
	Room  float64 `json:"room"`  // how many more of them fit in the whole cluster
	Takes float64 `json:"takes"` // how many fewer fit after the placement
}

// Numbers is a vector. Its JSON form is the base64 of the numbers as little-endian float32.
type Numbers []float32

// MarshalJSON implements json.Marshaler.
func (n Numbers) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 4*len(n))
	for _, x := range n {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return append(base64.StdEncoding.AppendEncode([]byte{'"'}, b), '"'), nil
}

// UnmarshalJSON implements json.Unmarshaler. It fails for numbers that are not finite.
func (n *Numbers) UnmarshalJSON(text []byte) error {
	var b []byte
	if err := json.Unmarshal(text, &b); err != nil {
		return err
	}
	if len(b)%4 != 0 {
		return fmt.Errorf("%d bytes are no vector of float32", len(b))
	}
	*n = make(Numbers, len(b)/4)
	for i := range *n {
		x := math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return errors.New("a number is not finite")
		}
		(*n)[i] = x
	}
	return nil
}

// Reader is a policy that can tell what it read.
type Reader interface {
	Policy
	// Reading returns what the last Score read of the node in row candidates[i]; nil if it does not know. The
	// arguments are those of that Score. Nobody else holds the result.
	Reading(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, i int) *Reading
}

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
	for rest := Ways(n, r); rest != 0; rest &= rest - 1 {
		ways = append(ways, FirstWay(n, r, rest))
	}
	return ways
}

// Ways returns one bit for each of DeviceWays, without allocating memory.
func Ways(n *cluster.Node, r cluster.Resources) cluster.DeviceSet {
	if r.GPUMilli > 0 && n.HasDevices() {
		return n.DistinctDevices(r.GPUMilli)
	}
	return 1
}

// FirstWay returns the devices of the first of some Ways.
func FirstWay(n *cluster.Node, r cluster.Resources, ways cluster.DeviceSet) cluster.DeviceSet {
	if r.GPUMilli > 0 && n.HasDevices() {
		return ways.First()
	}
	return n.ChooseDevices(r)
}

// Rooms returns the thousandths that are left of each of n's devices, descending, once a pod that requests r runs on some of them.
func Rooms(n *cluster.Node, r cluster.Resources, on cluster.DeviceSet) (rooms [cluster.MaxDevices]int16) {
	_, milli := fragmentation.Devices(r)
	for i, used := range n.GPUs {
		if on.Has(i) {
			used += milli
		}
		room, j := int16(max(cluster.DeviceMilli-used, 0)), i
		for ; j > 0 && rooms[j-1] < room; j-- {
			rooms[j] = rooms[j-1]
		}
		rooms[j] = room
	}
	return rooms
}
