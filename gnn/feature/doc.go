// Package feature lists the features of a network's input: every number that a network sees of a
// cluster and of the pending pod, with its name, its meaning and the function that computes it.
//
// Features come in sets. A [Set] is for [gnnsched/gnn/graph.Graph], which any cluster has, or for
// [gnnsched/gnn/graph.GPUNode], the nodes of a GPU cluster with their devices. A
// checkpoint's architecture names the sets that its network reads, one after another. A checkpoint
// that names none reads [Base] or [GPUBase]. So a new set leaves every existing checkpoint valid:
//
//	feature.Register(&feature.Set{
//		Name: "slots",
//		Doc:  "Free pod slots.",
//		Node: []feature.NodeBlock{
//			feature.One("slots", "free pod slots / 110", func(n *feature.Node) float32 {
//				return float32(n.State.Free().Pods) / 110
//			}),
//		},
//	})
//
// The functions read a context, which package encode fills: [Node], [Group], [Pod] and [Candidates]. All features are
// ratios or logarithms of ratios, so that a network that was trained on clusters of one size can read clusters of another.
//
// A set that has shipped does not change. A feature with another meaning needs another name, or
// another Version of its set; both change the schema hash, and with it every checkpoint that reads
// the set.
package feature
