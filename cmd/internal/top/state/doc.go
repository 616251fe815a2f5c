// Package state adds up ktop's totals. It takes changes of nodes and pods one at a time, and returns the totals at any moment as a [Frame].
//
// A change costs the same however large the cluster is: every node has its own running sums,
// and of a pod only five numbers are kept. The package does not talk to an API server, read a
// clock or start a goroutine.
package state
