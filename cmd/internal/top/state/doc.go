// Package state adds up what ktop shows. It is told of nodes and pods one change at a time, and
// returns the totals at any moment as a [Frame].
//
// A change costs the same however large the cluster is: every node has its own running sums,
// and of a pod only five numbers are kept. The package does not talk to an API server, read a
// clock or start a goroutine.
package state
