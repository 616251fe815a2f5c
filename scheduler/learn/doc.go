// Package learn teaches a network to place pods in the simulator: experience replay, deep
// Q-learning with a heuristic as its first teacher, and the training loop that evaluates on
// held-out workloads as it goes and keeps the best network.
//
// What touches libtorch carries the build tag torch; the rest is plain Go.
package learn
