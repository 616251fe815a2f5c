// Package report writes a frame of the cluster for a pipe, a file or a message: as a
// table, as JSON or YAML of a stable schema, or as one line.
package report
