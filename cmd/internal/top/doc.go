// Package top is the live view of a cluster, ready to be put on a terminal: it ties the
// rooms below it together.
//
//	watch ──changes──▶ state ──a frame a tick──▶ view   (a terminal)
//	                                       └───▶ report (a table, JSON, one line)
//
// query is how a person sorts and filters either. [Run] draws until the reader quits;
// [Follow] prints at an interval; [Snapshot] looks once.
package top
