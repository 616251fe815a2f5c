// Package learn teaches a network to place pods in the simulator: deep Q-learning with
// experience replay, and proximal policy optimisation, both with a heuristic as their first
// teacher.
//
// A Job says how and on what; a Trainer runs it: agents act and learn in rounds, held-out
// workloads judge the network as it goes, the best one is kept, and what a killed run needs to
// end where it would have ended is stored.
//
// What touches libtorch carries the build tag torch; the rest is plain Go.
package learn
