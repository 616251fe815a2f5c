package feature

import (
	"math"

	"gnnsched/internal/cluster"
)

func init() { Register(traffic) }

// traffic describes what the pending pod exchanges with running pods, how far its candidates are from these, and how much room
// their racks have. All is 0 where traffic is not known.
var traffic = &Set{
	Name: "traffic",
	Doc: "How far a candidate is from the pods that the pending pod talks to, how full the links on the way are, " +
		"and what room its rack has. Messages also come from the pods two steps away. A rack is a zone vertex.",
	Version: 3,
	Racks:   true,
	Cluster: []ClusterBlock{
		One("distance", "mean distance of a byte that running pods exchange, as a share of the farthest", func(c *Candidates) float32 {
			if t := cluster.TrafficOf(c.Nodes); t != nil {
				return float32(t.MeanDistance())
			}
			return 0
		}),
		One("excess", "what links have over their bandwidth / all traffic, at most 4", func(c *Candidates) float32 {
			if t := cluster.TrafficOf(c.Nodes); t != nil {
				return float32(min(t.ExcessShare(), limit))
			}
			return 0
		}),
		One("peers", "log2(1 + peers of the pending pod) / 4, at most 4", func(c *Candidates) float32 {
			var pods float64
			for _, p := range c.Peers {
				pods += float64(p.Pods)
			}
			return float32(min(math.Log2(1+pods)/4, limit))
		}),
		One("peer_share", "nodes · bytes a second of the pending pod with its peers / those of all running pods, at most 4",
			func(c *Candidates) float32 {
				return float32(min(float64(len(c.Nodes))*c.peerShare(), limit))
			}),
		One("racks", "log2(racks) / 4", func(c *Candidates) float32 {
			if t := cluster.TrafficOf(c.Nodes); t != nil {
				return float32(math.Log2(float64(t.Network.Racks())) / 4)
			}
			return 0
		}),
		One("rack_cpu", "free / allocatable CPU, mean over the racks", func(c *Candidates) float32 { return c.room().mean.CPU }),
		One("rack_memory", "the same of memory", func(c *Candidates) float32 { return c.room().mean.Memory }),
		One("rack_cpu_std", "free / allocatable CPU, standard deviation over the racks", func(c *Candidates) float32 { return c.room().std.CPU }),
	},
	Candidate: []CandidateBlock{{Features: trafficFeatures[:], Fill: fillTraffic}, {Features: rackFeatures[:], Fill: fillRacks}},
	Path:      []PathBlock{{Features: pathFeatures(), Fill: fillPath}},
}

// pathFeatures describe the way from a candidate to a node with peers, and again to a node with pods two steps away, so that messages
// tell the two apart. Those of the other kind are 0.
func pathFeatures() (all []Feature) {
	for _, kind := range [...]struct{ prefix, who string }{{"", "the peers"}, {beyondPrefix, "pods two steps away"}} {
		all = append(all,
			Feature{Name: kind.prefix + "same_node", Doc: "1 if " + kind.who + " are on the candidate", In: Flag},
			Feature{Name: kind.prefix + "same_rack", Doc: "1 if they are on another node of its rack", In: Flag},
			Feature{Name: kind.prefix + "same_zone", Doc: "1 if they are in another rack of its zone", In: Flag},
			Feature{Name: kind.prefix + "path_distance", Doc: "distance as a share of the farthest", In: Fraction},
			Feature{Name: kind.prefix + "peer_rack_cpu", Doc: "free / allocatable CPU of their rack - mean over the racks", In: Difference},
			Feature{Name: kind.prefix + "peer_rack_memory", Doc: "the same of memory", In: Difference},
		)
	}
	return all
}

// beyondPrefix begins the names of features of pods two steps away.
const beyondPrefix = "beyond_"

// fillPath writes the features of one path.
func fillPath(p *Path, out []float32) {
	clear(out)
	if p.Beyond {
		out = out[len(out)/2:]
	}
	n := p.Network
	sameRack, sameZone := n.Rack(p.Candidate) == n.Rack(p.Peer), n.Zone(p.Candidate) == n.Zone(p.Peer)
	copy(out, []float32{
		flag(p.Candidate == p.Peer), flag(p.Candidate != p.Peer && sameRack), flag(!sameRack && sameZone),
		float32(n.Path(p.Candidate, p.Peer).Distance), p.PeerRoom.CPU, p.PeerRoom.Memory,
	})
}

// trafficFeatures describe a candidate once the pod is placed there.
var trafficFeatures = [...]Feature{
	{Name: "near_node", Doc: "share of the pod's traffic that stays on the node", In: Fraction},
	{Name: "near_rack", Doc: "share that stays in its rack and leaves the node", In: Fraction},
	{Name: "near_zone", Doc: "share that stays in its zone and leaves the rack", In: Fraction},
	farColumn:    {Name: "far", Doc: "mean distance to the pod's peers, weighted by traffic, as a share of the farthest", In: Fraction},
	excessColumn: {Name: "over", Doc: "what the links on the way get over their bandwidth / the pod's traffic, at most 4", In: Amount},
	{Name: "node_link", Doc: "load of the node's link with what the pod adds / bandwidth, at most 4; 0 without a limit", In: Amount},
	{Name: "rack_link", Doc: "the same of its rack's uplink", In: Amount},
	{Name: "zone_link", Doc: "the same of its zone's uplink", In: Amount},
	costColumn: {Name: "rise", Doc: "(far + over - mean over the candidates) · nodes · the pod's traffic / all traffic with it, within ±4: " +
		"what it adds to traffic=1,overload=1, times the nodes"},
	farRank:  {Name: "far_rank", Doc: "(far - mean over the candidates) / (standard deviation over the candidates + 0.05), within ±4"},
	costRank: {Name: "cost_rank", Doc: "the same of far + over"},
}

// The columns of trafficFeatures that others are computed from, and these.
const (
	farColumn    = 3
	excessColumn = 4
	costColumn   = 8
	farRank      = 9
	costRank     = 10
)

// peerShare returns what the pod exchanges, as a share of all traffic with it.
func (c *Candidates) peerShare() float64 {
	t, rate := cluster.TrafficOf(c.Nodes), 0.0
	if t == nil {
		return 0
	}
	for _, p := range c.Peers {
		rate += p.Rate
	}
	return rate / max(t.Rate+rate, 1)
}

// fillTraffic writes the features of every candidate.
func fillTraffic(c *Candidates, out Rows) {
	t := cluster.TrafficOf(c.Nodes)
	if t == nil {
		for i := range c.Rows {
			clear(out.Row(i))
		}
		return
	}
	j, n := &c.joining, t.Network
	j.Begin(t, c.Peers)
	var far, cost moments
	for i, v := range c.Rows {
		a := j.At(v)
		over := min(a.Excess, limit)
		far.Add(a.Distance)
		cost.Add(a.Distance + over)
		leavesNode := j.Rate() * (1 - a.Node)
		leavesRack := leavesNode - j.Rate()*a.Rack
		leavesZone := leavesRack - j.Rate()*a.Zone
		copy(out.Row(i), []float32{
			float32(a.Node), float32(a.Rack), float32(a.Zone), float32(a.Distance), float32(over),
			within(t.Use(int(v), leavesNode), 0), within(t.Use(n.RackLink(v), leavesRack), 0), within(t.Use(n.ZoneLink(v), leavesZone), 0),
		})
	}
	weight := float32(float64(len(c.Nodes)) * c.peerShare())
	for i := range c.Rows {
		row := out.Row(i)
		x := row[farColumn] + row[excessColumn]
		row[costColumn] = clamp((x - float32(cost.Mean())) * weight)
		row[farRank], row[costRank] = far.rank(row[farColumn]), cost.rank(x)
	}
}

// rank returns a value's place among the added ones: (x - mean) / (standard deviation + 0.05), within ±limit.
func (m *moments) rank(x float32) float32 {
	return clamp((x - float32(m.Mean())) / float32(m.Std()+0.05))
}
