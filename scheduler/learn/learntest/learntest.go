// Package learntest holds what the tests of several methods of learning share: a small cluster of
// the simulator, the graph of one decision in it, and networks for it.
package learntest

import (
	"math/rand/v2"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/sim"
)

// Env returns the environment run.BalanceEnv with only 4 to 8 nodes, which are filled once. Preferences
// are off, so that every candidate may be chosen.
func Env() sim.Config {
	c := run.BalanceEnv()
	c.Nodes = sim.IntRange{Min: 4, Max: 8}
	c.Turnover = 0
	c.Preferences = preference.Off
	return c
}

// Started returns a simulator of c in the episode of a seed.
func Started(t testing.TB, c sim.Config, seed uint64) *sim.Env {
	t.Helper()
	env, err := sim.New(c)
	if err == nil {
		err = env.Reset(seed)
	}
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// Graph returns the graph of a decision in Env with at least three candidates.
func Graph(t testing.TB) *graph.Graph {
	t.Helper()
	env := Started(t, Env(), 7)
	for range 20 {
		env.Step(0)
	}
	if len(env.Candidates()) < 3 {
		t.Fatal("too few candidates")
	}
	return encode.New(feature.Default()).Encode(env.Snapshot(), env.Pending(), env.Candidates()).Clone()
}

// Weights returns a network with random weights, which depend on the seed.
func Weights(a checkpoint.Architecture, seed uint64) *checkpoint.Checkpoint {
	return checkpoint.Random(a, rand.New(rand.NewPCG(seed, seed+1)))
}

// Network returns the network of a checkpoint, ready to score.
func Network(t testing.TB, c *checkpoint.Checkpoint) *infer.Network {
	t.Helper()
	net, err := infer.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return net
}
