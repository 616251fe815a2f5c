// Package plan answers questions about a recorded cluster. It changes no cluster.
//
// [Find] lets package moves look for moves of pods that empty nodes. A node is emptied whole or left as it is. Its pods move to nodes in
// use that upstream's filters accept, to the fullest of them.
//
// [Without] returns the pods without a node if the cluster loses nodes.
package plan
