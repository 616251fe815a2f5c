package sim

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/workload"
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

func (c *Config) validateNodes(bad *exit.Faults) {
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

func (s NodeSize) validate(at string, bad *exit.Faults) {
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

// Attributes makes each episode draw its own pools of nodes and its own kinds of pods. Pools have or lack attributes, such as a local disk,
// much memory or a licence, and pools with several are rare. Some kinds of pods need one or two of them, by a node selector, and
// tolerations where the attribute is a taint as well. The pods that need a pool's attributes request a share of the pool, and those that
// need none what is left of all pools without a taint.
type Attributes struct {
	Count IntRange `json:"count"` // attributes; at most maxAttributes
	Pools IntRange `json:"pools"` // pools, at least 2; the first has no attribute
	Plain IntRange `json:"plain"` // kinds of pods that need no attribute, at least 1
	Needy IntRange `json:"needy"` // kinds of pods that need one or two
	// Drift is the standard deviation of the logarithm by which a kind's share of the pods changes from one fill to the next. With it a kind
	// of pods stops coming, or comes again, with a probability of dropped at each fill.
	Drift float64 `json:"drift,omitempty"`
	// Affinity is the probability with which a kind of pods says by required node affinity where it may run. Pools then have a family and a
	// generation too. Kinds that need attributes name these instead, by In, NotIn and Gt; the others leave out a family.
	Affinity float64 `json:"affinity,omitempty"`
}

const (
	maxAttributes = 8
	dropped       = 0.15
	tainted       = 0.2 // of the attributes
)

func (a Attributes) validate(c *Config, bad *exit.Faults) {
	a.Count.validate("attributes.count", 1, maxAttributes, bad)
	a.Pools.validate("attributes.pools", 2, 64, bad)
	a.Plain.validate("attributes.plain", 1, 32, bad)
	a.Needy.validate("attributes.needy", 0, 32, bad)
	bad.If(!(a.Drift >= 0 && a.Drift <= 3), "attributes.drift: %v is not between 0 and 3", a.Drift)
	bad.If(!(a.Affinity >= 0 && a.Affinity <= 1), "attributes.affinity: %v is not between 0 and 1", a.Affinity)
	bad.If(len(c.Sizes)+len(c.Pools)+len(c.Shapes) > 0 || c.Requests != nil || c.SizeKinds != (IntRange{}) || c.ShapeKinds != (IntRange{}),
		"attributes: draws pools and kinds of pods, so sizes, pools and shapes must be left out")
	c.Nodes.validate("nodes", 2*a.Pools.Max, maxNodes, bad)
}

// draw returns the configuration of an episode, with pools and shapes, and a load and replicas that are drawn.
func (a Attributes) draw(c Config, seed uint64) Config {
	rng := stream(seed, streamAttributes)
	taint := make([]bool, a.Count.draw(rng))
	for i := range taint {
		taint[i] = rng.Float64() < tainted
	}
	// The logarithm of the number of nodes is uniform, so that small clusters are as common as large ones.
	nodes := int(float64(c.Nodes.Min) * math.Pow(float64(c.Nodes.Max)/float64(c.Nodes.Min), rng.Float64()))
	c.Pools = a.drawPools(rng, taint, nodes)
	admitAll(c.Pools)
	var open float64
	c.Shapes, open = a.drawShapes(rng, taint, c.Pools)
	a.drawAffinity(stream(seed, streamAffinity), c.Pools, c.Shapes)
	c.Load = FloatRange{c.Load.Min * open, c.Load.Max * open} // which is of the nodes without taints
	c.Nodes, c.Attributes = IntRange{}, nil
	switch most := c.Replicas.Max; rng.IntN(3) {
	case 0:
		c.Replicas = IntRange{1, 1}
	case 1:
		c.Replicas = IntRange{1, min(3, most)}
	default:
		c.Replicas = IntRange{min(3, most), most}
	}
	c.Drift = a.Drift
	return c
}

// admitAll takes the taints off large pools, so that most cores are on nodes that admit every pod.
func admitAll(pools []NodePool) {
	var free float64
	for _, p := range pools {
		if len(p.Taints) == 0 {
			free += cores(p)
		}
	}
	for i := range pools {
		if p := &pools[i]; cores(*p) > free/2 {
			p.Taints = nil
		}
	}
}

// attribute names an attribute, a letter each.
func attribute(i int) string { return "example.com/" + string(rune('a'+i)) }

func (a Attributes) drawPools(rng *rand.Rand, taint []bool, nodes int) []NodePool {
	pools := make([]NodePool, a.Pools.draw(rng))
	share, sum := make([]float64, len(pools)), 0.
	for i := range pools {
		share[i] = rng.ExpFloat64() + 0.1
		cpu := []int64{16, 32, 48, 64, 96}[rng.IntN(5)]
		memory := cpu * []int64{2, 4, 4, 8}[rng.IntN(4)]
		pools[i].Allocatable = cluster.Resources{MilliCPU: 1000 * cpu, Memory: memory << 30, Pods: 110}
		if i == 0 {
			share[i] *= 2
		} else {
			has := rng.IntN(len(taint)) // at least this one
			pools[i].Labels = map[string]string{}
			for k := range taint {
				if k != has && rng.Float64() > 0.35 {
					continue
				}
				pools[i].Labels[attribute(k)] = "yes"
				if taint[k] {
					pools[i].Taints = append(pools[i].Taints, cluster.Taint{Key: attribute(k), Value: "yes", Effect: cluster.NoSchedule})
				}
			}
			share[i] /= float64(len(pools[i].Labels))
		}
		sum += share[i]
	}
	for i := range pools {
		pools[i].Count = Exactly(max(int(math.Round(share[i]/sum*float64(nodes))), 1))
	}
	return pools
}

// drawShapes draws the kinds of pods. Weights are numbers of pods. open is the cores for which there is demand, over those of nodes without
// taints.
func (a Attributes) drawShapes(rng *rand.Rand, taint []bool, pools []NodePool) (shapes []workload.Shape, open float64) {
	smallest := pools[0].Allocatable
	left := make([]float64, len(pools)) // cores that no kind asks for yet
	for i, p := range pools {
		left[i] = cores(p)
		smallest.MilliCPU, smallest.Memory = min(smallest.MilliCPU, p.Allocatable.MilliCPU), min(smallest.Memory, p.Allocatable.Memory)
	}
	// Each pool is shared between kinds that need what it has, and plain ones.
	needy := make([]int, len(pools)) // kinds that are drawn for the pool
	first := make([]int, a.Needy.draw(rng))
	for i := range first {
		first[i] = 1 + rng.IntN(len(pools)-1)
		needy[first[i]]++
	}
	for i, at := range first {
		pool := &pools[at]
		s := drawRequests(rng, fmt.Sprintf("needy-%d", i), pool.Allocatable)
		needOf(rng, taint, pool, &s)
		part := cores(*pool) * (0.3 + 0.65*rng.Float64()) / float64(needy[at])
		if len(pool.Taints) > 0 {
			part = cores(*pool) / float64(needy[at])
		}
		left[at] -= part
		s.Weight = part / float64(s.Requests.MilliCPU)
		shapes = append(shapes, s)
	}
	var rest, free, all float64
	for i, p := range pools {
		if len(p.Taints) == 0 {
			rest += max(left[i], 0)
			free += cores(p)
		} else if needy[i] == 0 {
			all -= cores(p)
		}
		all += cores(p)
	}
	plain := a.Plain.draw(rng)
	for i := range plain {
		s := drawRequests(rng, fmt.Sprintf("plain-%d", i), smallest)
		s.Weight = rest / float64(plain) * (0.5 + rng.Float64()) / float64(s.Requests.MilliCPU)
		shapes = append(shapes, s)
	}
	return shapes, all / free
}

// drawRequests draws a kind of pods that request at most half of what a node offers.
func drawRequests(rng *rand.Rand, name string, offer cluster.Resources) workload.Shape {
	cpu := []int64{250, 500, 1000, 1000, 2000, 2000, 4000, 8000}[rng.IntN(8)]
	memory := cpu * []int64{1, 2, 4, 4, 8}[rng.IntN(5)] << 30 / 1000
	r := cluster.Resources{MilliCPU: min(cpu, offer.MilliCPU/2), Memory: min(memory, offer.Memory/2), Pods: 1}
	return workload.Shape{Name: name, Requests: r}
}

// needOf lets pods need one or two of the attributes that a pool has. They tolerate all that taint it.
func needOf(rng *rand.Rand, taint []bool, pool *NodePool, s *workload.Shape) {
	s.NodeSelector = map[string]string{}
	for k := range taint {
		if pool.Labels[attribute(k)] == "" {
			continue
		}
		if len(s.NodeSelector) < 2 && (len(s.NodeSelector) == 0 || rng.Float64() < 0.5) {
			s.NodeSelector[attribute(k)] = "yes"
		}
		if taint[k] {
			s.Tolerations = append(s.Tolerations, cluster.Toleration{Key: attribute(k), Exists: true})
		}
	}
}

const (
	familyLabel     = "example.com/family"
	generationLabel = "example.com/generation"
	generations     = 5
)

var families = []string{"c", "m", "r"}

// drawAffinity labels pools with a family and a generation, and draws for some kinds of pods which of these they may run on: at least those
// of one pool that admits them and has nodes that are large enough.
func (a Attributes) drawAffinity(rng *rand.Rand, pools []NodePool, shapes []workload.Shape) {
	if a.Affinity == 0 {
		return
	}
	for i := range pools {
		labels := map[string]string{
			familyLabel: families[rng.IntN(len(families))], generationLabel: strconv.Itoa(1 + rng.IntN(generations)),
		}
		maps.Copy(labels, pools[i].Labels)
		pools[i].Labels = labels
	}
	for i := range shapes {
		s := &shapes[i]
		if rng.Float64() >= a.Affinity {
			continue
		}
		var homes []NodePool
		for _, p := range pools {
			n, pod := cluster.Node{Labels: p.Labels, Taints: p.Taints, Allocatable: p.Allocatable}, podOf(s)
			if n.Fit(&pod) == cluster.Fits {
				homes = append(homes, p)
			}
		}
		home := homes[rng.IntN(len(homes))].Labels
		if len(s.NodeSelector) == 0 {
			s.NodeAffinity = [][]cluster.Requirement{{notIn(rng, home)}}
			continue
		}
		s.NodeSelector = nil
		for more := true; more; more = len(s.NodeAffinity) < 2 && rng.Float64() < 0.2 {
			s.NodeAffinity = append(s.NodeAffinity, drawTerm(rng, home))
		}
	}
}

// drawTerm draws one or two requirements that a node with the labels of home meets.
func drawTerm(rng *rand.Rand, home map[string]string) (term []cluster.Requirement) {
	for more := true; more; more = len(term) < 2 && rng.Float64() < 0.3 {
		switch rng.IntN(3) {
		case 0:
			in := []string{home[familyLabel]}
			if other := families[rng.IntN(len(families))]; other != in[0] {
				in = append(in, other)
			}
			term = append(term, cluster.Requirement{Key: familyLabel, Operator: "In", Values: in})
		case 1:
			term = append(term, notIn(rng, home))
		default:
			generation, _ := strconv.Atoi(home[generationLabel]) // drawAffinity has written it
			least := strconv.Itoa(max(generation-1-rng.IntN(2), 0))
			term = append(term, cluster.Requirement{Key: generationLabel, Operator: "Gt", Values: []string{least}})
		}
	}
	return term
}

// notIn draws a family other than that of home to be left out.
func notIn(rng *rand.Rand, home map[string]string) cluster.Requirement {
	others := slices.DeleteFunc(slices.Clone(families), func(f string) bool { return f == home[familyLabel] })
	return cluster.Requirement{Key: familyLabel, Operator: "NotIn", Values: []string{others[rng.IntN(len(others))]}}
}

func cores(p NodePool) float64 { return float64(int64(p.Count.Min) * p.Allocatable.MilliCPU) }

// drifted returns the shapes of a fill, counted from 0, whose weights differ from those of the fill before.
func drifted(seed uint64, shapes []workload.Shape, fill int, by float64) []workload.Shape {
	out := append([]workload.Shape(nil), shapes...)
	for f := 1; f <= fill; f++ {
		rng := rand.New(rand.NewPCG(seed, streamDrift<<32+uint64(f)))
		for i := range out {
			x := out[i].Weight * math.Exp(by*rng.NormFloat64()-by*by/2)
			if rng.Float64() < dropped {
				if out[i].Weight < shapes[i].Weight/100 {
					x = shapes[i].Weight
				} else {
					x = shapes[i].Weight / 1000
				}
			}
			out[i].Weight = x
		}
	}
	return out
}
