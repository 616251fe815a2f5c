// Package sktrace reads and writes the traces of SimKube, in version 2 of their format, which SimKube 2.0 to 2.7 has. A trace has objects
// as they were applied and deleted over time, and when pods of each owner ran. It has neither nodes nor the nodes of pods.
//
// [Parse] reads a trace, [Trace.Record] gives its owners and pods as rows of a record, and [Write] makes a trace of a record. What one
// format has and the other lacks is counted and named in notes.
package sktrace
