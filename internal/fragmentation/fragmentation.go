package fragmentation

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
)

// Fragmentation returns the fragmentation F of a node, in thousandths of a device.
func (t *Typical) Fragmentation(n *cluster.Node) float64 {
	return t.After(n, cluster.Resources{}, 0)
}

// After returns the fragmentation F that a node would have with one more pod, which requests r and
// runs on the given devices.
func (t *Typical) After(n *cluster.Node, r cluster.Resources, on cluster.DeviceSet) float64 {
	if t == nil {
		return 0
	}
	var buffer [cluster.MaxDevices]int64
	rooms := buffer[:len(n.GPUs)]
	_, milli := Devices(r)
	var idle int64
	for i, used := range n.GPUs {
		if on.Has(i) {
			used += milli
		}
		rooms[i] = max(cluster.DeviceMilli-used, 0)
		idle += rooms[i]
	}
	if idle == 0 {
		return 0
	}
	cpu := n.Allocatable.MilliCPU - n.Requested.MilliCPU - r.MilliCPU
	return t.tableOf(tableKey{n.GPUModel, t.Access(n)}).fragmentation(cpu, rooms, idle)
}

// tableKey identifies a table: nodes with equal keys share one.
type tableKey struct {
	model  string
	access Access
}

// tableOf returns the table for a GPU model and an access, and makes it at the first call.
func (t *Typical) tableOf(key tableKey) *table {
	if known := (*t.tables.Load())[key]; known != nil {
		return known
	}
	t.making.Lock()
	defer t.making.Unlock()
	all := maps.Clone(*t.tables.Load())
	if all[key] == nil {
		all[key] = newTable(t.pods, key)
		t.tables.Store(&all)
	}
	return all[key]
}

// table holds the typical pods in the form that nodes of one GPU model and one access need.
type table struct {
	never  float64 // frequency of the pods that reject the model, do not tolerate the taints, or request no GPU
	groups []group
}

// group holds the typical pods that request the same GPUs.
type group struct {
	devices   int64     // number of devices
	milli     int64     // thousandths of each device
	frequency float64   // of all pods of the group
	cpu       []int64   // the pods' requests, in thousandths of a core, ascending
	upTo      []float64 // frequency of the pods that request at most cpu, for each entry of cpu
}

func newTable(pods []Pod, key tableKey) *table {
	t := &table{}
	sorted := slices.Clone(pods)
	slices.SortStableFunc(sorted, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Devices, b.Devices), cmp.Compare(a.Milli, b.Milli), cmp.Compare(a.MilliCPU, b.MilliCPU))
	})
	for _, p := range sorted {
		if p.Devices == 0 || len(p.Models) > 0 && !slices.Contains(p.Models, key.model) {
			t.never += p.Frequency
			continue
		}
		admitted := p.On(key.access)
		t.never += p.Frequency - admitted
		if admitted == 0 {
			continue
		}
		last := len(t.groups) - 1
		if last < 0 || t.groups[last].devices != p.Devices || t.groups[last].milli != p.Milli {
			t.groups = append(t.groups, group{devices: p.Devices, milli: p.Milli})
			last++
		}
		g := &t.groups[last]
		g.frequency += admitted
		g.cpu = append(g.cpu, p.MilliCPU)
		g.upTo = append(g.upTo, g.frequency)
	}
	return t
}

// fragmentation returns F of a node with the given free CPU (thousandths of a core) and free part of
// each device (rooms, thousandths). idle is the sum of rooms.
func (t *table) fragmentation(cpu int64, rooms []int64, idle int64) float64 {
	f := t.never * float64(idle)
	for i := range t.groups {
		g := &t.groups[i]
		var fit, small int64 // number of devices with enough room; idle capacity of the others
		for _, room := range rooms {
			if room >= g.milli {
				fit++
			} else {
				small += room
			}
		}
		hosted := 0.0
		if fit >= g.devices {
			hosted = g.hosted(cpu)
		}
		f += hosted*float64(small) + (g.frequency-hosted)*float64(idle)
	}
	return f
}

// hosted returns the frequency of the group's pods that request at most the given CPU.
func (g *group) hosted(cpu int64) float64 {
	for i := len(g.cpu) - 1; i >= 0; i-- { // the list is short, and most nodes have CPU for most pods
		if g.cpu[i] <= cpu {
			return g.upTo[i]
		}
	}
	return 0
}

// Access is the set of kinds of tolerations that let a pod on a node. Pods of one kind have equal
// tolerations.
type Access uint64

// anywhere is the access to a node without taints: all kinds.
const anywhere = ^Access(0)

// maxKinds is the number of kinds that an Access can hold.
const maxKinds = 64

// kinds numbers tolerations from 0, the number of none. Those beyond maxKinds count as none.
type kinds struct {
	numbers map[string]int
	list    [][]cluster.Toleration
}

func newKinds() *kinds {
	return &kinds{numbers: map[string]int{"": 0}, list: [][]cluster.Toleration{nil}}
}

func (k *kinds) of(tolerations []cluster.Toleration) int {
	key := cluster.TolerationsKey(tolerations)
	number, known := k.numbers[key]
	if !known && len(k.list) < maxKinds {
		number = len(k.list)
		k.numbers[key] = number
		k.list = append(k.list, tolerations)
	}
	return number
}

// add counts pods of a kind.
func (p *Pod) add(kind int, count float64) {
	if !(count > 0) {
		return
	}
	for len(p.shares) <= kind {
		p.shares = append(p.shares, 0)
	}
	p.shares[kind] += count
	p.kinds |= 1 << kind
}

// On returns the frequency of the pods that tolerate the taints of a node with the given access.
func (p *Pod) On(a Access) float64 {
	if p.kinds&^a == 0 {
		return p.Frequency
	}
	share := 0.0
	for rest := p.kinds & a; rest != 0; rest &= rest - 1 {
		share += p.shares[bits.TrailingZeros64(uint64(rest))]
	}
	return p.Frequency * share
}

// Kinds returns the kinds of tolerations that pods of the shape have.
func (p *Pod) Kinds() Access { return p.kinds }

// Access returns the kinds of tolerations with which a pod with GPUs may go to the node, cordoned or not.
// It has all kinds if all such pods of the workload may.
func (t *Typical) Access(n *cluster.Node) (a Access) {
	if t == nil || len(n.Taints) == 0 {
		return anywhere
	}
	for i, tolerations := range t.kinds {
		if n.Tolerated(tolerations) {
			a |= 1 << i
		}
	}
	if t.gpuKinds&^a == 0 {
		return anywhere
	}
	return a & t.gpuKinds
}

// Open reports whether pods with GPUs of the workload may use the node: it is not cordoned, and some
// of them tolerate its taints. If no such pods are known, it reports whether pods without tolerations
// may.
func (t *Typical) Open(n *cluster.Node) bool {
	if t == nil || t.gpuKinds == 0 {
		return n.Available()
	}
	return !n.Unschedulable && t.Access(n)&t.gpuKinds != 0
}

// Partitions returns each profile's share of the workload's requests for MIG partitions, by the index of the profile. A pod's profile
// follows from its requested thousandths of a GPU. The shares add up to 1. All profiles have equal shares if no pod requests a partition,
// or t is nil.
func (t *Typical) Partitions() (shares [mig.Count]float64) {
	sum := 0.0
	for _, s := range t.Shapes() {
		if p := mig.OfMilli(s.Milli); p != mig.None && s.Devices == 1 {
			shares[p] += s.Frequency
			sum += s.Frequency
		}
	}
	for _, p := range mig.Profiles() {
		if sum == 0 {
			shares[p] = 1 / float64(len(mig.Profiles()))
		} else {
			shares[p] /= sum
		}
	}
	return shares
}
