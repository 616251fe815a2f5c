// Package contender finds the policies that an evaluation compares: heuristics and shipped
// networks by name, and networks, tables and linear weights in files.
//
// For an evaluation on a cluster it also gives each policy the profile with which kube-scheduler
// decides the same way.
package contender
