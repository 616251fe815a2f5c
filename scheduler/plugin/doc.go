// Package plugin holds our two kube-scheduler plugins: LearnedScore lets a network or a heuristic
// score nodes, and GPUShares assigns GPU devices to pods.
//
// A decision of LearnedScore is a pipeline of four stages, called in order by PreScore (learnedscore.go):
//
//   - see (see.go) turns the pod and the nodes of kube-scheduler's snapshot into plain values;
//   - narrow (narrow.go) leaves the feasible nodes that are held for the pod or that the preferences of manifests leave;
//   - decide (decide.go) lets the profile's decider score the nodes, or upstream's plugins if it fails;
//   - rank (rank.go) turns the scores into integers in 0 to 100 and keeps them in CycleState, where Score looks them up.
//
// Only the best node gets 100, because kube-scheduler draws at random among equal nodes. A heuristic
// with RandomTies gives 100 to all tied best nodes.
//
// GPUShares (gpushares.go) and LearnedDevices (package dra) let the decider of their profile (profile.go) choose devices. What the
// decider sees is brought up to date in one place, for nodes and for devices (see.go).
//
// A decider never makes a pod fail. If its network is missing, panics, misses the deadline or
// returns values that are not finite, kube-scheduler's default scoring decides this time
// (decide.go), and a metric and a log line give the reason.
//
// A profile with listeners makes a decision.Decision of each scored pod (recorder.go). A profile
// with LearnArgs also explores, and its learner is such a listener (learner.go). Recording (registry.go) makes a
// record.Book another one. To add one more, implement decision.Listener and add it in Recording.listen.
package plugin
