package encode

import (
	"cmp"
	"slices"

	"gnnsched/gnn/feature"
	"gnnsched/internal/cluster"
)

// maxPeers is the largest number of nodes with peers in a graph, and of nodes with pods two steps away: those with the most
// traffic. It bounds the time of a decision.
const maxPeers = 64

// encodePaths writes the nodes on which peers of the pending pod run, then those with pods two steps away, and the paths from
// the candidates to both.
func (e *Encoder) encodePaths(s *cluster.Snapshot) {
	t, peers, beyond := cluster.TrafficOf(s.Nodes), most(s.Peers), most(s.Beyond)
	if t == nil {
		peers, beyond = nil, nil
	}
	g, width := &e.g, e.layout.Widths.Path
	count := len(peers) + len(beyond)
	if g.ResizePeers(count); count == 0 {
		return
	}
	e.weigh(peers, 0)
	e.weigh(beyond, len(peers))
	var rooms [2 * maxPeers]feature.Room
	for k, row := range g.Peers {
		rooms[k] = e.candidates.RackRoom(row)
	}
	path := feature.Path{Network: t.Network}
	x := g.PathX
	for _, row := range g.Candidates {
		path.Candidate = row
		for k, peer := range g.Peers {
			path.Peer, path.PeerRoom, path.Beyond = peer, rooms[k], k >= len(peers)
			feature.Fill(e.layout.Path, &path, x[:width])
			x = x[width:]
		}
	}
}

// most returns the maxPeers peers with the most traffic.
func most(peers []cluster.Peer) []cluster.Peer {
	if len(peers) <= maxPeers {
		return peers
	}
	peers = slices.Clone(peers)
	slices.SortStableFunc(peers, func(a, b cluster.Peer) int { return cmp.Compare(b.Rate, a.Rate) })
	return peers[:maxPeers]
}

// weigh writes peers to the graph from a place on, with weights that add up to 1.
func (e *Encoder) weigh(peers []cluster.Peer, at int) {
	var all float64
	for _, p := range peers {
		all += p.Rate
	}
	for i, p := range peers {
		e.g.Peers[at+i], e.g.PeerWeight[at+i] = p.Row, float32(p.Rate/max(all, 1))
	}
}
