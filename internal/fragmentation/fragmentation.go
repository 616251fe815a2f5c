package fragmentation

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

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

// Demand is a number of pods of a workload with equal requests.
type Demand struct {
	Requests    cluster.Resources
	Models      []string             // GPU models that the pods accept; empty: any
	Tolerations []cluster.Toleration // of taints
	Count       float64              // number of pods, or their frequency relative to other demands
}

// Pod is a typical pod.
type Pod struct {
	MilliCPU  int64    // requested thousandths of a core
	Devices   int64    // requested GPU devices; 0 for a pod without GPU
	Milli     int64    // requested thousandths of each device: 1000, or less for a share
	Models    []string // GPU models that the pod accepts; empty: any
	Frequency float64  // relative; the frequencies of all typical pods add up to 1

	kinds  Access    // the kinds of tolerations that pods of this shape have
	shares []float64 // by kind: the share of these pods that has it
}

// cover is the fraction of a workload's pods that its typical pods represent, at least.
const cover = 0.95

// maxShapes bounds the number of typical pods, and so the time to measure a node. The openb traces
// have 35 to 74 shapes.
const maxShapes = 512

// Typical holds the typical pods of a workload. It is safe for concurrent use. The nil value stands
// for an unknown workload, for which nothing is fragmented.
type Typical struct {
	pods   []Pod
	shapes []Pod // all of the workload's

	kinds    [][]cluster.Toleration // the tolerations of each kind
	gpuKinds Access                 // the kinds that pods with GPUs have

	// tables holds a table for each GPU model and access of the measured nodes. Models that only pods name have none. The map is replaced,
	// never modified; making guards the replacement.
	tables atomic.Pointer[map[tableKey]*table]
	making sync.Mutex
}

// NewTypical finds the typical pods of a workload. It takes its shapes (CPU, devices, thousandths and models, without tolerations) by
// descending count, equal counts in their order in workload, until they cover 95 % of the pods or there are 512. It returns nil if the
// workload has no pods.
func NewTypical(workload []Demand) *Typical {
	pods, kinds := count(workload)
	var total, covered float64
	for _, p := range pods {
		total += p.Frequency
	}
	if total == 0 {
		return nil
	}
	slices.SortStableFunc(pods, func(a, b Pod) int { return cmp.Compare(b.Frequency, a.Frequency) })
	shapes := slices.Clone(pods)
	for i := range shapes {
		shapes[i].Frequency /= total
	}
	for i, p := range pods {
		if covered += p.Frequency; covered >= cover*total || i+1 == maxShapes {
			pods = pods[:i+1]
			break
		}
	}
	for i := range pods {
		pods[i].Frequency /= covered
	}
	t := &Typical{pods: pods, shapes: shapes, kinds: kinds}
	for i := range shapes {
		if shapes[i].Devices > 0 {
			t.gpuKinds |= shapes[i].kinds
		}
	}
	t.tables.Store(&map[tableKey]*table{})
	return t
}

// count adds up the pods of each shape. The result has the order of first appearance; Frequency
// holds the counts.
func count(workload []Demand) (pods []Pod, kinds [][]cluster.Toleration) {
	type shape struct {
		cpu, devices, milli int64
		models              string
	}
	row := map[shape]int{}
	numbers := newKinds()
	for _, d := range workload {
		p := Pod{MilliCPU: d.Requests.MilliCPU, Models: d.Models}
		p.Devices, p.Milli = Devices(d.Requests)
		key := shape{p.MilliCPU, p.Devices, p.Milli, strings.Join(d.Models, "|")}
		i, known := row[key]
		if !known {
			i = len(pods)
			row[key] = i
			pods = append(pods, p)
		}
		pods[i].Frequency += d.Count
		pods[i].add(numbers.of(d.Tolerations), d.Count)
	}
	for i := range pods {
		for k := range pods[i].shares {
			pods[i].shares[k] /= pods[i].Frequency
		}
	}
	return pods, numbers.list
}

// Devices returns the number of devices of a pod that requests r, and the thousandths of each that
// it takes.
func Devices(r cluster.Resources) (devices, milli int64) {
	switch {
	case r.GPU > 0:
		return r.GPU, cluster.DeviceMilli
	case r.GPUMilli > 0:
		return 1, r.GPUMilli
	}
	return 0, 0
}

// Pods returns the typical pods, the most frequent first.
func (t *Typical) Pods() []Pod {
	if t == nil {
		return nil
	}
	return slices.Clone(t.pods)
}

// Shapes returns all of the workload's shapes, the most frequent first, with their frequencies among all
// pods. Rare ones are not typical but may request many devices.
func (t *Typical) Shapes() []Pod {
	if t == nil {
		return nil
	}
	return slices.Clone(t.shapes)
}
