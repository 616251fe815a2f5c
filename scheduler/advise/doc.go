// Package advise recommends nodes for pods on a cluster, and places none. An Advisor keeps the state of a cluster with upstream's own
// informers, cache and plugins, as a kube-scheduler with LearnedScore does, and answers with that scheduler's choice. It only reads from
// the cluster.
//
// Rank serves a kube-scheduler that has filtered the nodes itself and asks for scores (an extender).
// Suggest serves people and programs: it also runs upstream's filters, and gives reasons.
package advise
