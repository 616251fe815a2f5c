// Package view draws a cluster on a terminal and answers the keys: the bubbletea model
// behind ktop and behind the demo.
//
// The model asks its Read function for a frame once per interval and draws that; nothing
// that happens in the cluster causes a redraw of its own. What is drawn depends only on
// the configuration, the messages and the frames, so tests compare it with golden files.
package view
