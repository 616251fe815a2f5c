package cluster

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Dimension is one kind of measured use of a node.
type Dimension int

// The dimensions with their units. CPU and memory are used in the units of Resources.
const (
	UsedCPU    Dimension = iota // thousandths of a core
	UsedMemory                  // bytes
	NetworkIn                   // bytes a second
	NetworkOut                  // bytes a second
	DiskRead                    // bytes a second
	DiskWrite                   // bytes a second

	Dimensions = iota // their number
)

// String returns the dimension's name in metrics and messages.
func (d Dimension) String() string {
	return [Dimensions]string{"cpu", "memory", "network_in", "network_out", "disk_read", "disk_write"}[d]
}

// UsageWindow is the time, in seconds, that mean and deviation of measured usage cover.
const UsageWindow = 300

// Statistics summarise what was measured in one dimension until the last measurement, in the unit of the
// dimension.
type Statistics struct {
	Mean      float64 // over the last UsageWindow
	Deviation float64 // standard deviation over the same time
	HourMax   float64 // maximum of the last hour
	DayMax    float64 // maximum of the last day
}

// NodeUsage is the measured usage of a node. Node.Version does not cover it.
type NodeUsage struct {
	At       float64                // time of the measurement, in seconds on the clock of Snapshot.Now
	Known    [Dimensions]bool       // dimensions that were measured; the others are estimated from requests
	Measured [Dimensions]Statistics // of the known dimensions
	Capacity [Dimensions]float64    // capacity of network and disk, 0 if not known; for CPU and memory see Node.Capacity

	// Missing is the usage to expect, in addition to the measured mean, of pods that were bound since the
	// measurement or during the window before it.
	Missing [Dimensions]float64
	Recent  []RecentPod // pods that were bound after At - UsageWindow, in the order in which they were bound

	// Power is the power model that was fitted to measured watts. If it is nil, Node.Power counts.
	Power *PowerModel

	Wanted    float64 // thousandths of a core that services on the node (on a cluster: all pods) wanted at the measurement; 0 if not known
	Throttled float64 // thousandths of Wanted that the pods did not get
}

// RecentPod is a pod that was bound to a node not long ago.
type RecentPod struct {
	ID               int     // for the list's owner
	At               float64 // when it was bound, in seconds on the clock of Snapshot.Now
	Requests, Limits Resources
	Expected         [Dimensions]float64 // its expected use, from Pod.Expected
}

// Expect sets Missing, by the pods in Recent. missing returns the share of a pod's usage that the measured mean lacks.
func (u *NodeUsage) Expect(missing func(*RecentPod) float64) {
	u.Missing = [Dimensions]float64{}
	for i := range u.Recent {
		p := &u.Recent[i]
		share := missing(p)
		for d, x := range p.Expected {
			u.Missing[d] += share * x
		}
	}
}

// MissingShare returns the share of a pod's usage that a continuous mean over the UsageWindow before measured lacks if
// the pod was bound at the given time: 1 if it was bound after the measurement, 0 if before the window.
func MissingShare(measured, bound float64) float64 {
	return max(min(1-(measured-bound)/UsageWindow, 1), 0)
}

// PodUsage is the usage to expect of a pending pod: the mean of earlier pods of its workload.
type PodUsage struct {
	Known    [Dimensions]bool
	Measured [Dimensions]Statistics // of the known dimensions
}

// Used returns the use of the node's pods in a dimension: the measured usage plus the expected use of pods bound since. If the dimension
// was not measured, it is the pods' requests: CPU and memory without deviation, 0 for network and disk.
func (n *Node) Used(d Dimension) Statistics {
	u := n.Usage
	if u == nil || !u.Known[d] {
		requested := n.Requested.in(d)
		return Statistics{Mean: requested, HourMax: requested, DayMax: requested}
	}
	s := u.Measured[d]
	s.Mean += u.Missing[d]
	s.HourMax += u.Missing[d]
	s.DayMax += u.Missing[d]
	return s
}

// Capacity returns the node's capacity in a dimension; 0 if it is not known.
func (n *Node) Capacity(d Dimension) float64 {
	switch {
	case d == UsedCPU || d == UsedMemory:
		return n.Allocatable.in(d)
	case n.Usage == nil:
		return 0
	}
	return n.Usage.Capacity[d]
}

// Expected returns the pod's expected use in a dimension: the mean of its workload's earlier pods, or, if that is not known, its request.
func (p *Pod) Expected(d Dimension) float64 {
	if p.Usage != nil && p.Usage.Known[d] {
		return p.Usage.Measured[d].Mean
	}
	return p.Requests.in(d)
}

// ExpectedAll returns the pod's expected use, by dimension.
func (p *Pod) ExpectedAll() (out [Dimensions]float64) {
	for d := range out {
		out[d] = p.Expected(Dimension(d))
	}
	return out
}

// in returns the amount in a dimension; 0 for a dimension that is not requested.
func (r *Resources) in(d Dimension) float64 {
	switch d {
	case UsedCPU:
		return float64(r.MilliCPU)
	case UsedMemory:
		return float64(r.Memory)
	}
	return 0
}

// PowerModel is the power of a machine as a function of the fraction of its CPU in use.
type PowerModel struct {
	Idle  float64   `json:"idle"`            // watts while nothing runs
	Full  float64   `json:"full"`            // watts with all CPU in use; at least Idle
	Curve []float64 `json:"curve,omitempty"` // watts at equal steps between Idle and Full, at most Full; empty: linear
	Sleep *float64  `json:"sleep,omitempty"` // watts while no pod is on the node; nil: it does not sleep
}

// The bounds of a machine's power at full load, in watts.
const (
	minFull  = 1e-3
	maxWatts = 1e5
)

// Validate returns every fault, each with its field.
func (m *PowerModel) Validate() error {
	var errs []error
	check := func(field string, x, low, high float64) {
		if !(x >= low && x <= high) { // also refuses NaN
			errs = append(errs, fmt.Errorf("%s: %v is not %g to %g watts", field, x, low, high))
		}
	}
	check("idle", m.Idle, 0, maxWatts)
	check("full", m.Full, max(m.Idle, minFull), maxWatts)
	if len(m.Curve) > 99 {
		errs = append(errs, fmt.Errorf("curve: %d values are more than 99", len(m.Curve)))
	}
	for i, x := range m.Curve {
		check(fmt.Sprintf("curve[%d]", i), x, 0, m.Full)
	}
	if m.Sleep != nil {
		check("sleep", *m.Sleep, 0, m.Idle)
	}
	return errors.Join(errs...)
}

// Equal reports whether two models are equal; nil equals nil only.
func (m *PowerModel) Equal(o *PowerModel) bool {
	if m == nil || o == nil {
		return m == o
	}
	if m.Sleep == nil || o.Sleep == nil {
		if m.Sleep != o.Sleep {
			return false
		}
	} else if *m.Sleep != *o.Sleep {
		return false
	}
	return m.Idle == o.Idle && m.Full == o.Full && slices.Equal(m.Curve, o.Curve)
}

// At returns the watts of a machine that is awake with a fraction of its CPU in use, linear between the points of the
// curve. A fraction outside of 0 to 1 counts as the nearest of these.
func (m *PowerModel) At(used float64) float64 {
	steps := float64(len(m.Curve) + 1)
	x := max(min(used, 1), 0) * steps
	i := min(math.Floor(x), steps-1)
	low, high := m.point(int(i)), m.point(int(i)+1)
	return low + (high-low)*(x-i)
}

// point returns the i-th point: Idle, the values of the curve, Full.
func (m *PowerModel) point(i int) float64 {
	switch {
	case i == 0:
		return m.Idle
	case i > len(m.Curve):
		return m.Full
	}
	return m.Curve[i-1]
}

// The model of the power of nodes' CPUs and GPUs, in watts, comes from Lettich et al., Power- and Fragmentation-aware
// Online Scheduling for GPU Datacenters, CCGrid 2025 (arXiv 2412.17484):
//
//   - A GPU device draws its rated power if any pod uses it, and its idle power otherwise.
//   - The pods of a node fill one CPU package after another. A package draws its full power if any of
//     its hardware threads is requested, and its idle power otherwise.
//
// Memory, disks and fans do not count, because no choice changes them. [Watts] and [WattsAfter] compute this model.
//
// [CPUDraw] depends on measured use instead of requests, and on the node's own model of the whole machine, which may
// sleep.

// draw holds the power of a device or a CPU package in watts: idle, and in use.
type draw struct{ idle, full float64 }

// gpus holds the draw of a device by its model: idle, and the board's rated power. The power-aware
// extension of the openb simulator (Lettich et al., arXiv 2412.17484) took the figures from these
// sources:
//
//	T4       rated power: data sheet of the maker
//	A10      data sheet of the maker; the trace's anonymous G2 counts as one
//	P100     poster rpost131s2 at SC20; so do V100M16 and V100M32
//	A100     white paper of the Ampere architecture; the trace's anonymous G3 counts as one
//
// Idle power is not in most data sheets; the extension's figures are kept.
var gpus = map[string]draw{
	"T4": {10, 70}, "A10": {30, 150}, "G2": {30, 150}, "P100": {25, 250},
	"V100M16": {30, 300}, "V100M32": {30, 300}, "A100": {50, 400}, "G3": {50, 400},
}

// otherGPU is the draw of a device of another model: the extension's figures for models that it does not
// know.
var otherGPU = draw{25, 250}

// socket is a CPU package.
type socket struct {
	draw
	milliCPU int64 // of its hardware threads, two for each core, in thousandths
}

// sockets holds the CPU package of a machine by the model of its GPUs. The extension took the packages
// from the cloud's instance types with these GPUs, and their full power from the maker's rating
// (Xeon 8163, 6326 and 8369B).
var sockets = map[string]socket{
	"T4":      {draw{20, 165}, 48_000},
	"V100M16": {draw{20, 185}, 32_000}, "V100M32": {draw{20, 185}, 32_000},
	"A100": {draw{20, 270}, 64_000}, "G3": {draw{20, 270}, 64_000},
}

// otherSocket is the package of all other machines (Xeon E5-2682 v4).
var otherSocket = socket{draw{15, 120}, 32_000}

// Watts returns the power of a node.
func Watts(n *Node) float64 { return WattsAfter(n, Resources{}, 0) }

// WattsAfter returns the power of a node with one more pod, which requests r and runs on the given devices.
func WattsAfter(n *Node, r Resources, on DeviceSet) (watts float64) {
	s, known := sockets[n.GPUModel]
	if !known {
		s = otherSocket
	}
	all := ceil(n.Allocatable.MilliCPU, s.milliCPU)
	busy := min(ceil(n.Requested.MilliCPU+r.MilliCPU, s.milliCPU), all)
	watts = s.full*float64(busy) + s.idle*float64(all-busy)

	return watts + gpuWatts(n, r, on)
}

// gpuOf returns the draw of one of the node's devices.
func gpuOf(n *Node) draw {
	if d, known := gpus[n.GPUModel]; known {
		return d
	}
	return otherGPU
}

// gpuWatts returns the power of the node's devices with one more pod.
func gpuWatts(n *Node, r Resources, on DeviceSet) (watts float64) {
	if len(n.GPUs) == 0 && n.Allocatable.GPU == 0 {
		return 0
	}
	device := gpuOf(n)
	for i, used := range n.GPUs {
		if used > 0 || on.Has(i) {
			watts += device.full
		} else {
			watts += device.idle
		}
	}
	if n.GPUs == nil { // only their number is known
		inUse := min(n.Requested.GPU+r.GPU, n.Allocatable.GPU)
		watts += device.full*float64(inUse) + device.idle*float64(n.Allocatable.GPU-inUse)
	}
	return watts
}

// ceil returns how many times unit covers amount; 0 if it is negative.
func ceil(amount, unit int64) int64 { return max((amount+unit-1)/unit, 0) }
