// Command bench measures how many pods a second kube-scheduler binds with the learned
// profile and with upstream's default profile, side by side: on a simulated cluster, and for
// the scheduler's loop alone on a client without an API server.
//
// Both profiles are in the same process with the same settings. A run binds a backlog: the
// pods are there before the scheduler starts, so that making them is not part of the
// figure. Runs alternate in the order default, learned, learned, default, so that a machine
// that gets slower or faster does not favour one; each pair of neighbours gives one ratio,
// and the result is the median ratio.
package main
