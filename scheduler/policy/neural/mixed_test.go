package neural

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/policytest"
)

func mixedNetwork(t testing.TB, tolerance float32) *infer.MixedNetwork {
	r := rand.New(rand.NewPCG(1, 2))
	nodes := checkpoint.Random(checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 8}, r)
	devices := checkpoint.Random(checkpoint.Architecture{Graph: checkpoint.GPUGraph, Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 8}, r)
	c, err := checkpoint.Join(nodes, devices, tolerance)
	if err != nil {
		t.Fatal(err)
	}
	net, err := infer.NewMixed(c)
	if err != nil {
		t.Fatal(err)
	}
	return net
}

// On clusters with both kinds of nodes: a GPU pod gets the scores of the devices' network. Of the candidates of another
// pod, those where it takes at most the tolerance more than the least have the scores of the nodes' network, and
// the others are below them, in the order of the devices' network. If all of those have GPUs, all scores are the devices'
// network's.
func TestMixedPolicy(t *testing.T) {
	typical := fragmentation.NewTypical(gpuDemand)
	cpu := cluster.Resources{MilliCPU: 2000, Pods: 1}
	for _, tolerance := range []float32{0, 0.01, 1} {
		net := mixedNetwork(t, tolerance)
		rapid.Check(t, func(t *rapid.T) {
			s := &cluster.Snapshot{}
			for range rapid.IntRange(1, 6).Draw(t, "nodes") {
				n := policytest.GPUNode(rapid.SampledFrom([]int64{8000, 64_000}).Draw(t, "cpu"), rapid.Int64Range(0, 4).Draw(t, "devices"))
				for range rapid.IntRange(0, 3).Draw(t, "pods") {
					if n.Fit(&cluster.Pod{Requests: cpu}) == cluster.Fits {
						n.Add(cpu)
					}
				}
				s.Nodes = append(s.Nodes, n)
			}
			pod := &cluster.Pod{Requests: rapid.SampledFrom(gpuDemand).Draw(t, "pod").Requests}
			rows := s.Feasible(pod, nil)
			if len(rows) == 0 {
				return
			}
			got := policytest.Scores(t, NewMixed("mixed", net, typical), s, pod, rows)
			takes := policytest.Scores(t, NewGPU("devices", net.Devices, typical), s, pod, rows)
			if pod.Requests.TotalGPUMilli() > 0 {
				policytest.Near(t, got, takes)
				return
			}
			for i := range takes {
				takes[i] = min(takes[i], 0)
			}
			var spared []int32
			for i, x := range takes {
				if x >= slices.Max(takes)-tolerance {
					spared = append(spared, rows[i])
				}
			}
			if !slices.ContainsFunc(spared, func(row int32) bool { return s.Nodes[row].Allocatable.GPU == 0 }) {
				policytest.Near(t, got, takes)
				return
			}
			view, place := &cluster.Snapshot{}, map[int32]int32{}
			for i, n := range s.Nodes {
				if n.Allocatable.GPU == 0 || slices.Contains(spared, int32(i)) {
					place[int32(i)] = int32(len(view.Nodes))
					view.Nodes = append(view.Nodes, n)
				}
			}
			var at []int32
			for _, row := range spared {
				at = append(at, place[row])
			}
			want := policytest.Scores(t, New("nodes", net.Nodes), view, pod, at)
			var scores []float32
			for i, v := range rows {
				if slices.Contains(spared, v) {
					scores = append(scores, got[i])
				} else if got[i] > slices.Min(want)-1 {
					t.Fatalf("node %d takes %v from the GPUs and scores %v, above %v", v, takes[i], got[i], want)
				}
			}
			policytest.Near(t, scores, want)
		})
	}
}

// A pod without GPUs goes to an ordinary node while GPU pods need the CPU of the node with GPUs, and
// without nodes with GPUs the nodes' network decides alone.
func TestMixedPolicyWithoutGPUs(t *testing.T) {
	net := mixedNetwork(t, 0.1)
	rapid.Check(t, func(t *rapid.T) {
		policytest.CheckOrder(t, func() policy.Policy { return NewMixed("x", net, nil) })
		s := policytest.DrawSnapshot(t)
		for _, n := range s.Nodes {
			n.Allocatable.GPU, n.GPUs = 0, nil
		}
		pod, candidates := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 100, Pods: 1}}, policytest.DrawCandidates(t, len(s.Nodes))
		policytest.Near(t, policytest.Scores(t, NewMixed("x", net, nil), s, pod, candidates), policytest.Scores(t, New("y", net.Nodes), s, pod, candidates))
	})
}

func TestMixedPolicyGivesUp(t *testing.T) {
	s := &cluster.Snapshot{}
	var rows []int32
	for i := range 200 {
		s.Nodes, rows = append(s.Nodes, policytest.GPUNode(64_000, 2)), append(rows, int32(i))
	}
	p := NewMixed("late", mixedNetwork(t, 0.1), nil)
	p.Until(func() bool { return true })
	if err := p.Score(s, &cluster.Pod{Requests: policytest.Whole(1)}, rows, make([]float32, len(rows))); !errors.Is(err, infer.ErrDeadline) {
		t.Errorf("%v, want the deadline missed", err)
	}
}

// The nodes' network sees no node with GPUs that is neither spared nor has peers of the pod, in whatever order the candidates
// come; and peers that are not known stay unknown.
func TestMixedView(t *testing.T) {
	s := &cluster.Snapshot{Now: 7}
	for _, devices := range []int64{0, 2, 2, 0, 2} {
		s.Nodes = append(s.Nodes, policytest.GPUNode(64_000, devices))
	}
	m := NewMixed("x", mixedNetwork(t, 0.1), nil)
	m.spared = []int32{4, 3, 0}
	for _, c := range []struct {
		peers, seen []cluster.Peer
		nodes       []*cluster.Node
		rows        []int32
	}{
		{peers: []cluster.Peer{}, seen: []cluster.Peer{}, nodes: []*cluster.Node{s.Nodes[0], s.Nodes[3], s.Nodes[4]}, rows: []int32{2, 1, 0}},
		{peers: []cluster.Peer{{Row: 2, Rate: 5}}, seen: []cluster.Peer{{Row: 1, Rate: 5}}, nodes: []*cluster.Node{s.Nodes[0], s.Nodes[2], s.Nodes[3], s.Nodes[4]}, rows: []int32{3, 2, 0}},
		{nodes: []*cluster.Node{s.Nodes[0], s.Nodes[3], s.Nodes[4]}, rows: []int32{2, 1, 0}},
	} {
		s.Peers = c.peers
		m.look(s)
		if !slices.Equal(m.view.Nodes, c.nodes) || !slices.Equal(m.rows, c.rows) || m.view.Now != 7 {
			t.Errorf("with peers %v: %d nodes, rows %v", c.peers, len(m.view.Nodes), m.rows)
		}
		if !slices.Equal(m.view.Peers, c.seen) || (m.view.Peers == nil) != (c.seen == nil) {
			t.Errorf("with peers %v: sees %v, want %v", c.peers, m.view.Peers, c.seen)
		}
	}
}
