package state

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unique"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/cards"
)

// Card is a GPU of a node with those who have it.
type Card struct {
	Name       string // in its ResourceSlice; empty for a device that only the node's capacity counts
	Partitions bool   // partitions share it, as with MIG
	Milli      int64  // thousandths that are requested
	Unnamed    int64  // of these, what pods request that name no device
	Parts      []Part // by pod and device
}

// Part is the share of a card that one pod or claim has.
type Part struct {
	Pod    string `json:"pod,omitempty"`    // NAMESPACE/NAME; empty for a claim that no pod on the node has
	Claim  string `json:"claim,omitempty"`  // empty for a pod whose annotation names the card
	Device string `json:"device,omitempty"` // allocated to the claim: the card, or a partition of it
	Milli  int64  `json:"gpu"`              // thousandths of the card; pods that share a claim all have its whole amount
}

// cardsOf returns the GPUs of a node in their order; nil if there are none.
func (c *Cluster) cardsOf(node string) []Card {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.nodes[node]; s != nil {
		return c.cards(map[string]*nodeSum{node: s})[node]
	}
	return nil
}

// cards returns the GPUs of some nodes.
func (c *Cluster) cards(nodes map[string]*nodeSum) map[string][]Card {
	c.devices.count()
	out := map[string][]Card{}
	for name, s := range nodes {
		if !s.known {
			continue
		}
		n, set, used := s.Node, c.devices.cards[name], c.devices.used[name]
		c.devices.show(&n, s.named, s.unnamed)
		for i, milli := range n.Devices {
			x := Card{Milli: milli, Unnamed: milli}
			if set != nil && i < len(set.Cards) {
				x.Name, x.Partitions = Printable(set.Cards[i].Name), set.Cards[i].Counters != nil
			}
			if i < len(s.named) {
				x.Unnamed -= s.named[i]
			}
			if i < len(used) {
				x.Unnamed -= used[i]
			}
			out[name] = append(out[name], x)
		}
	}
	c.addParts(out)
	for _, list := range out {
		for i := range list {
			slices.SortFunc(list[i].Parts, func(a, b Part) int {
				return cmp.Or(CompareNatural(a.Pod, b.Pod), CompareNatural(a.Device, b.Device), strings.Compare(a.Claim, b.Claim))
			})
		}
	}
	return out
}

// addParts adds what pods have of the nodes' cards by annotations and by claims.
func (c *Cluster) addParts(of map[string][]Card) {
	add := func(node string, card int, p Part) {
		if card < len(of[node]) {
			of[node][card].Parts = append(of[node][card].Parts, p)
		}
	}
	type claimed struct {
		claim podKey
		node  string
	}
	holders := map[claimed][]string{} // of each claim, the pods on the node
	for k, p := range c.pods {
		if p.node == nil || of[p.node.Name] == nil {
			continue
		}
		name := k.namespace.Value() + "/" + k.name
		for i := range cluster.MaxDevices {
			if p.devices.Has(i) {
				add(p.node.Name, i, Part{Pod: name, Milli: p.gpu / int64(p.devices.Len())})
			}
		}
		for _, claim := range p.claims {
			key := claimed{podKey{k.namespace, claim}, p.node.Name}
			holders[key] = append(holders[key], name)
		}
	}
	for k, x := range c.devices.claims {
		for i := range x.Results {
			node, card, milli := c.devices.taken(&x.Results[i])
			if of[node] == nil || milli == 0 {
				continue
			}
			pods := holders[claimed{k, node}]
			if len(pods) == 0 {
				pods = []string{""}
			}
			for _, pod := range pods {
				add(node, card, Part{
					Pod: pod, Claim: Printable(k.namespace.Value() + "/" + k.name), Device: Printable(x.Results[i].Device), Milli: milli,
				})
			}
		}
	}
}

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

// Cores writes millicores as cores: "0.25", "12.8", "640".
func Cores(milli int64) string { return short(float64(milli) / 1000) }

// Devices writes thousandths of GPUs as devices, to a hundredth: "0.19", "6.5", "96".
func Devices(milli int64) string {
	s := strconv.FormatFloat(float64(milli)/cluster.DeviceMilli, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// DevicePercent writes thousandths of one device as a percentage without its sign. Only an idle device
// has 0, and only a full one 100.
func DevicePercent(milli int64) string {
	percent := milli / (cluster.DeviceMilli / 100)
	if milli > 0 {
		percent = max(percent, 1)
	}
	return strconv.FormatInt(percent, 10)
}

// Bytes writes bytes with a binary unit: "512Mi", "51.2Gi".
func Bytes(b int64) string {
	v, units := float64(b), []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
	for len(units) > 1 && math.Abs(v) >= 1024 {
		v, units = v/1024, units[1:]
	}
	return short(v) + units[0]
}

// Percent writes a fraction as whole percent: "20%".
func Percent(f float64) string { return strconv.FormatFloat(math.Round(f*100), 'f', 0, 64) + "%" }

// Rate writes events per second: "12.3".
func Rate(perSecond float64) string {
	if perSecond >= 100 {
		return strconv.FormatFloat(perSecond, 'f', 0, 64)
	}
	return strconv.FormatFloat(perSecond, 'f', 1, 64)
}

// Age writes the time from t to now in kubectl's format; "<unknown>" for the zero time.
func Age(now, t time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(max(now.Sub(t), 0))
}

// short writes v with three significant digits, or more if the integer part has more, and drops
// trailing zeros after the point.
func short(v float64) string {
	prec := 2
	switch a := math.Abs(v); {
	case a >= 99.95:
		prec = 0
	case a >= 9.995:
		prec = 1
	}
	s := strconv.FormatFloat(v, 'f', prec, 64)
	if prec > 0 {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" || s == "" {
		return "0"
	}
	return s
}

// CompareNatural compares texts, and numbers in them by value, so that node-2 comes before
// node-10. It compares texts that differ only in leading zeros byte by byte, so that only equal
// texts give 0.
func CompareNatural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		nx, ny := digits(x), digits(y)
		if nx > 0 && ny > 0 {
			if c := compareNumbers(x[:nx], y[:ny]); c != 0 {
				return c
			}
			x, y = x[nx:], y[ny:]
			continue
		}
		if x[0] != y[0] {
			return cmp.Compare(x[0], y[0])
		}
		x, y = x[1:], y[1:]
	}
	if c := cmp.Compare(len(x), len(y)); c != 0 {
		return c
	}
	return cmp.Compare(a, b)
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

func compareNumbers(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if c := cmp.Compare(len(a), len(b)); c != 0 {
		return c
	}
	return cmp.Compare(a, b)
}
