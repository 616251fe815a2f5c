// Package moves searches for moves of running pods.
//
// A State holds copies of the nodes and their pods. A [Searcher] looks for moves in it, for one of three goals: [Find] lowers a cost,
// [Empty] empties nodes, and [Room] makes room for a waiting pod. [Rules] say where a pod may run beyond what its requests say.
//
// The cost of Find is any objective.Tracker. [Fragmentation] is the one for GPUs. A State keeps how much the cost changes if a pod leaves
// its node, and if a pod comes to a node, on its best devices there. For costs that are a sum over nodes these numbers are exact, and
// change only with the node. For others they order the steps, and the cost itself decides.
package moves
