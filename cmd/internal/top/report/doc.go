// Package report writes a frame of the cluster to a pipe or a file: as a table, as JSON or
// YAML with a stable schema, or as one line.
package report
