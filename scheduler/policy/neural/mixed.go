package neural

import (
	"slices"

	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
)

// MixedPolicy scores with the two networks of a checkpoint for clusters where some nodes have GPUs and
// others have none. A pod that requests GPUs goes by the devices' network. For any other pod:
//
//  1. The devices' network says what its placement takes from the GPUs: CPU that GPU pods will need. It takes
//     nothing on a node without GPUs.
//  2. Among the candidates where it takes at most the tolerance more than on the best one, the nodes'
//     network decides. It sees these and the nodes without GPUs, for only they are to be even, and the nodes
//     on which peers of the pod run. If all of the candidates have GPUs, the devices' network decides.
//
// It is not safe for concurrent use.
type MixedPolicy struct {
	name      string
	nodes     *Policy
	devices   *GPUPolicy
	tolerance float32 // GPU devices

	spared []int32 // candidates among which the nodes' network decides
	at     []int32 // their indices
	scores []float32
	view   cluster.Snapshot // what the nodes' network sees
	place  []int32          // of each node of the snapshot: its row in the view, or hidden
	rows   []int32          // of the spared candidates in the view
}

const hidden = -1 // a node that is not in the view

// NewMixed returns the policy of a network. typical is the workload's typical pods, nil if they are not known.
func NewMixed(name string, net *infer.MixedNetwork, typical *fragmentation.Typical) *MixedPolicy {
	return &MixedPolicy{name: name, nodes: New(name, net.Nodes), devices: NewGPU(name, net.Devices, typical), tolerance: net.Tolerance}
}

// Name implements policy.Policy.
func (m *MixedPolicy) Name() string { return m.name }

// Until sets the function that reports whether a decision's deadline has passed. Score then gives up with
// infer.ErrDeadline.
func (m *MixedPolicy) Until(expired func() bool) {
	m.nodes.Until(expired)
	m.devices.Until(expired)
}

// KeepLonger is KeepLonger of the network for GPUs.
func (m *MixedPolicy) KeepLonger() { m.devices.KeepLonger() }

// Devices implements policy.DeviceChooser.
func (m *MixedPolicy) Devices(n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet {
	return m.devices.Devices(n, pod)
}

// Score implements policy.Policy.
func (m *MixedPolicy) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	if err := m.devices.Score(s, pod, candidates, scores); err != nil || pod.Requests.TotalGPUMilli() > 0 || len(candidates) == 0 {
		return err
	}
	// A placement cannot add GPUs: a gain is an error of the network.
	for i := range scores {
		scores[i] = min(scores[i], 0)
	}
	m.spare(candidates, scores)
	if !slices.ContainsFunc(m.spared, func(row int32) bool { return s.Nodes[row].Allocatable.GPU == 0 }) {
		return nil
	}
	m.look(s)
	if err := m.nodes.Score(&m.view, pod, m.rows, m.scores); err != nil {
		return err
	}
	below := slices.Min(m.scores) - 1 // the others lie below them, in the order of the devices' network
	for i := range scores {
		scores[i] += below
	}
	for i, at := range m.at {
		scores[at] = m.scores[i]
	}
	return nil
}

// spare chooses the candidates for the nodes' network. scores are what a placement takes from the GPUs, times -1.
func (m *MixedPolicy) spare(candidates []int32, scores []float32) {
	m.spared, m.at = m.spared[:0], m.at[:0]
	least := slices.Max(scores)
	for i, x := range scores {
		if x >= least-m.tolerance {
			m.spared, m.at = append(m.spared, candidates[i]), append(m.at, int32(i))
		}
	}
	m.scores = slices.Grow(m.scores[:0], len(m.spared))[:len(m.spared)]
	clear(m.scores)
}

// look makes the view of the nodes' network: the nodes without GPUs, the spared candidates, and the nodes with pods that
// the pending one talks to, all in their order.
func (m *MixedPolicy) look(s *cluster.Snapshot) {
	m.place = slices.Grow(m.place[:0], len(s.Nodes))[:len(s.Nodes)]
	for i, n := range s.Nodes {
		m.place[i] = hidden
		if n.Allocatable.GPU == 0 {
			m.place[i] = 0
		}
	}
	for _, row := range m.spared {
		m.place[row] = 0
	}
	for _, peers := range [...][]cluster.Peer{s.Peers, s.Beyond} {
		for _, peer := range peers {
			m.place[peer.Row] = 0
		}
	}
	m.view.Nodes, m.view.Now = m.view.Nodes[:0], s.Now
	for i, n := range s.Nodes {
		if m.place[i] != hidden {
			m.place[i] = int32(len(m.view.Nodes))
			m.view.Nodes = append(m.view.Nodes, n)
		}
	}
	m.rows = m.rows[:0]
	for _, row := range m.spared {
		m.rows = append(m.rows, m.place[row])
	}
	m.view.Peers, m.view.Beyond = m.placed(s.Peers), m.placed(s.Beyond)
}

// placed returns peers with their rows in the view; nil if they are not known, which is not the same as none.
func (m *MixedPolicy) placed(peers []cluster.Peer) []cluster.Peer {
	out := slices.Clone(peers)
	for i := range out {
		out[i].Row = m.place[out[i].Row]
	}
	return out
}
