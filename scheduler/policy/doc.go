// Package policy decides: given a snapshot, a pending pod and the nodes that it fits on, a
// policy gives each of them a score. The learned policy and the heuristics that it is held
// against stand behind one interface, so that scheduler, simulator and evaluation run them
// alike.
package policy
