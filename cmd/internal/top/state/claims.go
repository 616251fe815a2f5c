package state

import (
	"cmp"
	"slices"
	"unique"

	resourceapi "k8s.io/api/resource/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/cards"
)

// Claim holds the devices allocated to a ResourceClaim.
type Claim struct {
	Namespace, Name string
	Results         []resourceapi.DeviceRequestAllocationResult // nil without an allocation
}

// claimOf converts an API claim.
func claimOf(c *resourceapi.ResourceClaim) Claim {
	out := Claim{Namespace: c.Namespace, Name: c.Name}
	if c.Status.Allocation != nil {
		out.Results = c.Status.Allocation.Devices.Results
	}
	return out
}

// Held is a device that a pod has by a claim.
type Held struct {
	Claim, Device string
	Milli         int64 // thousandths of its card
}

// devices holds the ResourceSlices and the ResourceClaims of a cluster.
type devices struct {
	slices map[string]*resourceapi.ResourceSlice
	claims map[podKey]Claim

	// The rest is made from them when it is needed; all nil after a change.
	cards map[string]*cards.Set // by node
	nodes map[pool]string
	used  map[string][]int64 // thousandths of each card that claims hold, by node
}

// pool identifies a pool of devices.
type pool struct{ driver, name string }

func newDevices() devices {
	return devices{slices: map[string]*resourceapi.ResourceSlice{}, claims: map[podKey]Claim{}}
}

// SetSlice adds or changes a ResourceSlice. The caller must not change it afterwards.
func (c *Cluster) SetSlice(s *resourceapi.ResourceSlice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.devices.slices[s.Name] = s
	c.devices.cards = nil
}

// deleteSlice removes a ResourceSlice.
func (c *Cluster) deleteSlice(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.devices.slices, name)
	c.devices.cards = nil
}

// replaceSlices makes the given ResourceSlices the only ones.
func (c *Cluster) replaceSlices(all []*resourceapi.ResourceSlice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.devices.slices)
	for _, s := range all {
		c.devices.slices[s.Name] = s
	}
	c.devices.cards = nil
}

// SetClaim adds or changes a claim.
func (c *Cluster) SetClaim(x Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.devices.claims[podKey{unique.Make(x.Namespace), x.Name}] = x
	c.devices.used = nil
}

// deleteClaim removes a claim.
func (c *Cluster) deleteClaim(namespace, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.devices.claims, podKey{unique.Make(namespace), name})
	c.devices.used = nil
}

// replaceClaims makes the given claims the only ones.
func (c *Cluster) replaceClaims(all []Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.devices.claims)
	for _, x := range all {
		c.devices.claims[podKey{unique.Make(x.Namespace), x.Name}] = x
	}
	c.devices.used = nil
}

// count brings cards, nodes and used up to date.
func (d *devices) count() {
	if d.cards == nil {
		d.read()
		d.used = nil
	}
	if d.used != nil {
		return
	}
	d.used = map[string][]int64{}
	for _, x := range d.claims {
		for i := range x.Results {
			node, card, milli := d.taken(&x.Results[i])
			if milli == 0 {
				continue
			}
			if d.used[node] == nil {
				d.used[node] = make([]int64, len(d.cards[node].Cards))
			}
			d.used[node][card] += milli
		}
	}
}

// read reads the cards of all nodes.
func (d *devices) read() {
	byNode := map[string][]*resourceapi.ResourceSlice{}
	d.cards, d.nodes = map[string]*cards.Set{}, map[pool]string{}
	for _, s := range d.slices {
		if cards.OfNode(s) {
			byNode[*s.Spec.NodeName] = append(byNode[*s.Spec.NodeName], s)
			d.nodes[pool{s.Spec.Driver, s.Spec.Pool.Name}] = *s.Spec.NodeName
		}
	}
	for name, in := range byNode {
		slices.SortFunc(in, cards.Compare)
		if set := cards.Read(in); set != nil {
			d.cards[name] = set
		}
	}
}

// taken returns the node and the card of a device that was given to a claim, and how many thousandths of the card
// are taken; 0 if the device is not known.
func (d *devices) taken(r *resourceapi.DeviceRequestAllocationResult) (node string, card int, milli int64) {
	node = d.nodes[pool{r.Driver, r.Pool}]
	if set := d.cards[node]; set != nil {
		card, milli = set.Taken(r)
	}
	return node, card, milli
}

// held returns the devices that a pod has by its claims, in the order of its claims.
func (d *devices) held(namespace unique.Handle[string], names []string) (out []Held) {
	for _, name := range names {
		results := d.claims[podKey{namespace, name}].Results
		for i := range results {
			if _, _, milli := d.taken(&results[i]); milli > 0 {
				out = append(out, Held{Claim: Printable(name), Device: Printable(results[i].Device), Milli: milli})
			}
		}
	}
	return out
}

// show adds the cards of a node's slices, and the parts that claims hold, to the node of a frame. named and unnamed are other pods'
// requests for the devices.
func (d *devices) show(n *Node, named []int64, unnamed int64) {
	set, used := d.cards[n.Name], d.used[n.Name]
	if set == nil {
		n.Devices = spreadOver(n.Devices, named, nil, unnamed)
		return
	}
	if more := len(set.Cards) - len(n.Devices); more > 0 {
		n.GPU.Allocatable += int64(more) * cluster.DeviceMilli
		n.Devices = make([]int64, len(set.Cards))
	}
	n.GPUModel = cmp.Or(n.GPUModel, Printable(set.Product))
	for _, milli := range used {
		n.GPU.Requested += milli
	}
	n.Devices = spreadOver(n.Devices, named, used, unnamed)
}

// spreadOver returns the requested thousandths of each device: named plus claimed, and left put on idle devices first. It returns nil for
// no devices.
func spreadOver(of, named, claimed []int64, left int64) []int64 {
	if of == nil {
		return nil
	}
	out := make([]int64, len(of))
	copy(out, named)
	for i, milli := range claimed {
		out[i] += milli
	}
	fill := func(fits func(used int64) bool) {
		for i, used := range out {
			if fits(used) {
				n := min(left, cluster.DeviceMilli-used)
				out[i], left = used+n, left-n
			}
		}
	}
	fill(func(used int64) bool { return used == 0 })
	fill(func(used int64) bool { return used < cluster.DeviceMilli })
	return out
}
