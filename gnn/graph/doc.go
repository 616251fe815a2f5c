// Package graph is the typed graph that a network reads at one decision: what its vertices
// and edges are, which features they carry, and how several graphs become one batch. It
// knows neither Kubernetes nor a tensor library.
//
// Vertices are the nodes, the groups of running pods (per node and shape, with a count), the
// zones, the pending pod and the cluster. Edges are runs-on (group to node, weighted by the
// count), in-zone (node to zone), part-of (node and zone to cluster) and candidate-for (node
// to pending pod, with features of the node after placement). Zones and edges other than
// candidate-for carry no features of their own.
package graph
