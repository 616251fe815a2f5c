package fragmentation

import (
	"cmp"
	"maps"
	"slices"

	"gnnsched/internal/cluster"
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
