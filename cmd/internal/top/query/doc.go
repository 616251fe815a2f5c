// Package query parses and applies ktop's expressions that sort (--sort) and filter (the / key) its list of nodes.
//
// A sort expression is a column, and optionally a direction: "cpu", "name:desc".
//
// A filter expression is a list of terms that must all match. A word must occur in the node's
// name, status, role, zone, version or GPU model, in upper or lower case; !word must not. A comparison
// compares the amount that pods request, or with % its share of the allocatable amount, with
// a number: "cpu>80%", "mem<=16Gi", "gpu=0", "pods>30".
package query
