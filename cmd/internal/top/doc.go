// Package top shows a cluster's nodes and pending pods and keeps the picture up to date. It
// connects the packages below it and serves ktop and the demo.
//
//	watch ──changes──▶ state ──a frame a tick──▶ view (a terminal), or a table, JSON or YAML
//
// Package query parses the expressions that sort and filter. [Run] draws until the reader
// quits; [Follow] prints at an interval; [Once] prints once.
package top
