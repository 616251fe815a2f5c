// Package overcommit keeps schedulers that do not know of each other from binding more pods to a node than it has room for. The API
// server binds a pod to any node, so two schedulers that decide at the same time may both take the rest of one.
//
// [Guard] wraps the profiles of a scheduler. While pods of other schedulers come to the cluster, a pod is announced before it is bound:
// status.nominatedNodeName gets its node, as upstream does itself for pods that need volumes or devices. Then the guard waits until the
// watch shows what was written. Of two pods that are announced for one node, the one with the lower resource version was first, for all
// schedulers. If what others have bound, or announced before, leaves too little CPU, memory, pods or extended resources, the pod is not
// bound and tries again. It looks once more right before it binds, because upstream's scheduler neither announces most pods nor looks.
//
// A Ledger of the watched pods says which those are. It also counts and logs pods that were bound beyond a node's room all the same.
package overcommit
