// Package plugin is LearnedScore, the kube-scheduler plugin that lets a network, or a
// heuristic in its place, score nodes.
//
// PreScore mirrors the scheduler's snapshot into plain values, runs the network once over
// the feasible nodes and keeps one integer a node in CycleState; Score looks it up. The
// integers keep the network's order, and the best node alone gets 100, since kube-scheduler
// draws by chance among equals. A heuristic that is to be drawn for among its equals leaves
// 100 to all of them.
//
// A network or heuristic that is missing, panics, misses its deadline or gives values that are not finite
// never fails a pod: that decision is upstream's default scoring instead, and a metric and a
// log line say so.
package plugin
