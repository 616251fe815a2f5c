package feature

import (
	"math"

	"gnnsched/internal/cluster"
)

func init() { Register(traffic) }

// traffic describes what the pending pod exchanges with running pods, and how far its candidates are from these. All is
// 0 where traffic is not known.
var traffic = &Set{
	Name:    "traffic",
	Doc:     "How far a candidate is from the pods that the pending pod talks to, and how full the links on the way are. A rack is a zone vertex.",
	Version: 1,
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
		One("peer_share", "bytes a second of the pending pod with its peers / those of all running pods, at most 4", func(c *Candidates) float32 {
			t, rate := cluster.TrafficOf(c.Nodes), 0.0
			if t == nil {
				return 0
			}
			for _, p := range c.Peers {
				rate += p.Rate
			}
			return float32(min(rate/max(t.Rate, 1), limit))
		}),
	},
	Candidate: []CandidateBlock{{Features: trafficFeatures[:], Fill: fillTraffic}},
	Path: []PathBlock{
		One("same_node", "1 if the peers are on the candidate", func(p *Path) float32 { return flag(p.Candidate == p.Peer) }),
		One("same_rack", "1 if they are on another node of its rack", func(p *Path) float32 {
			return flag(p.Candidate != p.Peer && p.Network.Rack(p.Candidate) == p.Network.Rack(p.Peer))
		}),
		One("same_zone", "1 if they are in another rack of its zone", func(p *Path) float32 {
			return flag(p.Network.Rack(p.Candidate) != p.Network.Rack(p.Peer) && p.Network.Zone(p.Candidate) == p.Network.Zone(p.Peer))
		}),
		One("path_distance", "distance as a share of the farthest", func(p *Path) float32 {
			return float32(p.Network.Path(p.Candidate, p.Peer).Distance)
		}),
	},
}

// trafficFeatures describe a candidate once the pod is placed there.
var trafficFeatures = [...]Feature{
	{Name: "near_node", Doc: "share of the pod's traffic that stays on the node"},
	{Name: "near_rack", Doc: "share that stays in its rack and leaves the node"},
	{Name: "near_zone", Doc: "share that stays in its zone and leaves the rack"},
	{Name: "far", Doc: "mean distance to the pod's peers, weighted by traffic, as a share of the farthest"},
	{Name: "far_rank", Doc: "(far - mean over the candidates) / (standard deviation over the candidates + 0.05), within ±4"},
	{Name: "node_link", Doc: "load of the node's link with what the pod adds / bandwidth, at most 4; 0 without a limit"},
	{Name: "rack_link", Doc: "the same of its rack's uplink"},
	{Name: "zone_link", Doc: "the same of its zone's uplink"},
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
	var far moments
	var rate float64
	for _, p := range c.Peers {
		rate += p.Rate
	}
	n := t.Network
	for i, v := range c.Rows {
		node, rack, zone, distance := n.Near(v, c.Peers)
		far.add(distance)
		leavesNode := rate * (1 - node)
		leavesRack := leavesNode - rate*rack
		leavesZone := leavesRack - rate*zone
		copy(out.Row(i), []float32{
			float32(node), float32(rack), float32(zone), float32(distance), 0,
			within(t.Use(int(v), leavesNode), 0), within(t.Use(n.RackLink(v), leavesRack), 0), within(t.Use(n.ZoneLink(v), leavesZone), 0),
		})
	}
	mean, scale := float32(far.mean()), 1/float32(far.std()+0.05)
	for i := range c.Rows {
		row := out.Row(i)
		row[4] = clamp((row[3] - mean) * scale)
	}
}
