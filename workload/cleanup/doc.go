// Package cleanup finds and removes what runs of the workload made on a cluster, by their
// labels, and nothing else.
//
// Objects are deleted as collections, ten thousand pods in one request. A namespace goes only
// if a run made it and nothing of anybody else is left in it.
package cleanup
