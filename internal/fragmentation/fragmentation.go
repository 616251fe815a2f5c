package fragmentation

import (
	"cmp"
	"maps"
	"slices"

	"gnnsched/internal/cluster"
)

// Fragmentation is F of a node as it is, in thousandths of a device.
func (t *Typical) Fragmentation(n *cluster.Node) float64 {
	return t.After(n, cluster.Resources{}, 0)
}

// After is F of a node once a pod that asks for r runs there on the given devices.
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
	return t.of(n.GPUModel).fragmentation(cpu, rooms, idle)
}

// of is the table of a model.
func (t *Typical) of(model string) *table {
	if known := (*t.tables.Load())[model]; known != nil {
		return known
	}
	t.making.Lock()
	defer t.making.Unlock()
	all := maps.Clone(*t.tables.Load())
	if all[model] == nil {
		all[model] = newTable(t.pods, model)
		t.tables.Store(&all)
	}
	return all[model]
}

// table is the typical pods as the nodes of one model see them.
type table struct {
	never  float64 // frequency of the pods that no node of the model hosts, or that ask for no GPU
	groups []group
}

// group is the typical pods that ask for the same GPUs, by ascending CPU.
type group struct {
	devices, milli int64
	frequency      float64
	cpu            []int64   // what the pods ask for, ascending
	upTo           []float64 // frequency of those that ask for no more than that
}

func newTable(pods []Pod, model string) *table {
	t := &table{}
	sorted := slices.Clone(pods)
	slices.SortStableFunc(sorted, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Devices, b.Devices), cmp.Compare(a.Milli, b.Milli), cmp.Compare(a.MilliCPU, b.MilliCPU))
	})
	for _, p := range sorted {
		if p.Devices == 0 || len(p.Models) > 0 && !slices.Contains(p.Models, model) {
			t.never += p.Frequency
			continue
		}
		last := len(t.groups) - 1
		if last < 0 || t.groups[last].devices != p.Devices || t.groups[last].milli != p.Milli {
			t.groups = append(t.groups, group{devices: p.Devices, milli: p.Milli})
			last++
		}
		g := &t.groups[last]
		g.frequency += p.Frequency
		g.cpu, g.upTo = append(g.cpu, p.MilliCPU), append(g.upTo, g.frequency)
	}
	return t
}

// fragmentation is F of a node with so much CPU and such devices left; idle is their sum.
func (t *table) fragmentation(cpu int64, rooms []int64, idle int64) float64 {
	f := t.never * float64(idle)
	for i := range t.groups {
		g := &t.groups[i]
		var fit, small int64 // devices that are large enough; what is left on the others
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

// hosted is the frequency of the group's pods that so much CPU is enough for.
func (g *group) hosted(cpu int64) float64 {
	for i := len(g.cpu) - 1; i >= 0; i-- { // the lists are short, and most nodes have CPU for most pods
		if g.cpu[i] <= cpu {
			return g.upTo[i]
		}
	}
	return 0
}
