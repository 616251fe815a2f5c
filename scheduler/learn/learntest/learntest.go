// Package learntest holds what the tests of several methods of learning share: a small cluster of
// the simulator, networks for it, and a scheduler that learns.
package learntest

import (
	"math/rand/v2"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
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
