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
	"gnnsched/workload"
)

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

func (a Attributes) validate(c *Config, bad *fault.List) {
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
