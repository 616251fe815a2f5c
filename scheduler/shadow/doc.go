// Package shadow watches the placements of another scheduler and computes what a profile of ours would have done. It places nothing and
// only reads from the cluster.
//
// A Watcher keeps two clusters in memory (package memcluster). Theirs is the real one, by the events of the watch on pods, one after the
// other. When a pod appears bound, the profile decides on the state just before, and the two choices are compared. Ours is a
// cluster in memory that begins equal and then takes the profile's choices for all pods, which leave when they really leave. The costs of
// both are averaged over blocks of time, and the difference gets an interval (verdict.go). A Report holds all figures, and Verdict draws
// the conclusion.
package shadow
