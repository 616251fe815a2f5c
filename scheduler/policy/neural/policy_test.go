package neural

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/policytest"
)

func network(t testing.TB, e checkpoint.Encoder, features ...string) *infer.Network {
	c := checkpoint.Random(checkpoint.Architecture{Encoder: e, Head: checkpoint.DQN, Hidden: 32, Features: features,
		Graph: checkpoint.GraphOf(features)}, rand.New(rand.NewPCG(1, 2)))
	n, err := infer.New(c)
	fatal.If(t, err)
	return n
}

// A policy that has scored many snapshots gives the scores of a new policy.
func TestPolicyForgetsHistory(t *testing.T) {
	for _, e := range []checkpoint.Encoder{checkpoint.GNN, checkpoint.MLP} {
		net := network(t, e)
		rapid.Check(t, func(t *rapid.T) {
			s := policytest.DrawSnapshot(t)
			serial := 0
			old := New("x", net, nil)
			for range 8 {
				pod, candidates := &cluster.Pod{Requests: policytest.DrawRequests(t)}, policytest.DrawCandidates(t, len(s.Nodes))
				got := policytest.Scores(t, old, s, pod, candidates)
				policytest.Near(t, got, policytest.Scores(t, New("y", net, nil), s, pod, candidates))
				policytest.Change(t, s, &serial)
			}
		})
	}
}

func TestOrderOfNodesMeansNothing(t *testing.T) {
	for _, e := range []checkpoint.Encoder{checkpoint.GNN, checkpoint.MLP} {
		net := network(t, e)
		rapid.Check(t, func(t *rapid.T) {
			policytest.CheckOrder(t, func() policy.Policy { return New("x", net, nil) })
		})
	}
}

// The devices that a network for mixed clusters chooses on a node do not depend on what it has scored before, and fit.
func TestMixedPolicyChoosesDevices(t *testing.T) {
	net, typical := network(t, checkpoint.MLP, "base", "devices"), fragmentation.NewTypical(gpuDemand)
	rapid.Check(t, func(t *rapid.T) {
		p := New("x", net, typical)
		s := &cluster.Snapshot{Nodes: []*cluster.Node{policytest.GPUNode(64_000, 0), policytest.GPUNode(64_000, 3),
			policytest.GPUNode(64_000, 4)}}
		for range 8 {
			pod := &cluster.Pod{Requests: rapid.SampledFrom(gpuDemand).Draw(t, "pod").Requests}
			rows := s.Feasible(pod, nil)
			if len(rows) == 0 {
				return
			}
			policytest.Scores(t, p, s, pod, rows)
			n := s.Nodes[rapid.SampledFrom(rows).Draw(t, "node")]
			on, anew := p.Devices(n, pod), New("y", net, typical)
			if want := anew.Devices(n, pod); on != want {
				t.Fatalf("devices %b, want %b", on, want)
			}
			n.AddOn(pod.Requests, on)
			for i, used := range n.GPUs {
				if used > cluster.DeviceMilli {
					t.Fatalf("device %d has %d thousandths", i, used)
				}
			}
		}
	})
}
