// Package decision defines a scheduling decision as a value and delivers it to listeners.
//
// In a profile with listeners, the plugin makes one Decision for each pod that it scores, whether a
// network, a heuristic or, as a fallback, kube-scheduler's own scoring decided. Today only profiles that
// learn have a listener. A Queue hands decisions to a Listener without
// ever letting the scheduler wait. The online learner is such a listener.
package decision
