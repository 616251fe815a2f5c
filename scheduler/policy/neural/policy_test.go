package neural

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

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

// scale multiplies all weights.
func scale(c *checkpoint.Checkpoint, by float32) *checkpoint.Checkpoint {
	for _, w := range c.Weights {
		for i := range w.Data {
			w.Data[i] *= by
		}
	}
	return c
}

// All networks that the program carries and untrained ones pass; those whose passes overflow do not.
func TestTry(t *testing.T) {
	for _, name := range checkpoint.ShippedNames() {
		c := fatal.Value(checkpoint.Shipped(name))(t)
		if err := Try(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		fresh := checkpoint.Random(c.Manifest.Architecture, rand.New(rand.NewPCG(1, 1)))
		if err := Try(fresh); err != nil {
			t.Errorf("%s, untrained: %v", name, err)
		}
		for _, w := range fresh.Weights {
			for i := range w.Data {
				w.Data[i] = 3.4e38
			}
		}
		if err := Try(fresh); !errors.Is(err, ErrFails) {
			t.Errorf("%s with weights of 3.4e38: %v", name, err)
		}
	}
}

// A network may make the standard decisions and fail in one that a scheduler made.
func TestTryKept(t *testing.T) {
	a := checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.DQN, Hidden: 8}
	network := func(by float32) *checkpoint.Checkpoint {
		return scale(checkpoint.Random(a, rand.New(rand.NewPCG(3, 3))), by)
	}
	by := float32(1)
	for Try(network(2*by)) == nil {
		by *= 2
	}
	huge := cluster.Resources{MilliCPU: 1 << 50, Memory: 1 << 60, Pods: 1}
	n := &cluster.Node{Allocatable: cluster.Resources{MilliCPU: 10, Memory: 1 << 10, Pods: 1}, Requested: huge}
	pod := &cluster.Pod{Requests: huge}
	var k Latest
	k.Keep(Decision{Snapshot: &cluster.Snapshot{Nodes: []*cluster.Node{n, n}}, Pod: pod, Candidates: []int32{0, 1}}, time.Unix(0, 0))
	if err := Try(network(by), k.Decisions()...); !errors.Is(err, ErrFails) {
		t.Errorf("%v with weights times %v", err, by)
	}
	if err := Try(network(1), k.Decisions()...); err != nil {
		t.Error(err)
	}
}

// The latest decisions are kept, one in ten seconds, on copies of at most 64 nodes that later changes do not reach.
func TestKept(t *testing.T) {
	s := &cluster.Snapshot{}
	var rows []int32
	for i := range 200 {
		s.Nodes = append(s.Nodes, &cluster.Node{GPUs: make([]int64, 1)})
		rows = append(rows, int32(i))
	}
	var k Latest
	for second := range 200 {
		pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: int64(second)}}
		k.Keep(Decision{Snapshot: s, Pod: pod, Candidates: rows}, time.Unix(int64(second), 0))
	}
	s.Nodes[0].GPUs[0] = 1
	seen := map[int64]bool{}
	for _, d := range k.Decisions() {
		seen[d.Pod.Requests.MilliCPU] = true
		first := d.Snapshot.Nodes[0]
		if len(d.Candidates) != 50 || len(d.Snapshot.Nodes) != 50 || first.GPUs[0] != 0 {
			t.Errorf("%d candidates of %d nodes, the first %+v", len(d.Candidates), len(d.Snapshot.Nodes), first)
		}
	}
	for second := int64(120); second < 200; second += 10 {
		if !seen[second] || len(seen) != keptDecisions {
			t.Errorf("kept %v, not %d", seen, second)
		}
	}
}
