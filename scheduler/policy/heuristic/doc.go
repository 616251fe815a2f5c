// Package heuristic holds the policies that follow a fixed rule instead of learned weights: one
// file for each, and the list of all of them in list.go. Add a heuristic by writing its file and
// naming it in that list.
package heuristic
