// Package layer describes networks as lists of layers. A checkpoint's architecture gives the list. Package infer runs
// it forward in plain Go and follows it backward to explain a score; package torch trains it. None of them names a
// layer, so that a new one is a line in a list here. A term that computes something else than these is also a case in each place that
// interprets terms: Layer.params here, newProgram, term.add and tape.add in infer, Network.affine in torch, and the start values in
// checkpoint.Random.
//
// A layer gives one vector to each vertex of a Kind: the sum of some terms, normalised and rectified if the layer
// says so. A term is a matrix times the features of the vertex, or times the vectors of an earlier layer. Where that
// layer is of another kind, the two kinds decide how its vectors become one:
//
//	group → node          mean over the groups of pods on the node, weighted by pods
//	device → node         sum over the node's devices
//	node → zone, cluster  mean over the nodes of the zone, or of the cluster
//	path → candidate      sum over the candidate's paths, weighted by the share of the traffic
//	candidate → cluster   mean over the candidates
//	all others            the vector of the vertex that it belongs to: a candidate's node, zone and pod, say
//
// This is message passing in the manner of GraphSAGE (Hamilton et al. 2017) with one matrix a relation as in R-GCN
// (Schlichtkrull et al. 2018).
package layer
