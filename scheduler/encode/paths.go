package encode

import (
	"cmp"
	"slices"

	"gnnsched/gnn/feature"
	"gnnsched/internal/cluster"
)

// maxPeers is the largest number of nodes with peers in a graph: those with the most traffic. It bounds the time of a
// decision.
const maxPeers = 64

// encodePaths writes the nodes on which peers of the pending pod run, and the paths from the candidates to them.
func (e *Encoder) encodePaths(s *cluster.Snapshot) {
	t, peers := cluster.TrafficOf(s.Nodes), s.Peers
	if t == nil {
		peers = nil
	}
	if len(peers) > maxPeers {
		peers = slices.Clone(peers)
		slices.SortStableFunc(peers, func(a, b cluster.Peer) int { return cmp.Compare(b.Rate, a.Rate) })
		peers = peers[:maxPeers]
	}
	g, width := &e.g, e.layout.Widths.Path
	g.ResizePeers(len(peers))
	var all float64
	for _, p := range peers {
		all += p.Rate
	}
	for i, p := range peers {
		g.Peers[i], g.PeerWeight[i] = p.Row, float32(p.Rate/max(all, 1))
	}
	if len(peers) == 0 {
		return
	}
	var rooms [maxPeers]feature.Room
	for k, p := range peers {
		rooms[k] = e.candidates.RackRoom(p.Row)
	}
	path := feature.Path{Network: t.Network}
	x := g.PathX
	for _, row := range g.Candidates {
		path.Candidate = row
		for k, p := range peers {
			path.Peer, path.PeerRoom = p.Row, rooms[k]
			feature.Fill(e.layout.Path, &path, x[:width])
			x = x[width:]
		}
	}
}
