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
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
)

// Env returns clusters of 4 to 8 nodes, which a few kinds of pods fill once. The objective is
// balance.
func Env() sim.Config {
	return sim.Config{
		Nodes: sim.IntRange{Min: 4, Max: 8},
		Sizes: []sim.NodeSize{
			{Weight: 3, Allocatable: sim.AAMLNode},
			{Weight: 2, Allocatable: cluster.Resources{MilliCPU: 32_000, Memory: 128 << 30, Pods: 110}},
			{Weight: 1, Allocatable: cluster.Resources{MilliCPU: 16_000, Memory: 128 << 30, Pods: 110}},
			{Weight: 1, Allocatable: cluster.Resources{MilliCPU: 96_000, Memory: 192 << 30, Pods: 250}},
		},
		SizeKinds: sim.IntRange{Min: 1, Max: 3}, Zones: sim.IntRange{Min: 1, Max: 3}, ControlPlane: true, Initial: 0.2,
		Shapes: []workload.Shape{
			shape("web", 4, 250, 512), shape("api", 3, 500, 1024), shape("worker", 2, 1000, 2048), shape("cache", 2, 500, 4096),
			shape("batch", 1, 2000, 2048), shape("one", 2, 1000, 4096), shape("large", 1, 4000, 16384), shape("memory", 1, 1000, 16384),
		},
		ShapeKinds: sim.IntRange{Min: 1, Max: 5}, Replicas: sim.IntRange{Min: 5, Max: 15},
		Load:      sim.FloatRange{Min: 0.25, Max: 0.95},
		Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}},
	}
}

func shape(name string, weight float64, milliCPU, mebibytes int64) workload.Shape {
	return workload.Shape{Name: name, Weight: weight, Requests: cluster.Resources{MilliCPU: milliCPU, Memory: mebibytes << 20, Pods: 1}}
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
