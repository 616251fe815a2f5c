package cluster

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

// UsageWindow is the time, in seconds, that mean, deviation and trend of measured usage cover.
const UsageWindow = 300

// Statistics summarise what was measured in one dimension until the last measurement, in the unit of the
// dimension.
type Statistics struct {
	Mean      float64 // over the last UsageWindow
	Deviation float64 // standard deviation over the same time
	Trend     float64 // change from the beginning to the end of that time, by least squares
	HourMax   float64 // maximum of the last hour
	DayMax    float64 // maximum of the last day
}

// NodeUsage is the measured usage of a node. Node.Version does not cover it: it has a version of its own.
type NodeUsage struct {
	Version  Version                // identifies the other fields; code that sets one of them must set it to NextVersion()
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
