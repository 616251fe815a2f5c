// Package memcluster keeps a cluster in memory, in which a profile of kube-scheduler filters and scores as it does in
// the scheduler. Nothing is placed on a real cluster.
//
// A [Cluster] has upstream's cache and plugins, and a ledger of its nodes as plain values, for objectives. It follows the events that its
// caller tells it, in their order. [Placements] holds its running and waiting pods: the profile places them, and waiting pods are tried
// again when room is freed.
package memcluster
