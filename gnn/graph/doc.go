// Package graph is the typed graph that a network reads at one decision: its vertices, its edges,
// and how several graphs become one batch. Package feature lists the features that vertices and edges
// carry. This package knows neither Kubernetes nor a tensor library.
//
// Vertices are the nodes, the groups of running pods (per node and shape, with a count), the
// zones, the pending pod and the cluster. Edges are runs-on (group to node, weighted by the
// count), in-zone (node to zone), part-of (node and zone to cluster) and candidate-for (node
// to pending pod, with features of the node after placement). Zones and edges other than
// candidate-for carry no features of their own.
package graph
