// Package plan says how a recorded cluster could do with fewer nodes. Nothing is done to any cluster.
//
// [Find] looks for moves of pods that empty nodes. A node is emptied whole or left as it is. Its pods move to nodes in use that
// upstream's filters accept, to the fullest of them. Nodes are taken in several orders, such as those with the fewest
// pods first, and the order that empties most nodes wins. That is a heuristic: there may be a better list.
package plan
