package sim

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fault"
)

// NodeSize is a kind of nodes that are drawn by weight.
type NodeSize struct {
	Weight      float64           `json:"weight"` // how often this kind is drawn, relative to the others; over 0
	Allocatable cluster.Resources `json:"allocatable"`
	Labels      map[string]string `json:"labels,omitempty"`
	Taints      []cluster.Taint   `json:"taints,omitempty"`
	Zone        string            `json:"zone,omitempty"` // empty: drawn from Config.Zones
	GPUModel    string            `json:"gpuModel,omitempty"`

	Power *cluster.PowerModel `json:"power,omitempty"` // nil: the default of package power
}

// NodePool is a group of equal nodes that exist in every episode.
type NodePool struct {
	Count       IntRange          `json:"count"` // 1 or more
	Allocatable cluster.Resources `json:"allocatable"`
	Labels      map[string]string `json:"labels,omitempty"`
	Taints      []cluster.Taint   `json:"taints,omitempty"`
	Zone        string            `json:"zone,omitempty"` // empty: drawn from Config.Zones
	GPUModel    string            `json:"gpuModel,omitempty"`

	Power *cluster.PowerModel `json:"power,omitempty"` // nil: the default of package power
}

// size returns the kind of the pool's nodes.
func (p NodePool) size() NodeSize {
	return NodeSize{Weight: 1, Allocatable: p.Allocatable, Labels: p.Labels, Taints: p.Taints, Zone: p.Zone, GPUModel: p.GPUModel,
		Power: p.Power}
}

// AAMLNode holds the default allocatable resources of a node in the simulator: 64 CPUs, 256 GiB, 110 pods.
var AAMLNode = cluster.Resources{MilliCPU: 64_000, Memory: 256 << 30, Pods: 110}

// maxNodes is the largest cluster, twice the size that Kubernetes is tested with.
const maxNodes = 10_000

// zoneLabel is the label with a node's zone, which selectors match.
const zoneLabel = "topology.kubernetes.io/zone"

func (c *Config) validateNodes(bad *fault.List) {
	least := 1
	if len(c.Pools) > 0 {
		least = 0
	}
	c.Nodes.validate("nodes", least, maxNodes, bad)
	c.SizeKinds.validate("sizeKinds", 0, len(c.Sizes), bad)
	c.Zones.validate("zones", 0, maxNodes, bad)
	bad.If(len(c.Sizes) == 0 && (c.Nodes.Max > 0 || len(c.Pools) == 0),
		"sizes: give at least one, from which nodes are drawn, or pools instead of nodes and sizes")
	for i, s := range c.Sizes {
		s.validate(fmt.Sprintf("sizes[%d]", i), bad)
	}
	most := c.Nodes.Max
	for i, p := range c.Pools {
		at := fmt.Sprintf("pools[%d]", i)
		p.Count.validate(at+".count", 1, maxNodes, bad)
		p.size().validate(at, bad)
		most += p.Count.Max
	}
	bad.If(most > maxNodes, "pools: there may be %d nodes in all, more than %d", most, maxNodes)
}

func (s NodeSize) validate(at string, bad *fault.List) {
	if a := s.Allocatable; a.MilliCPU <= 0 || a.Memory <= 0 || a.Pods <= 0 || a.GPU < 0 {
		bad.Add("%s: a node offers CPU, memory and pods, not %+v", at, a)
	}
	if a := s.Allocatable; a.GPU > cluster.MaxDevices || a.GPUMilli != 0 {
		bad.Add("%s: a node offers 0 to %d whole GPUs and no thousandths, not %d and %d", at, cluster.MaxDevices, a.GPU, a.GPUMilli)
	}
	bad.If(!(s.Weight > 0) || math.IsInf(s.Weight, 0), "%s: weight %v must be a finite number over 0", at, s.Weight)
	if s.Power != nil {
		bad.In(fmt.Sprintf("%s.power: ", at), s.Power.Validate())
	}
	for i, t := range s.Taints {
		switch t.Effect {
		case cluster.NoSchedule, cluster.PreferNoSchedule, cluster.NoExecute:
		default:
			bad.Add("%s.taints[%d]: effect %q is not NoSchedule, PreferNoSchedule or NoExecute", at, i, t.Effect)
		}
		bad.If(t.Key == "", "%s.taints[%d]: key is missing", at, i)
	}
	if z, ok := s.Labels[zoneLabel]; ok && z != s.Zone {
		bad.Add("%s: labels name the zone %q; set zone instead", at, z)
	}
}

// drawNodes draws the nodes of an episode, without any pods.
func (c *Config) drawNodes(seed uint64) []*cluster.Node {
	rng := stream(seed, streamCluster)
	d := nodeDraw{rng: rng, kinds: len(c.Shapes)}
	count := c.Nodes.draw(rng)
	d.zones = c.Zones.draw(rng)
	sizes := some(rng, c.SizeKinds, c.Sizes)
	d.nodes = make([]*cluster.Node, 0, count+1)
	if c.ControlPlane {
		offer := c.controlPlane(sizes)
		d.nodes = append(d.nodes, &cluster.Node{
			Name: "control-plane-0", Allocatable: offer, GPUs: devices(offer), Version: cluster.NextVersion(),
			Taints: []cluster.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: cluster.NoSchedule}},
		})
	}
	for range count {
		d.add(sizes[weighted(rng, sizes, func(s NodeSize) float64 { return s.Weight })])
	}
	for _, p := range c.Pools {
		size := p.size()
		for range p.Count.draw(rng) {
			d.add(size)
		}
	}
	return d.nodes
}

// controlPlane returns what the control plane's node offers: the same as the first kind of nodes.
func (c *Config) controlPlane(sizes []NodeSize) cluster.Resources {
	if len(sizes) > 0 {
		return sizes[0].Allocatable
	}
	return c.Pools[0].Allocatable
}

// devices returns the idle GPUs of a node that offers the given resources; nil if it has none.
func devices(offer cluster.Resources) []int64 {
	if offer.GPU == 0 {
		return nil
	}
	return make([]int64, offer.GPU)
}

// zoneName returns the name of a zone that nodes draw.
func zoneName(i int) string { return "zone-" + strconv.Itoa(i) }

// nodeDraw draws the nodes of a cluster.
type nodeDraw struct {
	rng   *rand.Rand
	zones int // a node without a zone of its own draws one of them
	kinds int // shapes of pods that may arrive
	made  int // nodes drawn so far
	nodes []*cluster.Node
}

func (d *nodeDraw) add(s NodeSize) {
	n := &cluster.Node{
		Name: "node-" + strconv.Itoa(d.made), Version: cluster.NextVersion(),
		Allocatable: s.Allocatable, Zone: s.Zone, Labels: s.Labels, Taints: s.Taints,
		Groups: make([]cluster.Group, 0, d.kinds), GPUModel: s.GPUModel, GPUs: devices(s.Allocatable), Power: s.Power,
	}
	if n.Zone == "" && d.zones > 0 {
		n.Zone = zoneName(d.rng.IntN(d.zones))
	}
	if n.Zone != "" {
		labels := make(map[string]string, len(s.Labels)+1)
		maps.Copy(labels, s.Labels)
		labels[zoneLabel] = n.Zone
		n.Labels = labels
	}
	d.made++
	d.nodes = append(d.nodes, n)
}

// copyNodes returns copies of nodes, in the memory of older copies. Labels and taints are shared.
func copyNodes(old, nodes []*cluster.Node) []*cluster.Node {
	out := slices.Grow(old[:0], len(nodes))[:len(nodes)]
	for i, n := range nodes {
		if out[i] == nil {
			out[i] = &cluster.Node{}
		}
		groups, gpus, used := out[i].Groups, out[i].GPUs, out[i].Slices
		*out[i] = *n
		out[i].Groups = append(groups[:0], n.Groups...)
		if n.GPUs != nil {
			out[i].GPUs = append(gpus[:0], n.GPUs...)
		}
		if n.Slices != nil {
			out[i].Slices = append(used[:0], n.Slices...)
		}
	}
	return out
}

// lossAt returns after how many arrivals nodes are lost.
func (a *arrivalList) lossAt() int {
	if a.fill > 0 {
		return a.fill
	}
	return len(a.pods) / 2
}

// drawLost draws the nodes that are lost, by row: the fraction Lose of the available ones, rounded,
// but at least one is lost and at least one stays.
func (c *Config) drawLost(seed uint64, nodes []*cluster.Node) []bool {
	lost := make([]bool, len(nodes))
	var rows []int
	for i, n := range nodes {
		if n.Available() {
			rows = append(rows, i)
		}
	}
	count := max(int(math.Round(c.Lose*float64(len(rows)))), 1)
	rng := stream(seed, streamLoss)
	for _, i := range rng.Perm(len(rows))[:max(min(count, len(rows)-1), 0)] {
		lost[rows[i]] = true
	}
	return lost
}

// loseNodes removes nodes when it is time to, and reports whether it did. Their pods wait again.
func (e *Env) loseNodes() bool {
	if e.lost || e.cfg.Lose == 0 || e.clock < e.arrivals.lossAt() {
		return false
	}
	e.lost = true
	lost := e.cfg.drawLost(e.seed, e.snapshot.Nodes)
	newRow := make([]int32, len(lost)) // by old row; -1 if the node is lost
	var nodes []*cluster.Node
	for i, n := range e.snapshot.Nodes {
		newRow[i] = -1
		if !lost[i] {
			newRow[i] = int32(len(nodes))
			nodes = append(nodes, n)
		}
	}
	e.snapshot.Nodes = nodes
	e.evict(newRow)
	e.track()
	return true
}

// evict moves pods to the new rows of their nodes. Pods whose node is lost wait.
func (e *Env) evict(newRow []int32) {
	for pod, from := range e.on {
		if from < 0 {
			continue
		}
		if e.on[pod] = newRow[from]; newRow[from] < 0 {
			e.placed--
			e.evicted++
			e.waiting = append(e.waiting, int32(pod))
		}
	}
	slices.Sort(e.waiting)
	e.at = 0
	stay := slices.Clone(e.running)
	e.running = e.running[:0]
	for _, d := range stay {
		if e.on[d.pod] >= 0 {
			e.running.push(d)
		}
	}
}
