// Package plugin holds our two kube-scheduler plugins: LearnedScore lets a network or a heuristic
// score nodes, and GPUShares assigns GPU devices to pods.
//
// LearnedScore (learnedscore.go) keeps a copy of kube-scheduler's snapshot in plain values
// (mirror.go). In PreScore it first narrows the feasible nodes down to those that the preferences of
// manifests leave (preferences.go). It lets the profile's decider (decider.go) score all feasible
// nodes at once, takes the scores of those that are left, turns them into integers in 0 to 100
// (scoring.go) and keeps these in CycleState. Score looks them up.
//
// Only the best node gets 100, because kube-scheduler draws at random among equal nodes. A heuristic
// with RandomTies gives 100 to all tied best nodes.
//
// GPUShares (gpushares.go) and LearnedDevices (package dra) let the decider of their profile (profile.go) choose devices. What the
// decider sees is brought up to date in one place, for nodes and for devices (mirror.go).
//
// A decider never makes a pod fail. If its network is missing, panics, misses the deadline or
// returns values that are not finite, kube-scheduler's default scoring decides this time
// (upstream.go), and a metric and a log line give the reason.
//
// A profile with listeners makes a decision.Decision of each scored pod (recorder.go). A profile
// with LearnArgs also explores, and its learner is such a listener (learner.go). Recording (registry.go) makes a
// record.Book another one. To add one more, implement decision.Listener and add it in Recording.listen.
package plugin
