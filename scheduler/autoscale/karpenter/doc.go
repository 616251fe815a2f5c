//go:build !service && !k136

// Package karpenter runs Karpenter's own code as an autoscale.Scaler, in simulated time.
//
// Karpenter's Provisioner and its disruption methods decide. This package feeds them the cluster, keeps their time and carries out what
// they decide, as Karpenter's controllers do: pods are batched for 1 to 10 seconds; disruption is examined every 10 seconds, and a command
// is validated 15 seconds later; replacements start first, and candidates go when these are ready. Nothing waits in real time.
//
// Each new machine is the cheapest offering that its NodeClaim allows. The order of equal prices is by the names of type and zone.
//
// Equal steps give equal plans, on a busy machine too. There is one exception: for a pod that is to be spread over zones, Karpenter takes
// a random one of the zones that have equally many pods.
package karpenter
