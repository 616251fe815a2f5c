// Package featuretest adds a feature set to each graph, for tests only. Tests import it to show that
// a new set leaves old checkpoints valid, and that networks read it.
package featuretest

import "gnnsched/gnn/feature"

// Name is the name of both sets.
const Name = "test"

// Names are the names of the usual set and of this package's, in an order that architectures may
// have.
var Names = []string{"base", Name}

func init() {
	feature.Register(&feature.Set{
		Name: Name, Doc: "Pod slots and counts.", Version: 1,
		Node: []feature.NodeBlock{
			feature.One("slots", "free pod slots / 110", func(n *feature.Node) float32 { return float32(n.State.Free().Pods) / 110 }),
		},
		Group: []feature.GroupBlock{
			feature.One("count", "pods of the group / 10", func(g *feature.Group) float32 { return float32(g.Total.Pods) / 10 }),
		},
		Pod: []feature.PodBlock{
			feature.One("models", "GPU models that may serve the pod / 10",
				func(p *feature.Pod) float32 { return float32(len(p.State.GPUModels)) / 10 }),
		},
		Cluster: []feature.ClusterBlock{
			feature.One("candidates", "candidates / 100", func(c *feature.Candidates) float32 { return float32(len(c.Rows)) / 100 }),
		},
		Candidate: []feature.CandidateBlock{
			feature.EachCandidate("slots", "free pod slots / 110", func(c *feature.Candidates, i int) float32 {
				return float32(c.Nodes[c.Rows[i]].Free().Pods) / 110
			}),
			feature.EachCandidate("added", "what the pod adds of CPU and memory", func(c *feature.Candidates, i int) float32 {
				return c.Shares[i].AddCPU + c.Shares[i].AddMemory
			}),
		},
	})
	feature.Register(&feature.Set{
		Name: Name, Doc: "Pod slots and totals.", Version: 1, Stars: feature.GPUStars,
		Node: []feature.NodeBlock{
			feature.One("slots", "free pod slots / 110", func(n *feature.Node) float32 { return float32(n.State.Free().Pods) / 110 }),
		},
		Cluster: []feature.ClusterBlock{
			feature.One("devices", "devices / 1000", func(c *feature.Candidates) float32 { return float32(c.Devices) / 1000 }),
		},
	})
}
