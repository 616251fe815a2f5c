// Package decision defines a scheduling decision as a value and delivers it to listeners.
//
// In a profile with listeners, the plugin makes one Decision for each pod that gets a node, whether a
// network, a heuristic or, as a fallback, kube-scheduler's own scoring decided. A Queue hands decisions to a
// Listener without ever letting the scheduler wait. The online learner is such a listener, and so is
// record.Book, which keeps the last decisions of all profiles.
package decision
