package fill

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
)

// maxComing bounds the shapes of coming, and so the time to look at a node.
const maxComing = 32

// coming is the demand that not every node with idle devices can serve: pods with several devices, pods that
// name GPU models, and, where CPU runs out, pods with one. Such pods are often too rare to be typical, but request many
// devices. Shares are shares of all GPUs that the workload's pods request.
type coming struct {
	shapes []fragmentation.Pod // with several devices: the shapes that request most GPUs
	harder []float64           // of each: the share that pods request which fit on no node where it does not fit
	models map[string]float64  // the share for which pods name a model; a pod that names several counts for each with an equal part
	names  []string            // of the models, sorted
	kinds  []float64           // by kind of tolerations: the share that pods request which have it

	singles []fragmentation.Pod // with one whole device: the shapes that request most GPUs; their frequencies add up to 1
	cpu     float64             // thousandths of a core that all pods request, for each device that GPU pods request
}

func comingOf(shapes []fragmentation.Pod) (c coming) {
	var total float64
	share := func(p *fragmentation.Pod) float64 { return p.Frequency * float64(p.Devices*p.Milli) }
	for i := range shapes {
		total += share(&shapes[i])
		c.cpu += shapes[i].Frequency * float64(shapes[i].MilliCPU) * cluster.DeviceMilli
	}
	c.cpu /= total
	c.models = map[string]float64{}
	for _, p := range shapes {
		c.addKinds(&p, share(&p)/total)
		switch {
		case p.Devices > 1:
			c.shapes = append(c.shapes, p)
		case p.Devices == 1 && p.Milli == cluster.DeviceMilli:
			c.singles = append(c.singles, p)
		}
		for _, m := range p.Models {
			c.models[m] += share(&p) / total / float64(len(p.Models))
		}
	}
	maps.DeleteFunc(c.models, func(_ string, share float64) bool { return !(share > 0) }) // of pods without GPUs
	c.names = slices.Sorted(maps.Keys(c.models))
	most := func(pods []fragmentation.Pod) []fragmentation.Pod {
		slices.SortStableFunc(pods, func(a, b fragmentation.Pod) int { return cmp.Compare(share(&b), share(&a)) })
		return pods[:min(len(pods), maxComing)]
	}
	c.shapes, c.singles = most(c.shapes), most(c.singles)
	frequencies := 0.0
	for i := range c.singles {
		frequencies += c.singles[i].Frequency
	}
	for i := range c.singles {
		c.singles[i].Frequency /= frequencies
	}
	for i := range c.shapes {
		sum := 0.0
		for j := range shapes {
			if asMuch(&shapes[j], &c.shapes[i]) {
				sum += share(&shapes[j]) / total
			}
		}
		c.harder = append(c.harder, sum)
	}
	return c
}

// addKinds adds a share of the requests, made by pods of shape p, to the share of each of its kinds of tolerations.
func (c *coming) addKinds(p *fragmentation.Pod, share float64) {
	if !(share > 0) {
		return
	}
	for rest := p.Kinds(); rest != 0; rest &= rest - 1 {
		k := bits.TrailingZeros64(uint64(rest))
		for len(c.kinds) <= k {
			c.kinds = append(c.kinds, 0)
		}
		c.kinds[k] += share * p.On(1<<k) / p.Frequency
	}
}

// asMuch reports whether a fits only on nodes on which b fits, memory aside.
func asMuch(a, b *fragmentation.Pod) bool {
	if a.MilliCPU < b.MilliCPU || a.Devices < b.Devices || a.Milli < b.Milli {
		return false
	}
	return len(b.Models) == 0 || len(a.Models) > 0 &&
		!slices.ContainsFunc(a.Models, func(m string) bool { return !slices.Contains(b.Models, m) })
}

// slots is the number of pods of each of coming's shapes that fit on a node, if it hosts no others.
type slots [maxComing]uint8

// slots returns how many slots n has, given its access, its free CPU and its idle devices. A slot counts if some pods of the shape tolerate
// the node's taints.
func (c *coming) slots(n *cluster.Node, a fragmentation.Access, milliCPU int64, whole int) (out slots) {
	for i := range c.shapes {
		p := &c.shapes[i]
		count := whole / int(p.Devices)
		if count == 0 || p.On(a) == 0 || len(p.Models) > 0 && !slices.Contains(p.Models, n.GPUModel) {
			continue
		}
		if p.MilliCPU > 0 {
			count = min(count, int(max(milliCPU, 0)/p.MilliCPU))
		}
		out[i] = uint8(count)
	}
	return out
}

// hosts returns how many single-GPU pods fit n, given its access, its free CPU and its idle devices, averaged over coming.singles.
func (c *coming) hosts(n *cluster.Node, a fragmentation.Access, milliCPU int64, whole int) (mean float64) {
	if whole == 0 {
		return 0
	}
	for i := range c.singles {
		p := &c.singles[i]
		if p.On(a) == 0 || len(p.Models) > 0 && !slices.Contains(p.Models, n.GPUModel) {
			continue
		}
		count := whole
		if p.MilliCPU > 0 {
			count = min(count, int(max(milliCPU, 0)/p.MilliCPU))
		}
		mean += p.Frequency * float64(count)
	}
	return mean
}

// reserve prices the room that a cluster should keep for future pods. At the workload's request rates, it compares how long three supplies
// last with how long all idle devices last: slots for pods with several devices, devices of a model that pods name, and devices for pods
// with few tolerations. The supply that runs out first is scarce. If CPU is scarce, room for single-GPU pods has a price, too: each node
// counts by the number of them that it can host. It keeps sums over the nodes, and looks again only at nodes that changed.
type reserve struct {
	typical *fragmentation.Typical
	coming  coming

	rows    []row
	sums    sums
	bySlots [maxComing]int64               // sums of the nodes' slots
	idle    map[string]int64               // free thousandths of devices, by GPU model
	open    map[fragmentation.Access]int64 // the same, by access

	slots  []price                          // of the scarce shapes
	models map[string]float64               // price of an idle device of each model, in devices; none if it is 0
	pools  map[fragmentation.Access]float64 // the same of nodes with each access
	host   float64                          // price of room for a pod with one device, in devices
}

// sums are amounts of nodes that pods with GPUs may use.
type sums struct{ devices, idle, cpu int64 } // thousandths of devices and of cores

func newReserve(typical *fragmentation.Typical) *reserve {
	return &reserve{
		typical: typical, coming: comingOf(typical.Shapes()), idle: map[string]int64{}, open: map[fragmentation.Access]int64{},
		models: map[string]float64{}, pools: map[fragmentation.Access]float64{},
	}
}

// price is the price of a slot, in devices.
type price struct {
	shape   int
	devices float64
}

// held counts the slots and devices on a node in some state that a reserve prices.
type held struct {
	slots  slots
	model  string
	access fragmentation.Access
	idle   float64 // devices
	hosts  float64 // pods with one device
}

// held returns what a node in a state holds.
func (r *reserve) held(n *cluster.Node, s *state) held {
	whole, idle := s.devices()
	cpu := s.free.MilliCPU
	return held{
		r.coming.slots(n, s.access, cpu, whole), s.model, s.access, float64(idle) / cluster.DeviceMilli, r.coming.hosts(n, s.access, cpu, whole),
	}
}

// worth returns the worth of a node to the pods that need scarce devices, in devices: for pods with several
// devices its dearest slots, because the others are in the same place, and its idle devices for
// pods that name its model.
func (r *reserve) worth(h *held) (worth float64) {
	for _, p := range r.slots {
		worth = max(worth, p.devices*float64(h.slots[p.shape]))
	}
	if len(r.models) > 0 && h.idle > 0 {
		worth += r.models[h.model] * h.idle
	}
	if len(r.pools) > 0 && h.idle > 0 {
		worth += r.pools[h.access] * h.idle
	}
	return worth + r.host*h.hosts
}

// Thresholds of scarcity, as multiples of the time that the idle devices last: a supply that lasts ample times as long has no price, and
// one that lasts full times as long or less has its full price. Where pods stay, 1 would do for full. Where they come and go, the idle
// devices are not used up, but vary, so a little more must be kept (docs/results/gpu.md, departures). Twice as
// much would keep too much for large pods in an overload.
const (
	ample = 2.2
	full  = 1.1
)

// scarcity returns the price of a device in a slot, or of a model, whose supply lasts the given multiple of the idle devices' time: 1, a
// whole device, up to full, falling to 0 at ample.
func scarcity(lasts float64) float64 { return max(min((ample-lasts)/(ample-full), 1), 0) }

// dearestHost is the price of room for a single-GPU pod, in devices, if CPU runs out before the idle devices. The value of the node
// includes the device already. The price falls to 0 where CPU lasts ampleCPU times as long as the idle devices.
const (
	dearestHost = 0.5
	ampleCPU    = 1.2
)

// hostPrice returns this price if CPU lasts the given multiple of the idle devices' time.
func hostPrice(lasts float64) float64 {
	return dearestHost * max(min((ampleCPU-lasts)/(ampleCPU-1), 1), 0)
}

// look sets the prices in a cluster.
func (r *reserve) look(nodes []*cluster.Node) {
	r.sync(nodes)
	r.slots, r.host = r.slots[:0], 0
	clear(r.models)
	clear(r.pools)
	idle := float64(r.sums.idle) / cluster.DeviceMilli
	if idle <= 0 {
		return
	}
	for i := range r.coming.shapes {
		size := float64(r.coming.shapes[i].Devices)
		if s := scarcity(float64(r.bySlots[i]) * size / r.coming.harder[i] / idle); s > 0 {
			r.slots = append(r.slots, price{i, s * size})
		}
	}
	if len(r.coming.singles) > 0 && r.coming.cpu > 0 {
		r.host = hostPrice(float64(r.sums.cpu) / r.coming.cpu / idle)
	}
	for _, model := range r.coming.names {
		if s := scarcity(float64(r.idle[model]) / cluster.DeviceMilli / r.coming.models[model] / idle); s > 0 {
			r.models[model] = s
		}
	}
	r.pricePools(idle)
}

// pricePools sets the prices of devices for the taints of their nodes. There are none if all pods may use
// all idle devices. Otherwise the devices that pods of one kind of tolerations may use are wanted by
// these pods, and by the pods of other kinds that may use no other devices.
func (r *reserve) pricePools(idle float64) {
	demand := r.coming.kinds
	for k := range demand {
		kind := fragmentation.Access(1) << k
		var milli int64
		for a, of := range r.open {
			if a&kind != 0 {
				milli += of
			}
		}
		open := float64(milli) / cluster.DeviceMilli
		if open >= idle || demand[k] == 0 {
			continue
		}
		wanted := 0.0
		for j, share := range demand {
			if r.within(fragmentation.Access(1)<<j, kind) {
				wanted += share
			}
		}
		s := scarcity(open / wanted / idle)
		for a := range r.open {
			if a&kind != 0 && s > r.pools[a] {
				r.pools[a] = s
			}
		}
	}
}

// within reports whether pods of kind a may use no idle devices that pods of kind b may not use.
func (r *reserve) within(a, b fragmentation.Access) bool {
	for x, idle := range r.open {
		if idle > 0 && x&a != 0 && x&b == 0 {
			return false
		}
	}
	return true
}

// row holds the amounts that a node in one of its states adds to the sums, which are whole numbers, so that they do not drift.
type row struct {
	version cluster.Version
	model   string
	access  fragmentation.Access
	slots   slots
	sums    sums
}

// sync brings the sums up to date.
func (r *reserve) sync(nodes []*cluster.Node) {
	for i := len(nodes); i < len(r.rows); i++ {
		r.add(&r.rows[i], -1)
	}
	r.rows = slices.Grow(r.rows[:min(len(r.rows), len(nodes))], len(nodes))
	for len(r.rows) < len(nodes) {
		r.rows = append(r.rows, row{})
	}
	for i, n := range nodes {
		if x := &r.rows[i]; !n.Unchanged(x.version) {
			r.add(x, -1)
			*x = r.row(n)
			r.add(x, 1)
		}
	}
}

// add adds times a row to the sums.
func (r *reserve) add(x *row, times int64) {
	r.sums.devices += times * x.sums.devices
	r.sums.idle += times * x.sums.idle
	r.sums.cpu += times * x.sums.cpu
	if x.sums.idle == 0 {
		return
	}
	r.idle[x.model] += times * x.sums.idle
	r.open[x.access] += times * x.sums.idle
	for i := range r.coming.shapes {
		r.bySlots[i] += times * int64(x.slots[i])
	}
}

// row returns the row of a node.
func (r *reserve) row(n *cluster.Node) row {
	x := row{version: n.Version, model: n.GPUModel}
	if r.typical.Open(n) {
		cpu := n.Free().MilliCPU
		x.access = r.typical.Access(n)
		x.sums = sums{int64(len(n.GPUs)) * cluster.DeviceMilli, n.IdleGPUMilli(), max(cpu, 0)}
		x.slots = r.coming.slots(n, x.access, cpu, int(n.IdleDevices()))
	}
	return x
}

// idleShare returns the idle fraction of the devices.
func (r *reserve) idleShare() float64 { return cluster.Fraction(r.sums.idle, r.sums.devices) }
