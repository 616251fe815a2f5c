// Package optimum finds the best possible placement of an episode by exhaustive search. The search
// knows all arrivals in advance and may leave out a pod that would fit, so no policy can do better.
// It is feasible for a few nodes and about a dozen pods.
package optimum
