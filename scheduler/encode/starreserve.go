package encode

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"

	"gnnsched/gnn/feature"
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

// Reserve prices the room that a cluster should keep for future pods. At the workload's request rates, it compares how long three supplies
// last with how long all idle devices last: slots for pods with several devices, devices of a model that pods name, and devices for pods
// with few tolerations. The supply that runs out first is scarce. If CPU is scarce, room for single-GPU pods has a price, too: each node
// counts by the number of them that it can host.
type Reserve struct {
	slots  []price                          // of the scarce shapes
	models map[string]float64               // price of an idle device of each model, in devices; none if it is 0
	pools  map[fragmentation.Access]float64 // the same of nodes with each access
	host   float64                          // price of room for a pod with one device, in devices
}

// price is the price of a slot, in devices.
type price struct {
	shape   int
	devices float64
}

// Held counts the slots and devices on a node in some state that a Reserve prices.
type Held struct {
	slots  slots
	model  string
	access fragmentation.Access
	idle   float64 // devices
	hosts  float64 // pods with one device
}

// Held returns the reserves on the node that Node encoded last.
func (e *Stars) Held() Held {
	c, whole := &e.node, int(e.node.Whole)
	return Held{
		e.coming.slots(c.State, e.access, c.FreeCPU, whole), c.State.GPUModel, e.access, c.Idle,
		e.coming.hosts(c.State, e.access, c.FreeCPU, whole),
	}
}

// Worth returns the worth of a node to the pods that need scarce devices, in devices: for pods with several
// devices its dearest slots, because the others are in the same place, and its idle devices for
// pods that name its model.
func (r *Reserve) Worth(h *Held) (worth float64) {
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

// dearestHost is the price of room for a single-GPU pod, in devices, if CPU runs out before the idle devices. The network's value includes
// the device already. The price falls to 0 where CPU lasts ampleCPU times as long as the idle devices.
const (
	dearestHost = 0.5
	ampleCPU    = 1.2
)

// hostPrice returns this price if CPU lasts the given multiple of the idle devices' time.
func hostPrice(lasts float64) float64 {
	return dearestHost * max(min((ampleCPU-lasts)/(ampleCPU-1), 1), 0)
}

// Reserve returns the prices in the cluster that Features has seen last. They are valid until the next call.
func (e *Stars) Reserve() *Reserve {
	r := &e.reserve
	r.slots = r.slots[:0]
	clear(r.models)
	clear(r.pools)
	r.host = 0
	idle := float64(e.sums.Idle) / cluster.DeviceMilli
	if idle <= 0 {
		return r
	}
	for i := range e.coming.shapes {
		size := float64(e.coming.shapes[i].Devices)
		if s := scarcity(float64(e.slots[i]) * size / e.coming.harder[i] / idle); s > 0 {
			r.slots = append(r.slots, price{i, s * size})
		}
	}
	if len(e.coming.singles) > 0 && e.coming.cpu > 0 {
		r.host = hostPrice(float64(e.sums.CPU) / e.coming.cpu / idle)
	}
	for _, model := range e.coming.names {
		if s := scarcity(float64(e.idle[model]) / cluster.DeviceMilli / e.coming.models[model] / idle); s > 0 {
			r.models[model] = s
		}
	}
	e.pricePools(idle)
	return r
}

// pricePools sets the prices of devices for the taints of their nodes. There are none if all pods may use
// all idle devices. Otherwise the devices that pods of one kind of tolerations may use are wanted by
// these pods, and by the pods of other kinds that may use no other devices.
func (e *Stars) pricePools(idle float64) {
	demand := e.coming.kinds
	for k := range demand {
		kind := fragmentation.Access(1) << k
		var milli int64
		for a, of := range e.open {
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
			if e.within(fragmentation.Access(1)<<j, kind) {
				wanted += share
			}
		}
		s := scarcity(open / wanted / idle)
		for a := range e.open {
			if a&kind != 0 && s > e.reserve.pools[a] {
				e.reserve.pools[a] = s
			}
		}
	}
}

// within reports whether pods of kind a may use no idle devices that pods of kind b may not use.
func (e *Stars) within(a, b fragmentation.Access) bool {
	for x, idle := range e.open {
		if idle > 0 && x&a != 0 && x&b == 0 {
			return false
		}
	}
	return true
}

// starRow holds the amounts that a node in one of its states adds to the sums, which are whole numbers, so that they
// do not drift.
type starRow struct {
	version cluster.Version
	model   string
	access  fragmentation.Access
	slots   slots
	adds    feature.GPUCluster
}

// Features returns the present features of the cluster, feature.Widths.Cluster of them. They are valid until the next call.
func (e *Stars) Features(nodes []*cluster.Node) []float32 {
	for i := len(nodes); i < len(e.rows); i++ {
		e.add(&e.rows[i], -1)
	}
	e.rows = resize(e.rows, len(nodes))
	for i, n := range nodes {
		if r := &e.rows[i]; !n.Unchanged(r.version) {
			e.add(r, -1)
			*r = e.row(n)
			e.add(r, 1)
		}
	}
	layout := e.layout
	e.x = feature.Fill(layout.Cluster, &e.context, resize(e.x, layout.Widths.Cluster))
	return e.x
}

// IdleShare returns the idle fraction of the devices of the cluster that Features saw last, 0 to 1.
func (e *Stars) IdleShare() float64 {
	return cluster.Fraction(e.sums.Idle, e.sums.Devices*cluster.DeviceMilli)
}

// add adds times a row to the sums.
func (e *Stars) add(r *starRow, times int64) {
	e.sums.Add(&r.adds, times)
	if r.adds.Idle == 0 {
		return
	}
	e.idle[r.model] += times * r.adds.Idle
	e.open[r.access] += times * r.adds.Idle
	for i := range e.coming.shapes {
		e.slots[i] += times * int64(r.slots[i])
	}
}

// row returns the row of a node.
func (e *Stars) row(n *cluster.Node) starRow {
	r := starRow{version: n.Version, model: n.GPUModel}
	if e.Open(n) {
		r.access = e.Access(n)
		r.adds = e.totals(n)
		r.slots = e.coming.slots(n, r.access, n.Free().MilliCPU, int(r.adds.Whole))
	}
	return r
}

// totals returns what one node that pods with GPUs may use adds to the features' sums.
func (e *Stars) totals(n *cluster.Node) (s feature.GPUCluster) {
	free := n.Free()
	s = feature.GPUCluster{
		Devices: int64(len(n.GPUs)), Unusable: int64(e.typical.Fragmentation(n)),
		CPU: max(free.MilliCPU, 0), Memory: max(free.Memory, 0), AllCPU: n.Allocatable.MilliCPU, AllMemory: n.Allocatable.Memory,
	}
	for _, used := range n.GPUs {
		room := max(cluster.DeviceMilli-used, 0)
		if s.Idle += room; used == 0 {
			s.Whole++
		} else {
			s.Shared += room
		}
	}
	return s
}
