package neural

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/policytest"
)

func network(t testing.TB, e checkpoint.Encoder, features ...string) *infer.Network {
	c := checkpoint.Random(checkpoint.Architecture{Encoder: e, Head: checkpoint.DQN, Hidden: 32, Features: features},
		rand.New(rand.NewPCG(1, 2)))
	return fatal.Value(infer.New(c))(t)
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
