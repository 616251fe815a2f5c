// Package view draws a cluster on a terminal and answers keys. It is the bubbletea model behind
// ktop and the demo.
//
// The model calls its Read function once per interval and draws the frame that it returns;
// events in the cluster cause no redraws. The output depends only on the configuration, the
// messages and the frames, so that tests can compare it with golden files.
//
// Each list that a person can look at is a screen: the nodes, the heat map, the decisions, the help. A screen
// that shows more than every frame holds asks for details. To add one, see screen.go.
package view
