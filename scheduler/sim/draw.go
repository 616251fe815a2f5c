package sim

import (
	"encoding/json"
	"math/rand/v2"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/exit"
	"gnnsched/internal/fragmentation"
	"gnnsched/workload"
)

// The parts of an episode are drawn from separate streams of random numbers, so that a change to
// one part leaves the others unchanged.
const (
	streamCluster = 1 + iota
	streamInitial
	streamWorkload
	streamLifetimes
	streamArrivals
	streamLoss
	streamUsage
	streamTraffic
	streamAttributes
	streamDrift
	streamAffinity
)

// stream returns the source of a stream. The generator of package workload uses the same seed with
// small stream numbers; these are far from them.
func stream(seed, n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n<<32)) }

// source says where the nodes and pods of episodes come from: they are drawn, or those of a trace, of the openb trace or of a
// program.
type source interface {
	// nodes returns the nodes of a seed's episode.
	nodes(seed uint64) []*cluster.Node
	// arrivals returns the pods of a seed's episode, which begins with the given nodes.
	arrivals(seed uint64, nodes []*cluster.Node) (arrivalList, error)
	// demand returns what pods request, counted by how often they arrive, and by how long they run; nil if that is not known.
	demand() (arriving, running []fragmentation.Demand)
	// fixed reports whether every seed has the same arrivals.
	fixed() bool
}

// source returns the source of the configuration's nodes and pods, and reads its files.
func (c Config) source() (source, error) {
	switch {
	case c.Given != nil:
		return c.Given, nil
	case c.OpenB != nil:
		return c.OpenB.read()
	case c.Trace != nil:
		return c.readTrace()
	}
	return &drawn{c}, nil
}

// drawn draws nodes, and deployments of the configuration's shapes.
type drawn struct{ Config }

// shapes draws the shapes of an episode and the load of its fill.
func (d *drawn) shapes(seed uint64) ([]workload.Shape, float64) {
	rng := stream(seed, streamWorkload)
	shapes := some(rng, d.ShapeKinds, d.Shapes)
	return shapes, d.Load.draw(rng)
}

// of returns the configuration of an episode.
func (d *drawn) of(seed uint64) *drawn {
	if d.Attributes == nil {
		return d
	}
	return &drawn{d.Attributes.draw(d.Config, seed)}
}

func (d *drawn) nodes(seed uint64) []*cluster.Node {
	d = d.of(seed)
	nodes := d.drawNodes(seed)
	shapes, _ := d.shapes(seed)
	d.drawInitial(seed, nodes, shapes)
	return nodes
}

func (d *drawn) arrivals(seed uint64, nodes []*cluster.Node) (arrivalList, error) {
	d = d.of(seed)
	shapes, load := d.shapes(seed)
	return d.drawArrivals(seed, nodes, shapes, load)
}

func (d *drawn) demand() (arriving, running []fragmentation.Demand) {
	return each.Map(d.Shapes, func(s workload.Shape) fragmentation.Demand { return demandOf(s, s.Weight) }), nil
}

func (*drawn) fixed() bool { return false }

func demandOf(s workload.Shape, count float64) fragmentation.Demand {
	return fragmentation.Demand{Requests: s.Requests, Models: s.GPUModels, Tolerations: s.Tolerations, Count: count}
}

// Given is the nodes and pods of a program.
type Given struct {
	Nodes  []*cluster.Node             // idle; an episode begins with copies
	Pods   func(seed uint64) []Arrival `json:"-"` // by ascending time; pods that share a cluster.Pod are alike
	WarmUp float64                     // time from which PartitionOutcome counts
	End    float64                     // of the episode; with the last arrival if that is later
	Loads  []float64                   // of PartitionOutcome.Loads, over the compute slices; ascending

	Typical []fragmentation.Demand // what pods request; the running pods request the same if they Leave
	Leave   bool                   // pods leave
}

func (g *Given) nodes(uint64) []*cluster.Node { return copyNodes(nil, g.Nodes) }

func (g *Given) arrivals(seed uint64, _ []*cluster.Node) (arrivalList, error) {
	a := arrivalList{exact: true, end: g.End}
	numbers := numbering[*cluster.Pod]{}
	for _, x := range g.Pods(seed) {
		d := numbers.of(x.Pod)
		if int(d) == len(a.deployments) {
			a.shapes = append(a.shapes, d)
			a.deployments = append(a.deployments, deployment{pod: *x.Pod, shape: d, replicas: 1, usage: x.Usage})
		}
		a.pods, a.at, a.lifetime = append(a.pods, d), append(a.at, x.At), append(a.lifetime, x.Lifetime)
	}
	return a, nil
}

func (g *Given) demand() (arriving, running []fragmentation.Demand) {
	if g.Leave {
		return g.Typical, g.Typical
	}
	return g.Typical, nil
}

func (*Given) fixed() bool { return false }

// some draws elements of list and keeps their order. Their number is drawn from kinds; a zero kinds
// means all.
func some[T any](rng *rand.Rand, kinds IntRange, list []T) []T {
	if kinds == (IntRange{}) {
		return list
	}
	rows := rng.Perm(len(list))[:kinds.draw(rng)]
	slices.Sort(rows)
	return each.Map(rows, func(r int) T { return list[r] })
}

// weighted draws an index with probabilities proportional to weight.
func weighted[T any](rng *rand.Rand, list []T, weight func(T) float64) int {
	total := each.Sum(list, weight)
	at := rng.Float64() * total
	for i, x := range list {
		if at -= weight(x); at < 0 {
			return i
		}
	}
	return len(list) - 1
}

// drawInitial puts pods on the nodes that run for the whole episode.
func (c *Config) drawInitial(seed uint64, nodes []*cluster.Node, shapes []workload.Shape) {
	if c.Initial == 0 {
		return
	}
	rng := stream(seed, streamInitial)
	for _, n := range nodes {
		upTo := rng.Float64() * c.Initial
		for misses := 0; misses < 3; {
			s := c.drawShape(rng, shapes)
			with := workload.LoadOf(n.Requested.Plus(s.Requests), n.Allocatable)
			p := podOf(&s)
			if max(with.CPU, with.Memory, with.Pods) > upTo || n.Fit(&p) != cluster.Fits {
				misses++
				continue
			}
			n.Add(s.Requests)
		}
	}
}

// podOf returns a pod of a shape, without names.
func podOf(s *workload.Shape) cluster.Pod {
	return cluster.Pod{
		Requests: s.Requests, NodeSelector: s.NodeSelector, NodeAffinity: s.NodeAffinity, Tolerations: s.Tolerations, GPUModels: s.GPUModels,
	}
}

func (c *Config) drawShape(rng *rand.Rand, shapes []workload.Shape) workload.Shape {
	if c.Requests != nil {
		return c.Requests.Draw(rng)
	}
	return shapes[weighted(rng, shapes, func(s workload.Shape) float64 { return s.Weight })]
}

// IntRange is an interval that includes both ends. The zero value means unset. In JSON it is
// {"min": 4, "max": 32}, or a number for an interval of one value.
type IntRange struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// Exactly returns the range that holds only n.
func Exactly(n int) IntRange { return IntRange{n, n} }

// UnmarshalJSON implements json.Unmarshaler.
func (r *IntRange) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &r.Min) == nil {
		r.Max = r.Min
		return nil
	}
	type fields IntRange
	return cluster.DecodeStrict(b, (*fields)(r))
}

func (r IntRange) draw(rng *rand.Rand) int { return r.Min + rng.IntN(r.Max-r.Min+1) }

func (r IntRange) validate(field string, least, most int, bad *exit.Faults) {
	bad.If(r.Min < least || r.Max > most || r.Min > r.Max, "%s: %d to %d is no range within %d to %d", field, r.Min, r.Max, least, most)
}

// FloatRange is an interval of fractions. Its JSON form is like that of IntRange.
type FloatRange struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *FloatRange) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &r.Min) == nil {
		r.Max = r.Min
		return nil
	}
	type fields FloatRange
	return cluster.DecodeStrict(b, (*fields)(r))
}

func (r FloatRange) draw(rng *rand.Rand) float64 { return r.Min + rng.Float64()*(r.Max-r.Min) }

// Variation makes each episode draw a network and a matrix of its own, so that what learns on them learns about networks and not about
// one of them. Each is a range of factors; zero: 1. With any of them, an episode whose nodes share a zone has no hop between zones, so
// its farthest path is between racks.
type Variation struct {
	Bandwidth FloatRange `json:"bandwidth,omitzero"` // of each kind of link
	Latency   FloatRange `json:"latency,omitzero"`   // of each kind of hop, and of its price
	Rate      FloatRange `json:"rate,omitzero"`      // of each flow
}

// maxFactor is the largest factor of a Variation.
const maxFactor = 100

func (v Variation) validate(l cluster.Links, bad *exit.Faults) {
	for _, x := range []struct {
		field string
		FloatRange
	}{{"bandwidth", v.Bandwidth}, {"latency", v.Latency}, {"rate", v.Rate}} {
		bad.If(x.FloatRange != (FloatRange{}) && !(x.Min >= 1./maxFactor && x.Max >= x.Min && x.Max <= maxFactor),
			"traffic.vary.%s: %v to %v is no range of factors within %v to %v", x.field, x.Min, x.Max, 1./maxFactor, maxFactor)
	}
	l.Zone, l.Between = cluster.Hop{}, nil
	bad.If(v != (Variation{}) && l.Validate(nil) != nil,
		"traffic.vary: without the hop between zones all distances are 0; give node or rack one")
}

// draw returns the traffic of an episode, with one value in each range.
func (c Traffic) draw(seed uint64, nodes []*cluster.Node) Traffic {
	rng := stream(seed, streamTraffic)
	c.Apps, c.Racks = Exactly(c.Apps.draw(rng)), Exactly(c.Racks.draw(rng))
	v := c.Vary
	if v == (Variation{}) {
		return c
	}
	factor := func(r FloatRange) float64 {
		if r == (FloatRange{}) {
			return 1
		}
		return r.draw(rng)
	}
	l := &c.Network
	if !slices.ContainsFunc(nodes, func(n *cluster.Node) bool { return n.Zone != nodes[0].Zone }) {
		l.Zone, l.Between = cluster.Hop{}, nil
	}
	for _, h := range []*cluster.Hop{&l.Node, &l.Rack, &l.Zone} {
		h.Bandwidth *= factor(v.Bandwidth)
		x := factor(v.Latency)
		h.Latency, h.Price = h.Latency*x, h.Price*x
	}
	l.Between = slices.Clone(l.Between)
	for i := range l.Between {
		x := factor(v.Latency)
		l.Between[i].Latency, l.Between[i].Price = l.Between[i].Latency*x, l.Between[i].Price*x
	}
	c.Flows = slices.Clone(c.Flows)
	for i := range c.Flows {
		c.Flows[i].Rate *= factor(v.Rate)
	}
	return c
}
