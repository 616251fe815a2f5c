// Package query is how a person narrows and orders what ktop shows: the small expressions
// behind --sort and the / key.
//
// A sort is a column, with a direction if the usual one is not wanted: "cpu", "name:desc".
//
// A filter is words, all of which must match. A plain word must occur in a node's name,
// status, role, zone or version, in any case; !word must not. A comparison holds an amount
// requested, or with % its share of what is allocatable, against a number: "cpu>80%",
// "mem<=16Gi", "gpu=0", "pods>30".
package query
