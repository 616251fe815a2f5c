// Package state keeps the figures that ktop shows: it is told of nodes and pods one change
// at a time and answers at any moment with a [Frame], the whole cluster added up.
//
// A change costs the same whatever the size of the cluster, because every node carries its
// own running sum and a pod is remembered as five numbers. Nothing here talks to an API
// server, reads a clock or starts a goroutine.
package state
